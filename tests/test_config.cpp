// Good configurations: defaults, values and their origin, --set, edges of ranges, the effective file, the generated
// page.
#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <filesystem>
#include <locale>
#include <string>
#include <vector>

#include "tests/shared.h"
#include "tools/config/config.h"
#include "tools/config/fields.h"
#include "tools/config/show.h"

namespace {

using namespace mixtape::config;
using mixtape::tests::contains;
using mixtape::tests::error_of;
using mixtape::tests::error_text;
using mixtape::tests::slurp;
using mixtape::tests::TempFolder;

const std::string required = R"("task": {"data_dir": "d"}, "tokenizer": {"vocab": "v"})";

Config parse(const std::string& rest = "", const std::vector<std::string>& sets = {}) {
  return parse_config("{" + required + (rest.empty() ? "" : ", ") + rest + "}", "c.json", "/base", sets);
}

std::string json_of(const Config& config, const std::string& path) {
  const size_t dot = path.rfind('.');
  const Field* field = find_field(dot == std::string::npos ? "" : path.substr(0, dot), path.substr(dot + 1));
  REQUIRE_MESSAGE(field != nullptr, path);
  return field->json(config);
}

std::string set_error(const std::string& argument) {
  return error_text([&] { parse("", {argument}); });
}

struct Default {
  std::string path, json;
};
const std::vector<Default> defaults = {{"task.type", "\"text_classification\""},
                                       {"task.format", "\"tweet_eval\""},
                                       {"tokenizer.lowercase", "true"},
                                       {"tokenizer.max_length", "128"},
                                       {"tokenizer.match_special_tokens", "false"},
                                       {"model.type", "\"bert\""},
                                       {"model.pretrained", "null"},
                                       {"model.config.hidden_size", "768"},
                                       {"model.config.num_hidden_layers", "12"},
                                       {"model.config.num_attention_heads", "12"},
                                       {"model.config.intermediate_size", "3072"},
                                       {"model.config.hidden_dropout_prob", "0.1"},
                                       {"model.config.attention_probs_dropout_prob", "0.1"},
                                       {"model.config.max_position_embeddings", "512"},
                                       {"model.config.type_vocab_size", "2"},
                                       {"model.config.layer_norm_eps", "1e-12"},
                                       {"model.config.initializer_range", "0.02"},
                                       {"model.config.vocab_size", "null"},
                                       {"model.pooling", "\"cls\""},
                                       {"model.head", "\"sigmoid\""},
                                       {"model.head_dropout", "0.1"},
                                       {"data.padding", "\"longest\""},
                                       {"data.length_bucketing", "true"},
                                       {"data.shuffle", "true"},
                                       {"optimizer.type", "\"adamw\""},
                                       {"optimizer.learning_rate", "2e-05"},
                                       {"optimizer.weight_decay", "0.01"},
                                       {"optimizer.adam_beta1", "0.9"},
                                       {"optimizer.adam_beta2", "0.999"},
                                       {"optimizer.adam_epsilon", "1e-08"},
                                       {"trainer.num_train_epochs", "3"},
                                       {"trainer.per_device_train_batch_size", "16"},
                                       {"trainer.gradient_accumulation_steps", "1"},
                                       {"trainer.max_grad_norm", "1"},
                                       {"trainer.seed", "42"},
                                       {"trainer.lr_scheduler_type", "\"linear\""},
                                       {"trainer.warmup_ratio", "0.1"},
                                       {"trainer.eval_strategy", "\"epoch\""},
                                       {"trainer.eval_steps", "0"},
                                       {"trainer.save_steps", "0"},
                                       {"trainer.metric", "\"macro_f1\""},
                                       {"trainer.early_stopping_patience", "0"},
                                       {"trainer.logging_steps", "10"},
                                       {"trainer.save_total_limit", "2"},
                                       {"trainer.max_steps", "0"},
                                       {"trainer.max_train_rows", "0"},
                                       {"trainer.activation_checkpointing", "false"},
                                       {"trainer.deterministic", "true"},
                                       {"amp.dtype", "\"bf16\""},
                                       {"amp.policy", "\"native\""},
                                       {"amp.overrides", "{}"},
                                       {"amp.loss_scale", "\"dynamic\""},
                                       {"amp.init_scale", "65536"},
                                       {"amp.growth_factor", "2"},
                                       {"amp.backoff_factor", "0.5"},
                                       {"amp.growth_interval", "2000"},
                                       {"amp.min_scale", "1"},
                                       {"amp.max_scale", "16777216"},
                                       {"amp.hysteresis", "1"},
                                       {"amp.max_consecutive_skips", "50"},
                                       {"amp.overflow_messages", "\"first\""},
                                       {"device", "\"auto\""},
                                       {"threads", "0"}};

}  // namespace

