#include <doctest/doctest.h>

#include "amp/policy.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using amp::make_rule;
using amp::Policy;
using tests::contains;
using tests::error_of;
using tests::error_text;

Rule rule_in(const Policy& policy, const char* op) {
  REQUIRE(find_op(op) != nullptr);
  return policy.rule_of(*find_op(op));
}

// A policy file with some keys replaced or added.
std::string file_with(const std::string& more, const std::string& rows = "") {
  return R"({"name": "mine", "version": 3, "unlisted": "own", "loss_scale": "dynamic", "rows": {)" + rows + "}" +
         (more.empty() ? "" : ", " + more) + "}";
}
Policy parse(const std::string& text) { return Policy::parse(text, "mine.json"); }
std::string refused(const std::string& text) {
  return error_text([&] { parse(text); });
}

TEST_CASE("native is the column of the op table, for every row") {
  const Policy native = Policy::load("native");
  CHECK(native.rows.empty());
  CHECK(native.dynamic_scale);
  for (const OpSchema* op : registry()) CHECK(native.rule_of(*op) == op->info->precision.rule);
}

TEST_CASE("the presets differ from native where the systems they reproduce do") {
  const Policy native = Policy::load("native"), torch = Policy::load("torch_cpu"), apex = Policy::load("apex_O1");
  struct Row {
    const char* op;
    Rule native, torch, apex;
  };
  const Row table[] = {{"linear", Rule::low, Rule::low, Rule::low},
                       {"batched_matmul", Rule::low, Rule::low, Rule::low},
                       {"softmax", Rule::keep, Rule::widest, Rule::full},
                       {"masked_softmax", Rule::keep, Rule::widest, Rule::full},
                       {"layer_norm", Rule::keep, Rule::widest, Rule::full},
                       {"log_softmax", Rule::full, Rule::widest, Rule::full},
                       {"exp", Rule::full, Rule::widest, Rule::full},
                       {"sum", Rule::full, Rule::widest, Rule::full},
                       {"mean", Rule::full, Rule::widest, Rule::widest},
                       {"var", Rule::full, Rule::widest, Rule::full},
                       {"sqrt", Rule::full, Rule::widest, Rule::widest},
                       {"gelu", Rule::keep, Rule::widest, Rule::widest},
                       {"dropout", Rule::keep, Rule::widest, Rule::widest},
                       {"embedding", Rule::low_out, Rule::widest, Rule::widest},
                       {"add", Rule::widest, Rule::widest, Rule::widest},
                       {"cross_entropy", Rule::full, Rule::full, Rule::full},
                       {"bce_with_logits", Rule::full, Rule::full, Rule::full},
                       {"binary_cross_entropy", Rule::banned, Rule::full, Rule::banned}};
  for (const Row& row : table) {
    CAPTURE(row.op);
    CHECK(rule_in(native, row.op) == row.native);
    CHECK(rule_in(torch, row.op) == row.torch);
    CHECK(rule_in(apex, row.op) == row.apex);
  }
}

TEST_CASE("rows of ops that are not here are listed as absent, never dropped") {
  const Policy torch = Policy::load("torch_cpu"), apex = Policy::load("apex_O1");
  CHECK(torch.absent.contains("conv2d"));
  CHECK(torch.absent.contains("index_copy"));
  CHECK(apex.absent.contains("softplus"));
  CHECK(apex.absent.at("conv2d") == Rule::low);
  for (const auto& [name, rule] : torch.absent) CHECK(find_op(name) == nullptr);
  const Policy mine = parse(file_with(R"("absent": {"flash": "low", "softmax": "full"})"));
  CHECK(mine.absent.contains("flash"));
  CHECK(rule_in(mine, "softmax") == Rule::full);  // it is here by now: the row acts
}

TEST_CASE("a rule is a policy made ready: dtype, name and a rule for each row") {
  Policy policy = Policy::load("native");
  policy.replace("softmax", Rule::full);
  policy.replace("gelu", "full");
  const auto rule = make_rule(policy, DType::f16);
  CHECK(rule->low == DType::f16);
  CHECK(rule->policy == "native");
  for (const OpSchema* op : registry()) {
    const bool replaced = op->info->name == "softmax" || op->info->name == "gelu";
    CHECK(rule->of(*op) == (replaced ? Rule::full : op->info->precision.rule));
  }
  CHECK(contains(error_text([&] { make_rule(policy, DType::f32); }),
                 "E-AUTOCAST-DTYPE: autocast: the low dtype must be"));
}

TEST_CASE("an unknown op is an error with the nearest one, in a file and as an override") {
  Policy policy = Policy::load("native");
  CHECK(error_text([&] { policy.replace("softmx", "full"); }) ==
        "E-POLICY-OP: overrides: no op is named 'softmx'; the nearest is 'softmax' (mixtape ops lists all)");
  CHECK(contains(refused(file_with("", R"("layernorm": "full")")),
                 "E-POLICY-OP: mine.json: rows: no op is named 'layernorm'; the nearest is 'layer_norm'"));
}

