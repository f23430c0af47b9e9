// Faulty configurations (docs: faults.md F20): each gives exactly its one error, with the right code, place and words.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "core/error.h"
#include "tests/shared.h"
#include "tools/config/config.h"

namespace {

using mixtape::config::parse_config;
using mixtape::tests::contains;
using mixtape::tests::error_of;

/// Line 1 is a good beginning; `rest` stands from line 2 on.
std::string with(const std::string& rest) {
  return "{\"task\": {\"data_dir\": \"d\"}, \"tokenizer\": {\"vocab\": \"v\"},\n" + rest + "}";
}

/// The whole report about a text, "" when it is good.
std::string report(const std::string& text, const std::vector<std::string>& sets = {}) {
  const auto error = error_of([&] { parse_config(text, "c.json", "/base", sets); });
  if (!error) return "";
  CHECK(error->exit_code() == 2);
  CHECK(error->code() == "E-CONFIG");
  return error->what();
}

int count(const std::string& text, const std::string& piece) {
  int found = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++found;
  return found;
}

struct Fault {
  std::string text;
  std::string code;
  std::string place;  ///< line:column
  std::vector<std::string> words;
};

void check_faults(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    CAPTURE(fault.text);
    const std::string text = report(fault.text);
    CAPTURE(text);
    CHECK(text.rfind("error " + fault.code + "  c.json:" + fault.place, 0) == 0);
    CHECK(count(text, "error E-") == 1);
    CHECK(contains(text, "\n1 error, nothing was started."));
    for (const std::string& word : fault.words) CHECK_MESSAGE(contains(text, word), word);
  }
}

std::string nested_seed(int levels) {
  return with("\"trainer\": {\"seed\": " + std::string(static_cast<size_t>(levels), '[') +
              std::string(static_cast<size_t>(levels), ']') + "}");
}

const std::string unknown = "E-CONFIG-UNKNOWN-KEY";
const std::vector<Fault> unknown_keys = {
    {with("\"trainer\": {\"warmup_step\": 3}"),
     unknown,
     "2:13",
     {"trainer.warmup_step\n", "did you mean \"warmup_steps\" (integer) or \"warmup_ratio\" (0..1)?"}},
    {with("\"trainer\": {\"sede\": 3}"), unknown, "2:13", {"trainer.sede", "\"seed\" (integer)"}},
    {with("\"learning_rate\": 1e-5"), unknown, "2:1 ", {"\"optimizer.learning_rate\" (number >= 0)"}},
    {with("\"trainer\": {\"learning_rate\": 1e-5}"), unknown, "2:13", {"\"optimizer.learning_rate\""}},
    {with("\"optimizer\": {\"lr\": 1e-5}"), unknown, "2:15", {"did you mean \"learning_rate\" (number >= 0)?"}},
    {with("\"trainer\": {\"lr\": 1e-5}"), unknown, "2:13", {"\"optimizer.learning_rate\""}},
    {with("\"trainer\": {\"epochs\": 3}"), unknown, "2:13", {"\"num_train_epochs\" (integer)"}},
    {with("\"trainer\": {\"num-epochs\": 3}"), unknown, "2:13", {"\"num_train_epochs\""}},
    {with("\"batch_size\": 3"), unknown, "2:1 ", {"\"trainer.per_device_train_batch_size\""}},
    {with("\"trainer\": {\"batchSize\": 3}"), unknown, "2:13", {"\"per_device_train_batch_size\""}},
    {with("\"trainer\": {\"fp16\": true}"), unknown, "2:13", {"\"amp.dtype\" (\"off\", \"bf16\" or \"fp16\")"}},
    {with("\"output_dir\": \"x\""), unknown, "2:1 ", {"-s DIR"}},
    {with("\"trainer\": {\"resume_from_checkpoint\": true}"), unknown, "2:13", {"--recover"}},
    {with("\"optimiser\": {\"learning_rate\": 1}"), unknown, "2:1 ", {"did you mean \"optimizer\" (a section)?"}},
    {with("\"trianer\": {\"seed\": 1}"), unknown, "2:1 ", {"\"trainer\" (a section)"}},
    {with("\"trainer\": {\"amp\": {}}"), unknown, "2:13", {"trainer.amp", "\"amp\" (a section)"}},
    {with("\"model\": {\"config\": {\"hiddensize\": 4}}"),
     unknown,
     "2:22",
     {"model.config.hiddensize", "\"hidden_size\""}},
    {with("\"model\": {\"config\": {\"dropout\": 0}}"), unknown, "2:22", {"\"hidden_dropout_prob\""}},
    {with("\"model\": {\"hidden_size\": 4}"), unknown, "2:11", {"\"model.config.hidden_size\""}},
    {with("\"model\": {\"config\": {\"hidden_act\": \"relu\"}}"), unknown, "2:22", {"GELU"}},
    {with("\"trainer.seed\": 3"), unknown, "2:1 ", {"trainer.seed", "nest"}},
    {with("\"amp\": {\"overrides.softmax\": \"full\"}"), unknown, "2:9", {"nest"}},
    {with("\"amp\": {\"completely_unlike\": 1}"), unknown, "2:9", {"unknown key. amp holds: dtype, policy, "}},
    {with("\"\": 1"), unknown, "2:1", {"unknown key."}},
    {with("/* \u00e4\u00f6\u00fc */ \"zzzzzz\": 1"), unknown, "2:11", {"zzzzzz"}},  // columns count characters
};