TEST_CASE("config: the defaults are those of the contract") {
  const Config config = parse();
  for (const Default& expected : defaults)
    CHECK_MESSAGE(json_of(config, expected.path) == expected.json, expected.path);
  // Every key but these: the two required ones, the other warm-up, the synonym; and two that the contract leaves to us.
  CHECK(fields().size() == defaults.size() + 6);
}

TEST_CASE("config: the table is consistent") {
  for (const Field& field : fields()) {
    CAPTURE(field.path());
    CHECK((field.section.empty() || find_section(field.section) != nullptr));
    CHECK(find_field(field.section, field.name) == &field);
    CHECK(field.doc.size() > 10);
    CHECK(field.doc.back() == '.');
    CHECK(find_section(field.path()) == nullptr);
    for (const std::string_view synonym : field.synonyms) CHECK(find_field(field.section, synonym) == nullptr);
  }
}

TEST_CASE("config: comments, a byte order mark, escapes and places") {
  const Config config = parse_config(
      "\xEF\xBB\xBF// first\n{ /* a\n b */ \"task\": {\"data_dir\": \"d\\u00e4\\/\\uD83D\\uDE00\"},\r\n"
      "\t\"tokenizer\": {\"vocab\": \"v\"}, \"\\u0061mp\": {\"dtype\": \"fp16\", \"init_scale\": 1.024E+3}}",
      "c.json", "/base", {});
  CHECK(config.task.data_dir == "/base/d\u00e4/\U0001F600");
  CHECK(config.amp.dtype == AmpDtype::fp16);
  CHECK(config.amp.init_scale == 1024);
  CHECK(config.origin("task.data_dir").text() == "c.json:3:28");
  CHECK(config.origin("amp.dtype").text() == "c.json:4:53");
  CHECK(config.origin("amp.policy").text() == "default");
  CHECK(config.written("amp.init_scale"));
  CHECK_FALSE(config.written("amp.policy"));
  CHECK(parse(R"("trainer": {"seed": 42})").written("trainer.seed"));  // though it is the default
  CHECK(parse(R"("trainer": {"max_steps": 3.0, "seed": 1e3})").trainer.seed ==
        1000);  // integers, as JSON Schema has it
}

TEST_CASE("config: --set wins over the file, and words need no quotes") {
  const Config config = parse(R"("trainer": {"seed": 1}, "amp": {"overrides": {"gelu": "low"}})",
                              {"trainer.seed=7", "amp.dtype=fp16", "amp.loss_scale=128", "optimizer.learning_rate=1E-5",
                               "trainer.metric=\"loss\"", "task.data_dir=other dir", "tokenizer.vocab=\"/a/v.txt\"",
                               "data.shuffle=false", "amp.policy=my.json", "amp.overrides.layer_norm=full",
                               "model.pretrained=null", "trainer.max_steps=5", "trainer.max_steps=6"});
  CHECK(config.trainer.seed == 7);
  CHECK(config.origin("trainer.seed").text() == "--set");
  CHECK(config.amp.dtype == AmpDtype::fp16);
  CHECK(config.amp.loss_scale == 128);
  CHECK(config.optimizer.learning_rate == 1e-5);
  CHECK(config.trainer.metric == Metric::loss);
  CHECK(config.task.data_dir == "/base/other dir");
  CHECK(config.tokenizer.vocab == "/a/v.txt");
  CHECK_FALSE(config.data.shuffle);
  CHECK(config.amp.policy == "/base/my.json");
  CHECK(config.amp.overrides == std::map<std::string, std::string>{{"gelu", "low"}, {"layer_norm", "full"}});
  CHECK(config.model.pretrained.empty());
  CHECK(config.trainer.max_steps == 6);
  CHECK(parse("", {"amp.loss_scale=dynamic"}).amp.loss_scale == 0);
  CHECK(parse("", {"amp.overrides={\"gelu\": \"full\"}"}).amp.overrides.size() == 1);
  CHECK(parse("", {"task.data_dir=123"}).task.data_dir == "/base/123");
  // What --set mends is no error any more.
  CHECK(parse(R"("trainer": {"max_grad_norm": -1})", {"trainer.max_grad_norm=0"}).trainer.max_grad_norm == 0);
}

