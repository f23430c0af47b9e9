// Whole runs under the opt levels: what they store, what they compare equal to, and how they go on.
#include <doctest/doctest.h>

#include <map>

#include "data/safetensors.h"
#include "tests/recorder.h"

namespace mixtape::tests {
namespace {

class Runs {
 public:
  /// Trains into `name`, or goes on there; the weights of best/ as bytes.
  std::string train(const std::string& name, std::vector<std::string> sets, const std::string& more = "") const {
    const ProgramResult result =
        run_program("train '" + tiny_.config_path() + "' -q -s '" + path(name) + "'" + set_options(sets) + more);
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    return slurp(path(name) + "/best/model.safetensors");
  }
  std::string path(const std::string& name) const { return tiny_.path(name); }
  /// The dtypes of the parameters in the newest checkpoint, by name.
  std::map<std::string, DType> dtypes(const std::string& name) const {
    std::string latest = slurp(path(name) + "/latest");
    latest.pop_back();
    const auto file = data::SafeTensorsFile::open(path(name) + "/" + latest + "/model.safetensors");
    std::map<std::string, DType> out;
    for (const data::TensorEntry& entry : file.tensors()) out[entry.name] = entry.dtype;
    return out;
  }
  std::vector<nlohmann::json> steps(const std::string& name) const {
    return events_of(read_log(path(name) + "/log.jsonl"), "step");
  }
  nlohmann::json metrics(const std::string& name) const {
    return nlohmann::json::parse(slurp(path(name) + "/metrics.json"));
  }