const std::string type = "E-CONFIG-TYPE";
const std::vector<Fault> wrong_types = {
    {with("\"trainer\": {\"seed\": \"3\"}"),
     type,
     "2:21",
     {"trainer.seed = \"3\"", "must be an integer, not a string", "drop the quotes: 3"}},
    {with("\"trainer\": {\"seed\": 3.5}"), type, "2:21", {"must be an integer, not a fraction"}},
    {with("\"trainer\": {\"seed\": true}"), type, "2:21", {"must be an integer, not true"}},
    {with("\"trainer\": {\"seed\": null}"), type, "2:21", {"not null", "default, 42"}},
    {with("\"trainer\": {\"seed\": [1]}"), type, "2:21", {"trainer.seed = […]", "not a list"}},
    {with("\"trainer\": {\"seed\": {\"a\": 1}}"), type, "2:21", {"not an object"}},
    {with("\"optimizer\": {\"learning_rate\": \"1e-5\"}"), type, "2:32", {"drop the quotes: 1e-5"}},
    {with("\"data\": {\"shuffle\": 1}"), type, "2:21", {"must be true or false, not a number", "write true"}},
    {with("\"data\": {\"shuffle\": 0}"), type, "2:21", {"write false"}},
    {with("\"data\": {\"shuffle\": \"True\"}"), type, "2:21", {"write true"}},
    {with("\"data\": {\"shuffle\": \"false\"}"), type, "2:21", {"drop the quotes: false"}},
    {with("\"amp\": {\"dtype\": true}"), type, "2:18", {"\"off\", \"bf16\" or \"fp16\"", "did you mean \"bf16\"?"}},
    {with("\"amp\": {\"dtype\": 16}"), type, "2:18", {"must be \"off\", \"bf16\" or \"fp16\", not a number"}},
    {with("\"amp\": {\"loss_scale\": \"128\"}"), type, "2:23", {"drop the quotes: 128"}},
    {with("\"amp\": {\"loss_scale\": false}"), type, "2:23", {"\"dynamic\" or a number"}},
    {with("\"amp\": {\"overrides\": \"full\"}"), type, "2:22", {"an object"}},
    {with("\"model\": {\"pretrained\": 3}"), type, "2:25", {"a path or null"}},
    {with("\"trainer\": 5"), type, "2:12", {"trainer = 5", "must be an object"}},
    {with("\"amp\": null"), type, "2:8", {"must be an object"}},
    {with("\"model\": {\"config\": []}"), type, "2:21", {"model.config = […]"}},
    {"[]", type, "1:1", {"one object"}},
    {"// only\n\"text\"", type, "2:1", {"one object"}},
};