TEST_CASE("config: every built word of every choice is stored as itself") {
  int words = 0;
  for (const Field& field : fields()) {
    if (!std::holds_alternative<ChoiceSlot>(field.slot)) continue;
    for (const Choice& choice : field.choices) {
      if (!choice.not_built.empty()) continue;
      const std::string value = "\"" + std::string(choice.value) + "\"";
      std::vector<std::string> sets = {field.path() + "=" + value};
      if (choice.value == "steps") sets.push_back("trainer.eval_steps=3");
      CHECK(field.json(parse("", sets)) == value);
      ++words;
    }
  }
  CHECK(words == 43);
  const Config config = parse(
      "", {"model.head=softmax", "model.pooling=pooler", "optimizer.type=sgd", "trainer.lr_scheduler_type=constant",
           "trainer.eval_strategy=no", "data.padding=max_length", "device=cpu", "trainer.metric=accuracy"});
  CHECK(config.model.head == Head::softmax);
  CHECK(config.model.pooling == Pooling::pooler);
  CHECK(config.optimizer.type == OptimizerType::sgd);
  CHECK(config.trainer.lr_scheduler_type == SchedulerType::constant);
  CHECK(config.trainer.eval_strategy == EvalStrategy::no);
  CHECK(config.data.padding == Padding::max_length);
  CHECK(config.device == DeviceChoice::cpu);
  CHECK(config.trainer.metric == Metric::accuracy);
  CHECK(config.amp.overflow_messages == OverflowMessages::first);
}

TEST_CASE("config: the edges of the ranges that matter") {
  struct Edge {
    std::string path;
    std::vector<std::string> good, bad;
  };
  const std::vector<Edge> edges = {
      {"trainer.max_grad_norm", {"0", "5e-324", "1e308"}, {"-5e-324", "-1"}},
      {"optimizer.learning_rate", {"0", "1"}, {"-1e-9"}},
      {"optimizer.adam_beta1", {"0", "0.9999999999999999"}, {"1", "-0.1"}},
      {"optimizer.adam_epsilon", {"1e-300"}, {"0", "-1e-8"}},
      {"model.head_dropout", {"0", "0.999"}, {"1", "-0.01"}},
      {"trainer.warmup_ratio", {"0", "1"}, {"-0.1", "1.0000000000000002"}},
      {"amp.growth_factor", {"1.0000000000000002", "4"}, {"1", "0.5"}},
      {"amp.backoff_factor", {"1e-9", "0.9999999999999999"}, {"0", "1"}},
      {"amp.loss_scale", {"1", "0.5", "128"}, {"0", "-1", "1e39"}},
      {"amp.hysteresis", {"1"}, {"0"}},
      {"trainer.num_train_epochs", {"1"}, {"0", "-1"}},
      {"trainer.logging_steps", {"1"}, {"0"}},
      {"trainer.max_steps", {"0", "1000000000"}, {"-1", "1e300"}},
      {"trainer.seed", {"0", "9007199254740991"}, {"-1", "9007199254740992"}},
      {"tokenizer.max_length", {"2", "512"}, {"1", "0"}},
      {"threads", {"0", "1024"}, {"-1", "1025"}},
      {"model.config.num_hidden_layers", {"1", "1024"}, {"0", "1025"}},
  };
  for (const Edge& edge : edges) {
    CAPTURE(edge.path);
    for (const std::string& value : edge.good) CHECK_MESSAGE(set_error(edge.path + "=" + value) == "no error", value);
    for (const std::string& value : edge.bad)
      CHECK_MESSAGE(contains(set_error(edge.path + "=" + value), "E-CONFIG-RANGE"), value);
  }
}