TEST_CASE("a row that could not act is an error") {
  Policy policy = Policy::load("native");
  CHECK(contains(error_text([&] { policy.replace("softmax", "ful"); }),
                 "E-POLICY-RULE: overrides.softmax: no rule is named 'ful'"));
  CHECK(contains(error_text([&] { policy.replace("cast", "full"); }), "E-POLICY-RULE: overrides: row 'cast'"));
  CHECK(contains(error_text([&] { policy.replace("embedding", "low"); }), "a lookup never casts its table"));
  CHECK(contains(error_text([&] { policy.replace("linear", "low_out"); }), "low_out is for table lookups"));
  policy.replace("embedding", "keep");
  CHECK(rule_in(policy, "embedding") == Rule::keep);
}

TEST_CASE("a policy of one's own comes from a file, with comments") {
  const tests::TempFolder folder;
  const std::string path = folder.write(
      "mine.json", "// mine\n" + file_with(R"("doc": "d", "model_dtype": "f32")", R"("exp": "low" /*!*/)"));
  const Policy mine = Policy::load(path);
  CHECK(mine.name == "mine");
  CHECK(mine.version == 3);
  CHECK(rule_in(mine, "exp") == Rule::low);
  CHECK(rule_in(mine, "log") == Rule::full);
  std::string text = file_with("");
  text.replace(text.find("\"own\""), 5, "\"keep\"");
  CHECK(rule_in(parse(text), "log") == Rule::keep);
}

TEST_CASE("a static scale is a number") {
  std::string text = file_with("");
  text.replace(text.find("\"dynamic\""), 9, "1024");
  CHECK_FALSE(parse(text).dynamic_scale);
  CHECK(parse(text).static_scale == 1024);
}

TEST_CASE("a file that is wrong is refused with its name and the place") {
  CHECK(contains(error_text([] { Policy::load("nativ"); }),
                 "E-POLICY-NAME: no policy is named 'nativ': there are apex_O0, apex_O1, apex_O2, apex_O3, native, "
                 "torch_cpu, torch_cuda, and files"));
  CHECK(
      contains(error_text([] { Policy::load("/nowhere/p.json"); }), "E-POLICY-FILE: /nowhere/p.json: cannot be read"));
  CHECK(contains(refused("{\"name\": }"), "E-POLICY-FILE: mine.json: "));
  CHECK(contains(refused("[]"), "expected an object"));
  CHECK(contains(refused(file_with(R"("row": {})")), "E-POLICY-KEY: mine.json: unknown key 'row'"));
  CHECK(contains(refused("{}"), "'name' is missing"));
  CHECK(contains(refused(file_with("", R"("exp": "low", "exp": "full")")), "'exp' is written twice"));
  CHECK(contains(refused(file_with("", R"("exp": 1)")), "'rows.exp' must be a rule in quotes"));
  CHECK(
      contains(refused(file_with("", R"("exp": "lo")")), "E-POLICY-RULE: mine.json: rows.exp: no rule is named 'lo'"));
  CHECK(error_of([] { parse("[]"); })->kind() == ErrorKind::config);
}

TEST_CASE("how parameters are kept: what a file says of them, and what would contradict itself") {
  const Policy low = parse(file_with(R"("model_dtype": "low", "keep_norms_f32": false, "parameter_storage": "low")"));
  CHECK(low.low_model);
  CHECK_FALSE(low.keep_norms_f32);
  CHECK(low.storage == amp::ParameterStorage::low);
  CHECK(parse(file_with("")).storage == amp::ParameterStorage::f32_with_low_copy);
  CHECK(parse(file_with(R"("parameter_storage": "f32")")).storage == amp::ParameterStorage::f32);
  const auto key_refused = [](const char* more, const char* words) {
    CHECK(contains(refused(file_with(more)), std::string("E-POLICY-KEY: mine.json: ") + words));
  };
  key_refused(R"("model_dtype": "f16")", "'model_dtype' must be \"f32\" or \"low\"");
  key_refused(R"("model_dtype": 1)", "'model_dtype' must be a string");
  key_refused(R"("keep_norms_f32": "yes")", "'keep_norms_f32' must be true or false");
  key_refused(R"("keep_norms_f32": false)", "'keep_norms_f32' must be true where model_dtype is \"f32\"");
  key_refused(R"("parameter_storage": "f16")", "'parameter_storage' must be one of f32, f32_with_low_copy, low");
  key_refused(R"("parameter_storage": "low")", "'parameter_storage' must be one of f32 where");
  key_refused(R"("casts": false, "model_dtype": "low")", "'casts' must be true where there are rows, or a model of 16");
  CHECK(contains(refused(file_with(R"("casts": false)", R"("exp": "low")")), "'casts' must be true"));
  CHECK(make_rule(parse(file_with(R"("casts": false)")), DType::f16) == nullptr);
}

TEST_CASE("seven policies are compiled in, in the order of their names") {
  CHECK(Policy::built_in() ==
        std::vector<std::string>{"apex_O0", "apex_O1", "apex_O2", "apex_O3", "native", "torch_cpu", "torch_cuda"});
  for (const std::string& name : Policy::built_in()) CHECK(Policy::load(name).name == name);
}

}  // namespace
}  // namespace mixtape