const std::string range = "E-CONFIG-RANGE";
const std::vector<Fault> out_of_range = {
    {with("\"trainer\": {\"max_grad_norm\": -1}"),
     range,
     "2:30",
     {"trainer.max_grad_norm = -1\n  must be >= 0 (0 turns clipping off"}},
    {with("\"trainer\": {\"num_train_epochs\": 0}"), range, "2:33", {"between 1 and"}},
    {with("\"trainer\": {\"seed\": 123456789012345678901234567890}"), range, "2:21", {"9007199254740991"}},
    {with("\"trainer\": {\"warmup_ratio\": 1.5}"), range, "2:29", {"between 0 and 1"}},
    {with("\"amp\": {\"growth_factor\": 1}"), range, "2:26", {"must be > 1"}},
    {with("\"amp\": {\"backoff_factor\": 1}"), range, "2:27", {"must be > 0 and < 1"}},
    {with("\"optimizer\": {\"learning_rate\": 1e999}"), range, "2:32", {"too large"}},
    {with("\"optimizer\": {\"adam_epsilon\": 1e-999}"), range, "2:31", {"too small"}},
    {with("\"optimizer\": {\"adam_beta2\": 1.0}"), range, "2:29", {">= 0 and < 1"}},
    {with("\"amp\": {\"dtype\": \"fp61\"}"),
     range,
     "2:18",
     {"must be \"off\", \"bf16\" or \"fp16\". did you mean \"fp16\"?"}},
    {with("\"amp\": {\"dtype\": \"BF16\"}"), range, "2:18", {"did you mean \"bf16\"?"}},
    {with("\"amp\": {\"dtype\": \"float32\"}"), range, "2:18", {"did you mean \"off\"?"}},
    {with("\"trainer\": {\"metric\": \"f1\"}"), range, "2:23", {"did you mean \"macro_f1\"?"}},
    {with("\"amp\": {\"loss_scale\": \"static\"}"), range, "2:23", {"\"dynamic\" or a number"}},
    {with("\"amp\": {\"overrides\": {\"gelu\": \"half\"}}"),
     range,
     "2:31",
     {"amp.overrides.gelu = \"half\"", "\"low\", \"full\""}},
    {with("\"amp\": {\"overrides\": {\"gellu\": \"full\"}}"),
     "E-CONFIG-UNKNOWN-OP",
     "2:23",
     {"did you mean \"gelu\"?"}},
    {with("\"amp\": {\"policy\": \"nativ\"}"), range, "2:19", {"did you mean \"native\"?", ".json"}},
    {with("\"model\": {\"pretrained\": \"\"}"), range, "2:25", {"null stands for none"}},
    {with("\"model\": {\"pretrained\": \"~/bert\"}"), range, "2:25", {"~"}},
    {with("\"model\": {\"config\": {\"num_hidden_layers\": 1000000}}"), range, "2:43", {"between 1 and 1024"}},
    {with("\"threads\": -1"), range, "2:12", {"between 0 and 1024"}},
};