TEST_CASE("config: one step over each bound of the table is an error, the bound itself is not") {
  int bounds = 0;
  for (const Field& field : fields()) {
    const bool whole = field.type == Type::integer;
    if (!whole && field.type != Type::number && field.type != Type::scale) continue;
    for (const bool low : {true, false}) {
      const double bound = low ? field.range.low : field.range.high;
      if (std::isinf(bound)) continue;
      ++bounds;
      const double out = low ? -INFINITY : INFINITY;
      const bool open = low ? field.range.above_low : field.range.below_high;
      const double outside = open ? bound : whole ? bound + (low ? -1 : 1) : std::nextafter(bound, out);
      const double inside = open ? std::nextafter(bound, -out) : bound;
      CAPTURE(field.path());
      CHECK(contains(set_error(mixtape::message(field.path(), "=", outside)), "E-CONFIG-RANGE"));
      CHECK_FALSE(contains(set_error(mixtape::message(field.path(), "=", inside)), "E-CONFIG-RANGE"));
    }
  }
  CHECK(bounds > 60);
}

TEST_CASE("config: the effective file gives the same configuration again") {
  const std::string rest = R"("model": {"config": {"hidden_size": 24, "layer_norm_eps": 3e-7}, "head": "softmax"},
    "trainer": {"warmup_steps": 3, "max_grad_norm": 0.1}, "optimizer": {"learning_rate": 0.30000000000000004},
    "amp": {"overrides": {"gelu": "full"}, "loss_scale": 8})";
  const Config first = parse(rest);
  const std::string text = to_json(first);
  const Config second = parse_config(text, "effective", "/elsewhere", {});
  CHECK(to_json(second) == text);
  for (const Field& field : fields()) CHECK_MESSAGE(field.json(first) == field.json(second), field.path());
  CHECK(second.warmup_by_steps());
  CHECK(contains(text, "\"data_dir\": \"/base/d\""));
  CHECK(contains(text, "0.30000000000000004"));
  CHECK_FALSE(contains(text, "warmup_ratio"));
  CHECK_FALSE(parse_config(to_json(parse()), "effective", "", {}).warmup_by_steps());
}

TEST_CASE("config: with pretrained weights only the written entries of model.config count") {
  const TempFolder folder;
  folder.write("vocab.txt", "[PAD]\n");
  const std::string model =
      "\"model\": {\"pretrained\": \"" + folder.path() + "\", \"config\": {\"hidden_dropout_prob\": 0}}";
  const Config config = parse_config("{\"task\": {\"data_dir\": \"d\"}, " + model + "}", "c.json", "/base", {});
  CHECK(config.tokenizer.vocab == folder.path("vocab.txt"));
  CHECK(config.origin("tokenizer.vocab").text() == "model.pretrained");
  CHECK(config.written("model.config.hidden_dropout_prob"));
  CHECK_FALSE(config.written("model.config.hidden_size"));
  const std::string text = to_json(config);
  CHECK(contains(text, "\"hidden_dropout_prob\": 0"));
  CHECK_FALSE(contains(text, "hidden_size"));
  // An own vocabulary wins; a directory without one needs it; sizes are then for the reader of the directory to check.
  CHECK(parse(model).tokenizer.vocab == "/base/v");
  CHECK(parse(model, {"model.config.hidden_size=100"}).model.config.hidden_size == 100);
  const TempFolder empty;
  const std::string error = error_text([&] {
    parse_config("{\"task\": {\"data_dir\": \"d\"}, \"model\": {\"pretrained\": \"" + empty.path() + "\"}}", "c.json",
                 "/base", {});
  });
  CHECK(contains(error, "E-CONFIG-MISSING"));
  CHECK(contains(error, "no vocab.txt in model.pretrained"));
}

TEST_CASE("config: an opt level is another name for a policy") {
  const Config config = parse(R"("amp": {"opt_level": "O2"})");
  CHECK(config.amp.policy == "apex_O2");
  CHECK(contains(config.origin("amp.policy").text(), "c.json:"));
  CHECK(contains(to_json(config), "\"policy\": \"apex_O2\""));
  CHECK_FALSE(contains(to_json(config), "opt_level"));
  CHECK(parse(R"("amp": {"opt_level": "O1", "policy": "apex_O1"})").amp.policy == "apex_O1");
  CHECK(parse(R"("amp": {"opt_level": null})").amp.policy == "native");
}

