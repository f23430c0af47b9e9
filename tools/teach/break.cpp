#include "tools/teach/break.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mixtape::teach {
namespace {

constexpr BreakFacts facts[] = {
    {.what = Break::no_master,
     .name = "no-master",
     .about = "weights held in bf16 alone: small updates are rounded away",
     .setting = "A tiny BERT in bf16 with AdamW, its learning rate small beside its weights, as in fine-tuning.",
     .story = "A public bf16 run without masters had 78 % of its norm weights at exactly 1.0 after 56,000 steps. See "
              "teach swallow; case 25 is the same loss in weight decay.",
     .file = "optim/pass.h",
     .function = "update_pass",
     .heals =
         "one pass updates the fp32 parameter and writes its 16-bit copy along; amp.parameter_storage \"low\", which "
         "this lesson sets, leaves the parameter out."},
    {.what = Break::no_scale,
     .name = "no-scale",
     .about = "no loss scale in fp16: small gradients become 0",
     .setting =
         "A tiny BERT in fp16 whose loss is a mean over 524,288 rows, of which the lesson runs 16: each row counts "
         "little, as each token does in a long batch.",
     .story = "fp16 ends at 2^-24: a gradient of 1e-8 is 0 in it, and 6.55e-4 under the scale 65536. A detector "
              "of Micikevicius et al. (2018) diverged without one. See teach formats --scale.",
     .file = "amp/grad_scaler.cpp",
     .function = "GradScaler::scale",
     .heals = "the sweep starts from the scale instead of 1, and each gradient carries 1/scale with it; amp.loss_scale "
              "= 1, which this lesson sets, is no scaling."},
    {.what = Break::fixed_scale,
     .name = "scale",
     .about = "a loss scale that cannot back off: every step overflows, and is skipped",
     .setting = "A tiny BERT in fp16, twice from the same scale; one may move it, the other may not.",
     .story = "Hundreds of \"gradient overflow\" lines, and a model that never learns: case 14, and 55 for the "
              "lines.",
     .file = "amp/scale_state.cpp",
     .function = "next",
     .heals =
         "a skipped step halves the scale, never below its floor. A run with a fixed scale that skips 50 steps in a "
         "row ends with exit code 20 (amp.max_consecutive_skips), which this lesson switches off."},
    {.what = Break::clip_before_unscale,
     .name = "clip-before-unscale",
     .about = "clipping gradients that are still scaled: next to nothing is left of them",
     .setting = "A layer norm and one product in fp16 with SGD, whose step is as long as its gradient; Adam divides by "
                "the gradient's "
                "size and hides this fault until eps counts.",
     .story = "Training almost stops, and only the gradient norm shows it: case 17, met by nine public projects.",
     .file = "optim/clip.cpp",
     .function = "clip_grad_norm",
     .heals = "a gradient is a pair (raw, multiplier), 1/scale is in the multiplier from the start, and clipping looks "
              "at the product: any order is right. The lesson had to take the pair apart to get it wrong."},
    {.what = Break::softmax_fp16,
     .name = "softmax-fp16",
     .about = "softmax with fp16 results inside: exp of a score above 11.09 is inf",
     .setting =
         "Attention over the words in fp16, its softmax written out as exp(x) / sum(exp(x)). Its scores grow while "
         "it learns what to look at.",
     .story =
         "Scripts whose softmax ran in fp16 on one backend and in fp32 on another: case 50; the NaN of inf / inf is "
         "that of cases 2 and 4. See teach softmax.",
     .file = "ops/softmax.h",
     .function = "SoftmaxRow",
     .heals =
         "ops::softmax computes in fp32 inside and takes the largest score off first, whatever a policy says. Written "
         "out, the rows \"full\" of exp and sum keep it whole; this lesson's policy says \"widest\" for both."},
    {.what = Break::sum_in_fp16,
     .name = "sum-in-fp16",
     .about = "sums in fp16: a variance that is inf, and a layer norm that is 0",
     .setting =
         "A layer norm over 256 features in fp16, written out by sums; its features are around 24, as those of deep "
         "residual streams are.",
     .story =
         "Silent rows of zeros out of a layer norm: case 8 (a variance of 246,419 stored as fp16); the seed of this "
         "project showed it with 70,000 ones. See teach layernorm and teach accumulate.",
     .file = "ops/sum.cpp",
     .function = "Rule::full",
     .heals =
         "a sum comes out in fp32 under every guard, and its kernel adds in fp32 or wider, which no policy can switch "
         "off: \"widest\", which this lesson's policy says, makes only its result fp16, and that is enough."},
    {.what = Break::double_sigmoid,
     .name = "double-sigmoid",
     .about = "a sigmoid before the loss that applies one itself",
     .setting = "A tiny BERT in fp32: no format is to blame.",
     .story =
         "The seed of this project had it; cases like 11 are its cousins. Nothing fails, the loss only stays high.",
     .file = "models/classifier.cpp",
     .function = "BertClassifier::loss_of",
     .heals = "models hand out logits and the loss takes logits; binary_cross_entropy, which takes probabilities, is "
              "banned under autocast and names bce_with_logits."},
};

double mean_of(const double* begin, const double* end) {
  double sum = 0;
  for (const double* p = begin; p != end; ++p) sum += *p;
  return sum / static_cast<double>(end - begin);
}

constexpr std::ptrdiff_t few = 10;

}  // namespace

std::span<const BreakFacts> break_facts() { return facts; }

double first_loss(const BreakRun& run) {
  return mean_of(run.loss.data(), run.loss.data() + std::min(few, std::ssize(run.loss)));
}
double last_loss(const BreakRun& run) {
  const double* end = run.loss.data() + run.loss.size();
  return mean_of(end - std::min(few, std::ssize(run.loss)), end);
}

std::string breaks_text() {
  std::string out = "one mechanism at a time, each trained without it and with it:\n\n";
  for (const BreakFacts& fact : facts) {
    const std::string option = fmt::format("--{}{}", fact.name, fact.what == Break::fixed_scale ? " 1e9" : "");
    out += fmt::format("  {:<22} {}\n", option, fact.about);
  }
  return out;
}

trainer::Json breaks_json() {
  trainer::Json list = trainer::Json::array();
  for (const BreakFacts& fact : facts)
    list.push(trainer::Json::object().set("break", fact.name).set("about", fact.about));
  return trainer::Json::object().set("breaks", std::move(list));
}

}  // namespace mixtape::teach
