// config init, schema and explain: a file that loads, a schema that says what the table says, words about a key.
#include <doctest/doctest.h>

#include <string>

#include "tests/tiny_run.h"
#include "tools/config/describe.h"
#include "tools/config/fields.h"

namespace mixtape::config {
namespace {
using tests::contains;
using tests::ProgramResult;
using tests::run_program;
using tests::TempFolder;

/// The schema of a field, found by its path.
nlohmann::json schema_of(const Field& field) {
  nlohmann::json at = nlohmann::json::parse(json_schema());
  std::string path = field.path();
  for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.')) {
    at = at.at("properties").at(path.substr(0, dot));
    path = path.substr(dot + 1);
  }
  return at.at("properties").at(path);
}
}  // namespace

TEST_CASE("config init: it loads as it stands, gives the defaults, and has every key with its words") {
  const std::string text = starting_file();
  const Config config = parse_config(text, "start.json", "/base", {});
  CHECK(config.warnings.empty());
  for (const Field& field : fields()) {
    CAPTURE(field.path());
    if (!field.required) CHECK(field.json(config) == field.json(Config{}));
    CHECK(contains(text, "\"" + std::string(field.name) + "\": "));
    CHECK(contains(text, std::string(field.doc.substr(0, field.doc.find(' ')))));
  }
  CHECK(config.task.data_dir == "/base/data");
  CHECK_FALSE(config.warmup_by_steps());
  CHECK_FALSE(config.written("model.config.hidden_size"));  // it would hide a pretrained model's
}

TEST_CASE("config init: an existing file stays as it is") {
  const TempFolder folder;
  const std::string path = folder.path("mine.json"), init = "config init -o '" + path + "'";
  const ProgramResult first = run_program(init);
  CHECK(first.exit_code == 0);
  CHECK(first.out.empty());
  CHECK(tests::slurp(path) == run_program("config init").out);
  folder.write("mine.json", "kept");
  const ProgramResult second = run_program(init);
  CHECK(second.exit_code == 2);
  CHECK(contains(second.err, "E-CONFIG-EXISTS"));
  CHECK(tests::slurp(path) == "kept");
  CHECK(run_program("config init -o '" + folder.path("none/mine.json") + "'").exit_code == 5);
  CHECK(run_program("config init -o '" + folder.path() + "'").exit_code == 2);
}

TEST_CASE("config schema: every field with its type, range, words, default and doc") {
  for (const Field& field : fields()) {
    CAPTURE(field.path());
    const nlohmann::json schema = schema_of(field);
    CHECK(contains(schema.at("description").get<std::string>(), std::string(field.doc)));
    CHECK(schema.contains("default") == !field.required);
    if (!field.required) CHECK(schema.at("default") == nlohmann::json::parse(field.json(Config{})));
    if (!field.not_built.empty()) CHECK(schema.at("const") == schema.at("default"));
    if (!field.not_built.empty()) continue;
    if (field.type == Type::boolean) CHECK(schema.at("type") == "boolean");
    if (field.type == Type::integer && !field.nullable) CHECK(schema.at("type") == "integer");
    if (field.type == Type::integer) CHECK(schema.at("minimum") == field.range.low);
    if (field.type == Type::number) CHECK((schema.contains("minimum") || schema.contains("exclusiveMinimum")));
    for (const Choice& choice : field.choices) {
      if (field.type != Type::choice) continue;
      const nlohmann::json words = schema.at("enum");
      const bool listed = std::find(words.begin(), words.end(), std::string(choice.value)) != words.end();
      CHECK(listed == choice.not_built.empty());
    }
  }
  const nlohmann::json whole = nlohmann::json::parse(run_program("config schema").out);
  CHECK(whole.at("additionalProperties") == false);
  CHECK(whole.at("required") == nlohmann::json{"task"});
  CHECK(whole.at("properties").at("task").at("required") == nlohmann::json{"data_dir"});
  CHECK(whole.at("properties").at("model").at("properties").at("config").at("additionalProperties") == false);
}

TEST_CASE("config explain: a key, a section, a configuration") {
  const std::string all = explain("", nullptr);
  for (const Field& field : fields()) {
    CAPTURE(field.path());
    const std::string text = explain(field.path(), nullptr);
    CHECK(text.starts_with(field.path() + "\n"));
    CHECK(contains(text, field.trajectory ? "changes the weights" : "do not depend on it"));
    CHECK(contains(all, text));
  }
  CHECK(explain("seed", nullptr) == explain("trainer.seed", nullptr));
  CHECK(contains(explain("amp", nullptr), "amp.hysteresis\n"));
  CHECK(contains(explain("amp.dtype", nullptr), "\"off\", \"bf16\" or \"fp16\""));
  CHECK(contains(explain("device", nullptr), "\"auto\", \"cpu\" or \"cuda\""));
  CHECK(contains(explain("amp.hysteresis", nullptr), "amp.dtype=fp16"));
  const std::string missing = tests::error_text([] { (void)explain("trainer.sede", nullptr); });
  CHECK(contains(missing, "E-CONFIG-UNKNOWN-KEY"));
  CHECK(contains(missing, "did you mean \"trainer.seed\""));
  CHECK(contains(tests::error_text([] { (void)explain("lr", nullptr); }), "\"optimizer.learning_rate\""));
  CHECK(contains(tests::error_text([] { (void)explain("trianer.seed", nullptr); }), "\"trainer\""));
  CHECK(contains(tests::error_text([] { (void)explain("zzzzzz", nullptr); }), "config show"));
}

TEST_CASE("config explain: the value of a configuration and where it comes from") {
  const tests::TinyRun tiny;
  const std::string config = "config explain '" + tiny.config_path() + "' ";
  const ProgramResult set = run_program(config + "seed --set trainer.seed=7");
  CHECK(set.exit_code == 0);
  CHECK(contains(set.out, "value       7  (--set)"));
  CHECK(contains(run_program(config + "optimizer.learning_rate").out, "0.01  (" + tiny.config_path() + ":5:34)"));
  CHECK(contains(run_program(config).out, "threads\n"));
  CHECK(run_program("config explain seed").out == explain("seed", nullptr));
  CHECK(run_program("config explain sede").exit_code == 2);
  CHECK(run_program("config explain seed --set trainer.seed=7").exit_code == 2);
  CHECK(run_program("config explain none.json").exit_code == 2);
}

}  // namespace mixtape::config
