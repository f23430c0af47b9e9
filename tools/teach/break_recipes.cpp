#include <algorithm>

#include "tools/teach/break.h"

namespace mixtape::teach {
namespace {

amp::ScalerOptions scaler(double init, bool dynamic) {
  amp::ScalerOptions out;
  out.scale.dynamic = dynamic;
  out.scale.init = init;
  out.scale.max = std::max(out.scale.max, init);
  out.scale.min = std::min(out.scale.min, init);
  out.max_consecutive_skips = 0;  // the lesson goes on where a run would end
  return out;
}

/// The common part: both runs train with a dynamic scale under the policy of the table.
Recipe recipe(MakeLearner model, DType dtype) {
  Recipe out;
  out.model = std::move(model);
  out.dtype = dtype;
  out.policy = amp::Policy::load("native");
  out.scaler = dtype == DType::f16 ? scaler(65536, true) : scaler(1, false);
  return out;
}

RecipePair both(Recipe as_it_is) { return {as_it_is, std::move(as_it_is)}; }

RecipePair without_master() {
  Recipe base = recipe(tiny_bert(0.1), DType::bf16);
  base.lr = 3e-4;
  base.steps = 240;
  RecipePair out = both(std::move(base));
  out.off.name = "bf16 alone";
  out.off.policy.storage = amp::ParameterStorage::low;
  out.off.policy.low_model = true;
  out.off.policy.keep_norms_f32 = false;
  out.on.name = "fp32 master";
  return out;
}

RecipePair without_scale() {
  Recipe base = recipe(tiny_bert(0.1), DType::f16);
  base.window = 32768;
  RecipePair out = both(std::move(base));
  out.off.name = "scale 1";
  out.off.scaler = scaler(1, false);
  out.on.name = "scale 65536";
  return out;
}

RecipePair with_fixed_scale(double scale) {
  RecipePair out = both(recipe(tiny_bert(0.1), DType::f16));
  out.off.name = "fixed scale";
  out.off.scaler = scaler(scale, false);
  out.on.name = "dynamic scale";
  out.on.scaler = scaler(scale, true);
  return out;
}

RecipePair clipping_first() {
  Recipe base = recipe(normed_reader(1), DType::f16);
  base.adam = false;
  base.lr = 0.3;
  base.max_norm = 1;
  RecipePair out = both(std::move(base));
  out.off.name = "clip, unscale";
  out.off.clips_scaled = true;
  out.on.name = "unscale, clip";
  return out;
}

RecipePair softmax_in_half() {
  Recipe base = recipe(attentive_reader(0.5), DType::f16);
  base.lr = 0.1;
  RecipePair out = both(std::move(base));
  out.off.name = "in fp16";
  out.off.policy.replace("exp", Rule::widest);
  out.off.policy.replace("sum", Rule::widest);
  out.on.name = "in fp32";
  return out;
}

RecipePair sum_in_half() {
  Recipe base = recipe(normed_reader(24), DType::f16);
  base.lr = 1e-2;
  RecipePair out = both(std::move(base));
  out.off.name = "fp16 sums";
  out.off.policy.replace("sum", Rule::widest);
  out.on.name = "fp32 sums";
  return out;
}

RecipePair sigmoid_twice() {
  Recipe base = recipe(tiny_bert(0.1), DType::f32);
  base.lr = 3e-3;
  RecipePair out = both(std::move(base));
  out.off.name = "sigmoid twice";
  out.off.sigmoid_twice = true;
  out.on.name = "logits";
  return out;
}

}  // namespace

RecipePair break_recipes(const BreakOptions& options) {
  switch (options.what) {
    case Break::no_master: return without_master();
    case Break::no_scale: return without_scale();
    case Break::fixed_scale: return with_fixed_scale(options.scale);
    case Break::clip_before_unscale: return clipping_first();
    case Break::softmax_fp16: return softmax_in_half();
    case Break::sum_in_fp16: return sum_in_half();
    default: return sigmoid_twice();
  }
}

BreakLesson break_lesson(const BreakOptions& options) {
  const RecipePair recipes = break_recipes(options);
  return {options, train(recipes.off, options.seed), train(recipes.on, options.seed)};
}

}  // namespace mixtape::teach
