// What teach break trains: sentences drawn from a seed, three small models, and a loop made of the framework's own
// parts, any one of which a recipe may leave out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "amp/grad_scaler.h"
#include "amp/policy.h"
#include "nn/module.h"

namespace mixtape::teach {

/// Sentences of word numbers: a start, then words of which one, anywhere, tells the class.
struct Sentences {
  static constexpr int64_t words = 64, length = 9;
  Tensor ids;                   ///< i64 [rows, length]
  std::vector<int64_t> labels;  ///< 0 or 1, of each row
};
/// A pure function of its arguments.
Sentences draw_sentences(int64_t rows, uint64_t seed, uint32_t step);

/// A model that tells two classes apart.
class Learner : public nn::Module {
 public:
  virtual Tensor logits(const Tensor& ids) const = 0;  ///< i64 [rows, length] -> [rows]
};
using MakeLearner = std::function<std::unique_ptr<Learner>(uint64_t seed)>;

/// Two layers of BERT, 32 wide; `std` is that of the fresh weights.
MakeLearner tiny_bert(double std);
/// Attention over the words, then one product. Its softmax is written out, exp(x) / sum(exp(x)), so that a policy's
/// rows decide about each of its steps; `std` is that of the words and of the query.
MakeLearner attentive_reader(double std);
/// A layer norm of 256 features a word, their mean over the words, then one product. The norm is written out, by sums;
/// `std` is that of the features.
MakeLearner normed_reader(double std);

/// A training, with every mechanism that teach break switches off.
struct Recipe {
  std::string name;  ///< "fp32 master"
  MakeLearner model;
  DType dtype = DType::f16;  ///< f32: without autocast
  amp::Policy policy;
  amp::ScalerOptions scaler;
  bool adam = true;  ///< else SGD with momentum 0.9
  double lr = 1e-3;
  int64_t steps = 120;
  double window = 1;           ///< the loss is a mean over so many times the rows of a step
  double max_norm = 0;         ///< 0: no clipping
  bool clips_scaled = false;   ///< clips the gradients of the scaled loss, and unscales them after that
  bool sigmoid_twice = false;  ///< hands probabilities to the loss that takes logits
};

/// What came of it.
struct BreakRun {
  std::string name;
  std::vector<double> loss;  ///< of each step, a mean over its rows; inf or NaN where it was
  int64_t skipped = 0;       ///< steps
  double end_scale = 1;
  double never_moved = 0;          ///< share of all weights that kept their first value to the end
  double norms_at_one = 0;         ///< share of the weights of normalisations (γ) that are exactly 1 at the end
  double zero_gradients = 0;       ///< share of the 16-bit elements of all sweeps that are 0; 0 where there are none
  double norm = 0;                 ///< mean over the applied steps: 2-norm of the gradient that was applied
  double lowest = 0, highest = 0;  ///< probability that the loss sees, over the test sentences; NaN left out
  double unanswered = 0;           ///< share of the test sentences whose logit is NaN
  double macro_f1 = 0;             ///< on 256 test sentences; no answer counts as the wrong one
};
BreakRun train(const Recipe& recipe, uint64_t seed);

/// clip_grad_norm of gradients that are still scaled, then unscaled: the wrong order.
void clip_scaled(optim::Optimizer& optimizer, double max_norm);
/// What that leaves of a gradient whose scaled norm is given.
double norm_after_clip_scaled(double scaled_norm, double scale, double max_norm);

}  // namespace mixtape::teach