const std::string syntax = "E-CONFIG-SYNTAX";
const std::vector<Fault> not_json = {
    {with("\"data\": {\"shuffle\": True}"), syntax, "2:21", {"data.shuffle = True", "write true"}},
    {with("\"data\": {\"shuffle\": yes}"), syntax, "2:21", {"write true"}},
    {with("\"model\": {\"pretrained\": None}"), syntax, "2:25", {"write null"}},
    {with("\"trainer\": {\"max_grad_norm\": NaN}"), syntax, "2:30", {"no NaN"}},
    {with("\"trainer\": {\"max_grad_norm\": -Infinity}"), syntax, "2:30", {"no infinity"}},
    {with("\"trainer\": {\"seed\": 0x10}"), syntax, "2:21", {"write 16"}},
    {with("\"trainer\": {\"max_grad_norm\": .5}"), syntax, "2:30", {"write 0.5"}},
    {with("\"trainer\": {\"max_grad_norm\": 5.}"), syntax, "2:30", {"write 5.0"}},
    {with("\"trainer\": {\"seed\": 1_000}"), syntax, "2:21", {"write 1000"}},
    {with("\"trainer\": {\"seed\": +1}"), syntax, "2:21", {"write 1"}},
    {with("\"trainer\": {\"seed\": 007}"), syntax, "2:21", {"write 7"}},
    {with("\"trainer\": {\"seed\": 1e}"), syntax, "2:21", {"not a number"}},
    {with("\"amp\": {\"dtype\": bf16}"), syntax, "2:18", {"\"bf16\""}},
    {with("\"trainer\": {\"seed\": 1,}"), syntax, "2:22", {"comma", "leave it out"}},
    {with("\"trainer\": {\"seed\": 1},"), syntax, "2:23", {"leave it out"}},
    {with("trainer: {\"seed\": 1}"), syntax, "2:1\n", {"\"trainer\""}},
    {with("\"trainer\": {\"seed\": 1 \"metric\": \"loss\"}"), syntax, "2:23", {"comma"}},
    {with("\"trainer\": {\"seed\" 1}"), syntax, "2:20", {"trainer.seed", ":"}},
    {with("\"trainer\": {\"seed\": }"), syntax, "2:21", {"a value"}},
    {with("\"optimizer\": {\"weight_decay\": 0,01}"), syntax, "2:33", {"decimal comma"}},
    {with("'trainer': {}"), syntax, "2:1", {"double quotes"}},
    {with("\u201Ctrainer\u201D: {}"), syntax, "2:1", {"typographic"}},
    {with("# comment"), syntax, "2:1", {"//"}},
    {with("/* never closed"), syntax, "2:1", {"closed"}},
    {with("\"trainer\": {\"metric\": \"loss}"), syntax, "2:23", {"not closed"}},
    {with("\"model\": {\"pretrained\": \"C:\\data\"}"), syntax, "2:28", {"backslash"}},
    {with("\"model\": {\"pretrained\": \"\\u00g0\"}"), syntax, "2:26", {"hexadecimal"}},
    {with("\"model\": {\"pretrained\": \"\\u0000\"}"), syntax, "2:26", {"NUL"}},
    {with("\"model\": {\"pretrained\": \"\\ud800\"}"), syntax, "2:26", {"surrogate"}},
    {with("\"model\": {\"pretrained\": \"a\tb\"}"), syntax, "2:27", {"control"}},
    {with("\"model\": {\"pretrained\": \"\xFF\"}"), syntax, "2:26", {"UTF-8"}},
    {"{} {}", syntax, "1:4", {"ended before"}},
    {"", syntax, "1:1", {"nothing in it"}},
    {" // nothing\n", syntax, "2:1", {"nothing in it"}},
    {"\xFF\xFE{", syntax, "1:1", {"UTF-16"}},
    {"{\"trainer\": {\n", syntax, "2:1", {"the file ends"}},
    {nested_seed(200), "E-CONFIG-DEPTH", "2:83", {"64"}},
    {"{\"" + std::string(1'000'000, 'a') + "\": 1}", "E-CONFIG-SIZE", "1:1", {"1000000"}},
    {with("\"data\": {}, \"data\": {}"), "E-CONFIG-DUPLICATE", "2:13", {"2:1"}},
    {with("\"trainer\": {\"seed\": 1,\n  \"seed\": 1}"), "E-CONFIG-DUPLICATE", "3:3", {"trainer.seed", "2:13"}},
};