 private:
  TinyRun tiny_;
};

const std::string norm_name = "bert.encoder.layer.0.output.LayerNorm.weight",
                  weight_name = "bert.encoder.layer.0.output.dense.weight",
                  bias_name = "bert.encoder.layer.0.output.dense.bias";

}  // namespace

TEST_CASE("opt levels: O0 trains in f32, to the bit, whatever amp.dtype is") {
  const Runs runs;
  const std::string off = runs.train("off", {"amp.dtype=off"});
  CHECK(runs.train("bf16", {"amp.dtype=bf16", "amp.opt_level=O0"}) == off);
  CHECK(runs.train("fp16", {"amp.dtype=fp16", "amp.policy=apex_O0"}) == off);
  CHECK(runs.steps("fp16").front().at("loss_scale") == 1);
  CHECK(runs.train("O1", {"amp.dtype=bf16", "amp.opt_level=O1"}) != off);
}

TEST_CASE("opt levels: the policy says how the loss is scaled, unless amp.loss_scale is written") {
  const TinyRun tiny;
  const auto scale = [&](std::vector<std::string> sets) {
    sets.push_back("amp.dtype=fp16");
    return trainer::make_precision(tiny.config(sets)).scaler.scale;
  };
  for (const std::string level : {"O0", "O3"}) {
    CHECK_FALSE(scale({"amp.opt_level=" + level}).dynamic);
    CHECK(scale({"amp.opt_level=" + level}).init == 1);
    CHECK(scale({"amp.opt_level=" + level, "amp.loss_scale=\"dynamic\""}).dynamic);
    CHECK(scale({"amp.opt_level=" + level, "amp.loss_scale=128"}).init == 128);
  }
  for (const std::string level : {"O0", "O2", "O3"}) {
    CAPTURE(level);
    for (const char* more : {"amp.growth_factor=2", "amp.loss_scale=\"dynamic\"", "amp.loss_scale=8"}) {
      const config::Config config = tiny.config({"amp.dtype=fp16", "amp.opt_level=" + level, more});
      const std::string effective = tiny.folder().write("effective.json", config::to_json(config));
      const config::Config again = config::load_config(effective, {});
      CHECK(trainer::make_precision(again).scaler.scale.dynamic ==
            trainer::make_precision(config).scaler.scale.dynamic);
      CHECK(trainer::make_precision(again).scaler.scale.init == trainer::make_precision(config).scaler.scale.init);
    }
  }
  CHECK(scale({"amp.opt_level=O2"}).dynamic);
  CHECK(scale({"amp.opt_level=O2"}).init == 65536);
}

TEST_CASE("opt levels: O2 keeps f32 masters and scales, O3 keeps 16 bits alone and does not") {
  const Runs runs;
  for (const std::string dtype : {"bf16", "fp16"}) {
    CAPTURE(dtype);
    runs.train("O2" + dtype, {"amp.dtype=" + dtype, "amp.opt_level=O2"});
    for (const auto& [name, stored] : runs.dtypes("O2" + dtype)) CHECK(stored == DType::f32);
    CHECK(runs.steps("O2" + dtype).front().at("loss_scale") == (dtype == "fp16" ? 65536 : 1));

    runs.train("O3" + dtype, {"amp.dtype=" + dtype, "amp.opt_level=O3"});
    const DType low = dtype == "fp16" ? DType::f16 : DType::bf16;
    const auto stored = runs.dtypes("O3" + dtype);
    for (const std::string& name : {norm_name, weight_name, bias_name}) CHECK(stored.at(name) == low);
    for (const nlohmann::json& step : runs.steps("O3" + dtype)) CHECK(step.at("loss_scale") == 1);
  }
}

TEST_CASE("opt levels: what is exported under O3 scores as it did in training") {
  const Runs runs;
  for (const std::string level : {"O2", "O3"}) {
    for (const std::string head : {"sigmoid", "softmax"}) {
      CAPTURE(level);
      const std::string name = level + head;
      runs.train(name, {"amp.dtype=bf16", "amp.opt_level=" + level, "model.head=" + head});
      const ProgramResult result = run_program("evaluate '" + runs.path(name) + "' --split test");
      CAPTURE(result.err);
      REQUIRE(result.exit_code == 0);
      CHECK(nlohmann::json::parse(result.out).at("loss") == runs.metrics(name).at("test").at("loss"));
    }
  }
}

TEST_CASE("opt levels: a run goes on with the same bits, and its level is part of the trajectory") {
  const TinyRun tiny;
  struct Killed {};
  for (const std::string level : {"O2", "O3"}) {
    CAPTURE(level);
    const std::vector<std::string> sets = {"amp.dtype=bf16", "amp.opt_level=" + level, "trainer.save_steps=1"};
    WatchedRun whole(tiny, "whole" + level, sets);
    (void)whole.run();
    {
      WatchedRun cut(tiny, "cut" + level, sets);
      cut.trainer.at_step = [](int64_t step) {
        if (step == 5) throw Killed();
      };
      CHECK_THROWS_AS((void)cut.run(), Killed);
    }
    WatchedRun rest(tiny, "cut" + level, sets);
    CHECK(rest.recover() == 4);
    (void)rest.run();
    CHECK(rest.trainer.weights.back() == whole.trainer.weights.back());
    CHECK(rest.trainer.moments.back() == whole.trainer.moments.back());
    CHECK(metrics_of(rest.dir.path()) == metrics_of(whole.dir.path()));
    const WatchedRun other(tiny, "other" + level, {"amp.dtype=bf16"});
    const auto changes = trainer::changes_between(whole.trajectory, other.trajectory);
    REQUIRE_FALSE(changes.empty());
    CHECK(changes.front().key == "amp.policy");
  }
}

TEST_CASE("parameter storage: every form trains, is in the checkpoint, and goes on with the same bits") {
  const TinyRun tiny;
  struct Killed {};
  for (const std::string form : {"f32", "low", "bf16_stochastic", "bf16_kahan"}) {
    CAPTURE(form);
    const std::vector<std::string> sets = {"amp.dtype=bf16", "amp.parameter_storage=" + form, "trainer.save_steps=1"};
    WatchedRun whole(tiny, "whole-" + form, sets);
    (void)whole.run();
    {
      WatchedRun cut(tiny, "cut-" + form, sets);
      cut.trainer.at_step = [](int64_t step) {
        if (step == 5) throw Killed();
      };
      CHECK_THROWS_AS((void)cut.run(), Killed);
    }
    WatchedRun rest(tiny, "cut-" + form, sets);
    CHECK(rest.recover() == 4);
    (void)rest.run();
    CHECK(rest.trainer.weights.back() == whole.trainer.weights.back());
    CHECK(rest.trainer.moments.back() == whole.trainer.moments.back());
    for (const auto& [name, tensor] : whole.model->parameters()) {
      CHECK(tensor.dtype() ==
            (form == "f32" || name.find("LayerNorm") != std::string::npos ? DType::f32 : DType::bf16));
      CHECK_FALSE((form != "f32" && tensor.leaf().shadow.bytes && tensor.dtype() != DType::f32));
      if (form == "f32") CHECK_FALSE(tensor.leaf().shadow.bytes);
    }
    for (const nlohmann::json& step : events_of(read_log(whole.dir.path("log.jsonl")), "step")) {
      CHECK(step.contains("lost_updates") == (form != "f32"));
    }
  }
}

TEST_CASE("parameter storage: f32 alone has the bits of f32 with a copy; the forms of 16 bits have others") {
  const Runs runs;
  const auto trained = [&](const std::string& form) {
    return runs.train(form, {"amp.dtype=bf16", "amp.parameter_storage=" + form});
  };
  const std::string shadow = trained("f32_with_low_copy");
  CHECK(trained("policy") == shadow);
  CHECK(trained("f32") == shadow);
  const std::string low = trained("low"), stochastic = trained("bf16_stochastic"), kahan = trained("bf16_kahan");
  CHECK(low != stochastic);
  CHECK(low != kahan);
  CHECK(stochastic != kahan);
}

TEST_CASE(
    "parameter storage: another form with --recover-with-changes takes the weights along, and is refused without") {
  const Runs runs;
  for (const auto& [before, now] :
       {std::pair("bf16_kahan", "f32_with_low_copy"), std::pair("f32", "bf16_kahan"), std::pair("bf16_kahan", "low")}) {
    const std::string name = message(before, "-", now);
    runs.train(name, {"amp.dtype=bf16", message("amp.parameter_storage=", before), "trainer.max_steps=3"});
    std::filesystem::remove(runs.path(name) + "/metrics.json");
    const std::string again =
        "train '" + runs.path("config.json") + "' -q -s '" + runs.path(name) + "'" +
        set_options({"amp.dtype=bf16", message("amp.parameter_storage=", now), "trainer.max_steps=5"});
    const ProgramResult refused = run_program(again + " --recover");
    CHECK(refused.exit_code == 2);
    CHECK(contains(refused.err, "amp.parameter_storage"));
    const ProgramResult goes_on = run_program(again + " --recover --recover-with-changes");
    CAPTURE(goes_on.err);
    CHECK(goes_on.exit_code == 0);
    CHECK(runs.steps(name).back().at("step") == 5);
  }
}

TEST_CASE("parameter storage: forms that cannot be are refused before anything is written") {
  const TinyRun tiny;
  for (const auto& [dtype, set, words] :
       {std::tuple("fp16", "amp.parameter_storage=bf16_kahan", "this form is there for bf16 alone"),
        std::tuple("bf16", "amp.parameter_storage=low", "it casts nothing")}) {
    std::vector<std::string> sets = {message("amp.dtype=", dtype), set};
    if (std::string(dtype) == "bf16") sets.push_back("amp.opt_level=O0");
    const ProgramResult result =
        run_program("train '" + tiny.config_path() + "' -s '" + tiny.path("run") + "'" + set_options(sets));
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, "E-POLICY-STORAGE"));
    CHECK(contains(result.err, words));
    CHECK_FALSE(std::filesystem::exists(tiny.path("run")));
  }
}

}  // namespace mixtape::tests