TEST_CASE("config: keys that cannot act are warnings") {
  const auto warnings = [](const std::string& rest) {
    std::string all;
    for (const std::string& warning : parse(rest).warnings) all += warning;
    return all;
  };
  CHECK(warnings(R"("amp": {"init_scale": 1024})") ==
        "warning W-CONFIG-NO-EFFECT  c.json:1:80  amp.init_scale = 1024\n"
        "  has no effect with amp.dtype \"bf16\": its loss scale is always 1\n");
  CHECK(warnings(R"("amp": {"init_scale": 65536, "dtype": "bf16"})").empty());  // a written default is no claim
  CHECK(warnings(R"("amp": {"init_scale": 1024, "dtype": "fp16"})").empty());
  CHECK(contains(warnings(R"("amp": {"growth_interval": 10, "loss_scale": 8, "dtype": "fp16"})"), "fixed scale"));
  CHECK(contains(warnings(R"("amp": {"policy": "apex_O1", "dtype": "off"})"), "amp.policy = \"apex_O1\""));
  const std::string fixed = warnings(R"("amp": {"opt_level": "O3", "init_scale": 8, "dtype": "fp16"})");
  CHECK(contains(fixed, "amp.init_scale = 8\n  has no effect with amp.policy = \"apex_O3\" (c.json:1:"));
  CHECK(contains(fixed, "): its loss scale is fixed"));
  CHECK(warnings(R"("amp": {"policy": "apex_O3", "init_scale": 8, "loss_scale": "dynamic", "dtype": "fp16"})").empty());
  CHECK(warnings(R"("amp": {"opt_level": "O2", "init_scale": 8, "dtype": "fp16"})").empty());
  CHECK(contains(warnings(R"("trainer": {"eval_steps": 10})"), "trainer.eval_steps"));
  CHECK(contains(warnings(R"("optimizer": {"type": "sgd", "adam_beta1": 0.8})"), "sgd"));
  CHECK(warnings("").empty());
}

TEST_CASE("config: relative paths start at the file") {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path("configs"));
  const std::string file =
      folder.write("configs/c.json", "{\"task\": {\"data_dir\": \"../data/\"}, \"tokenizer\": {\"vocab\": \"v.txt\"}}");
  const Config config = load_config(file, {"model.pretrained=./weights"});
  CHECK(config.task.data_dir == folder.path("data"));
  CHECK(config.tokenizer.vocab == folder.path("configs/v.txt"));
  CHECK(config.model.pretrained == folder.path("configs/weights"));
  CHECK(config.origin("task.data_dir").file == file);
  CHECK(contains(error_text([&] { load_config(folder.path("none.json"), {}); }), "E-CONFIG-FILE"));
  CHECK(contains(error_text([&] { load_config(folder.path(), {}); }), "directory"));
  // A folder whose name is not UTF-8 survives the effective file.
  const Config odd = parse_config("{" + required + "}", "c.json", "/b\xFFse", {});
  CHECK(odd.task.data_dir == "/b\xFFse/d");
  CHECK(contains(to_json(odd), "/b\\udcffse/d"));
  CHECK(parse_config(to_json(odd), "e", "", {}).task.data_dir == "/b\xFFse/d");
}

TEST_CASE("config: no locale changes a number") {
  struct Comma : std::numpunct<char> {
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
  };
  const auto print = [] {
    return to_json(parse(
               R"("optimizer": {"learning_rate": 1.5e-3}, "trainer": {"seed": 1234567, "max_grad_norm": 0.25})")) +
           set_error("trainer.warmup_ratio=1.5");
  };
  const std::string before = print();
  const std::locale old = std::locale::global(std::locale(std::locale::classic(), new Comma));
  std::setlocale(LC_NUMERIC, "de_DE.UTF-8");  // acts where it is installed
  const std::string after = print();
  std::setlocale(LC_NUMERIC, "C");
  std::locale::global(old);
  CHECK(after == before);
  CHECK(contains(before, "0.0015"));
  CHECK(contains(before, "1234567"));
}

TEST_CASE("config: the ready-made files are good") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MIXTAPE_SOURCE_DIR "/configs")) {
    if (entry.path().extension() != ".json") continue;
    CHECK_MESSAGE(error_text([&] { CHECK(load_config(entry.path().string(), {}).warnings.empty()); }) == "no error",
                  entry.path().string());
    ++files;
  }
  CHECK(files >= 1);
}

TEST_CASE("config: docs/reference/config.md is what the table says") {
  const bool fresh = slurp(MIXTAPE_SOURCE_DIR "/docs/reference/config.md") == reference_page();
  CHECK_MESSAGE(fresh, "stale; make it anew: mixtape config show --markdown > docs/reference/config.md");
}