const std::vector<Fault> unusable = {
    {"{\"tokenizer\": {\"vocab\": \"v\"}}", "E-CONFIG-MISSING", "1:1", {"task.data_dir", "required"}},
    {"{\"task\": {\"data_dir\": \"d\"},\n \"tokenizer\": {}}",
     "E-CONFIG-MISSING",
     "2:15",
     {"tokenizer.vocab", "vocab.txt"}},
    {"{\"task\": {\"data_dir\": \"d\"},\n \"tokenizer\": {\"vocab\": null}}",
     "E-CONFIG-MISSING",
     "2:15",
     {"tokenizer.vocab"}},
    {with("\"amp\": {\"opt_level\": \"O2\",\n\"policy\": \"native\"}"),
     "E-CONFIG-CONFLICT",
     "3:11",
     {"amp.opt_level = \"O2\" (c.json:2:22) and amp.policy = \"native\" (c.json:3:11)", "keep one"}},
    {with("\"trainer\": {\"warmup_steps\": 5,\n\"warmup_ratio\": 0.2}"),
     "E-CONFIG-CONFLICT",
     "3:17",
     {"trainer.warmup_steps = 5 (c.json:2:29) and trainer.warmup_ratio = 0.2 (c.json:3:17)", "keep one"}},
    {with("\"trainer\": {\"warmup_steps\": 5, \"max_steps\": 4}"),
     "E-CONFIG-CONFLICT",
     "2:45",
     {"longer than the run"}},
    {with("\"trainer\": {\"eval_strategy\": \"steps\"}"),
     "E-CONFIG-CONFLICT",
     "2:30",
     {"trainer.eval_steps = 0 (default)"}},
    {with("\"trainer\": {\"eval_strategy\": \"no\", \"early_stopping_patience\": 2}"),
     "E-CONFIG-CONFLICT",
     "2:63",
     {"evaluations"}},
    {with("\"amp\": {\"min_scale\": 8, \"max_scale\": 4}"), "E-CONFIG-CONFLICT", "2:38", {"above"}},
    {with("\"amp\": {\"init_scale\": 33554432}"), "E-CONFIG-CONFLICT", "2:23", {"amp.max_scale = 16777216 (default)"}},
    {with("\"amp\": {\"init_scale\": 2, \"min_scale\": 4}"), "E-CONFIG-CONFLICT", "2:39", {"below"}},
    {with("\"model\": {\"config\": {\"hidden_size\": 100}}"),
     "E-CONFIG-CONFLICT",
     "2:37",
     {"num_attention_heads = 12 (default)", "multiple"}},
    {with("\"model\": {\"config\": {\"max_position_embeddings\": 64}}"),
     "E-CONFIG-CONFLICT",
     "2:49",
     {"tokenizer.max_length = 128 (default)"}},
};

struct Set {
  std::string argument, code;
  std::vector<std::string> words;
};
const std::vector<Set> faulty_sets = {
    {"trainer.learning_rate=1e-5", "UNKNOWN-KEY", {"\"optimizer.learning_rate\""}},  // B37
    {"optimizer.learning_rate=\"1e-5\"", "TYPE", {"drop the quotes: 1e-5"}},
    {"optimizer.learning_rate=.5", "SYNTAX", {"write 0.5"}},
    {"trainer.seed=1_000", "SYNTAX", {"write 1000"}},
    {"trainer.seed=0x10", "SYNTAX", {"write 16"}},
    {"optimizer.learning_rate=1e999", "RANGE", {"too large"}},
    {"optimizer.learning_rate=nan", "SYNTAX", {"NaN"}},
    {"optimizer.learning_rate=fast", "TYPE", {"must be a number"}},
    {"data.shuffle=True", "SYNTAX", {"write true"}},
    {"data.shuffle=maybe", "TYPE", {"true or false"}},
    {"data.shuffle=", "TYPE", {"true or false"}},
    {"trainer.max_grad_norm=-1", "RANGE", {"trainer.max_grad_norm = -1", ">= 0"}},
    {"amp.dtype=fp61", "RANGE", {"did you mean \"fp16\"?"}},
    {"amp.dtype=True", "RANGE", {"did you mean \"bf16\"?"}},
    {"amp.opt_level=O4", "RANGE", {"\"O0\", \"O1\", \"O2\" or \"O3\""}},
    {"lr=1", "UNKNOWN-KEY", {"\"optimizer.learning_rate\""}},
    {"trainr.seed=1", "UNKNOWN-KEY", {"\"trainer\" (a section)"}},
    {"trainer.sede=1", "UNKNOWN-KEY", {"\"trainer.seed\""}},
    {"trainer={\"seed\":1}", "TYPE", {"--set trainer.KEY=VALUE"}},
    {"trainer.seed", "SET", {"--set trainer.seed=7"}},
    {"=3", "SET", {}},
    {"", "SET", {}},
    {"trainer..seed=3", "UNKNOWN-KEY", {}},
    {"amp.overrides.gelu={}", "RANGE", {"\"low\", \"full\""}},
    {"amp.overrides.gelu=ful", "RANGE", {"did you mean \"full\"?"}},
    {"amp.overrides.gleu=full", "UNKNOWN-OP", {"gelu"}},
    {"amp.overrides=[1]", "TYPE", {"an object"}},
};

}  // namespace

TEST_CASE("config faults: unknown keys get their place and a suggestion") { check_faults(unknown_keys); }

TEST_CASE("config faults: wrong types say what would be right") { check_faults(wrong_types); }

TEST_CASE("config faults: values out of range name the range") { check_faults(out_of_range); }

TEST_CASE("config faults: what is not JSON is explained, and what is understood anyway is checked too") {
  check_faults(not_json);
}

TEST_CASE("config faults: what is missing, or contradicts itself") { check_faults(unusable); }

TEST_CASE("config faults: all at once, unknown keys first, and each mistake once") {
  const std::string text =
      report("{\"learning_rate\": 1e-5, \"trainer\": {\"num-epochs\": 3, \"warmup_step\": 9}}");  // B35
  CHECK(count(text, "error E-CONFIG-UNKNOWN-KEY  c.json:1:") == 3);
  CHECK(count(text, "did you mean") == 3);
  CHECK(contains(text, "5 errors, nothing was started."));  // and the two required keys
  const std::string many =
      report(with("\"trainer\": {\"seed\": -1, \"seeed\": True, \"metric\": \"f1\", \"seed\": 2},\n\"amp\": "
                  "{\"init_scale\": \"big\"}"));
  CHECK(contains(many, "6 errors, nothing was started."));
  CHECK(many.find("E-CONFIG-SYNTAX") < many.find("E-CONFIG-UNKNOWN-KEY"));
  CHECK(many.find("E-CONFIG-UNKNOWN-KEY") < many.find("E-CONFIG-RANGE"));
  // A misspelt required key is not reported as missing too, a spoilt field breaks no rule.
  CHECK(count(report("{\"task\": {\"data_dirr\": \"d\"}, \"tokenizer\": {\"vocab\": \"v\"}}"), "error E-") == 1);
  CHECK(count(report(with("\"model\": {\"config\": {\"hidden_size\": -7, \"num_attention_heads\": 10}}")),
              "error E-") == 1);
}

TEST_CASE("config faults: the report has the form of the contract") {
  const std::string text = report(with("\n\"trainer\": {\"max_grad_norm\": -1,\n    \"warmup_step\": 3}"));
  CHECK(text ==
        "error E-CONFIG-UNKNOWN-KEY  c.json:4:5   trainer.warmup_step\n"
        "  unknown key. did you mean \"warmup_steps\" (integer) or \"warmup_ratio\" (0..1)?\n"
        "error E-CONFIG-RANGE        c.json:3:30  trainer.max_grad_norm = -1\n"
        "  must be >= 0 (0 turns clipping off; a negative value would reverse every gradient)\n"
        "2 errors, nothing was started.");
}

TEST_CASE("config faults: a flood stays short") {
  std::string keys = "\"k0\": 0";
  for (int i = 1; i < 60'000; ++i) keys += ",\"k" + std::to_string(i) + "\": 0";
  const std::string text = report(with(keys));
  CHECK(contains(text, "60000 errors, nothing was started."));
  CHECK(contains(text, "and 59800 more"));
  CHECK(text.size() < 30'000);
  CHECK(report("{\"" + std::string(900'000, 'k') + "\": 1}").size() < 2'000);
}

TEST_CASE("config faults: --set") {
  const auto set = [](const std::string& argument) { return report(with("\"data\": {}"), {argument}); };
  for (const Set& fault : faulty_sets) {
    CAPTURE(fault.argument);
    const std::string text = set(fault.argument);
    CAPTURE(text);
    CHECK(text.rfind("error E-CONFIG-" + fault.code + "  --set", 0) == 0);
    CHECK(count(text, "error E-") == 1);
    for (const std::string& word : fault.words) CHECK_MESSAGE(contains(text, word), word);
  }
  CHECK(count(report(with("\"data\": {}"), {"trainer.seed=-1", "amp.x=1", "device=gpu"}), "error E-") == 3);
}
