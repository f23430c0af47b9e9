#include "ops/cross_entropy.h"
#include "ops/losses.h"
#include "ops/operators.h"
#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

using kernels::write;

// q and, beside it, what each row's gradient is multiplied by: the constants of the backward as ops.
struct TargetRow {
  double ignore, smoothing;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* q, M* share, const M* target,
                             const M* divisor) const {
    const int32_t t = static_cast<int32_t>(*target);
    const M sharp = static_cast<M>(1 - smoothing), flat = static_cast<M>(smoothing) / static_cast<M>(n);
    lanes.each(n, [&](int64_t i) { q[i] = flat + maths::select(static_cast<int32_t>(i) == t, sharp, M(0)); });
    *share = *target == static_cast<M>(ignore) ? M(0) : M(1) / *divisor;
  }
};

struct CrossEntropy {
  ClassLoss loss;
  double label_smoothing = 0;

  static constexpr OpInfo info{
      .name = "cross_entropy",
      .precision = Rule::full,  // log-softmax, smoothing, reduction and the returned loss in f32
      .inputs = {Input{"logits"}, Input{"targets", Role::index}},
      .saves = saves_inputs(0, 1),
      .absorbs = "log_softmax nll",
      .twice = true,
      .doc =
          "nll of log_softmax in one pass, averaged over the targets that are not ignore_index; with label smoothing "
          "(Szegedy et al., 2016)"};

  Metas infer(const Infer& in) const {
    const Shape shape = loss.infer(in);
    if (!(label_smoothing >= 0 && label_smoothing <= 1)) {
      in.fail(message("label_smoothing is ", label_smoothing, ", expected a number from 0 to 1"));
    }
    return {{.shape = shape, .dtype = in.out()},
            {.shape = in.shape(1), .dtype = in.wide(), .saved_only = true},
            {.shape = {}, .dtype = in.wide(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    check_targets(info.name, in[1], in[0].shape.back(), loss.options.ignore_index);
    const Tensor losses = empty(in[1].shape, wide(in[0].dtype), in[0].device);
    kernels::rows(CrossEntropyRow{ignore(), label_smoothing}, in[0].shape, write(as_column(losses.view())),
                  write(as_column(out[1])), in[0], as_column(in[1]));
    loss.reduce(losses.view(), in[1], out[0], out[2]);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), targets = g.in(1);
    if (g.create_graph()) return {slope_ops(g.dy(), x, targets, g.extra(1)), {}};
    const Tensor dx = empty_like(x);
    kernels::rows(CrossEntropyRowGrad{ignore(), label_smoothing}, x.shape(), write(dx.view()),
                  row_gradient(loss.options.reduction, g.dy().view()), x.view(), as_column(g.extra(0).view()),
                  as_column(targets.view()), g.extra(1).view());
    return {dx, {}};
  }

  Tensor slope_ops(const Tensor& dy, const Tensor& x, const Tensor& targets, const Tensor& divisor) const {
    const Tensor q = empty_like(x);
    const Tensor share = empty(Reduce{-1}.kept(x.shape()), x.dtype(), x.device());
    kernels::rows(TargetRow{ignore(), label_smoothing}, x.shape(), write(q.view()), write(share.view()),
                  as_column(targets.view()), divisor.view());
    return mul(sub(softmax(x), q), mul(share, row_gradient(loss.options.reduction, dy)));
  }

  static Samples<CrossEntropy> samples() {
    using enum Reduction;
    return {{{}, {arg({3, 5}), indices({3}, {0, 4, 2})}},
            {{{{sum}}}, {arg({2, 2, 3}), indices({2, 2}, {0, -100, 2, 1})}},
            {{{{none}}}, {arg({2, 2, 3}), indices({2, 2}, {0, -100, 2, 1})}},
            {{{{mean, 10}}, 0.1}, {arg({3, 2}), indices({3}, {0, 1, 1})}},
            {{{{mean, 0, 1}}}, {arg({3, 2}), indices({3}, {0, 1, 1})}},
            {{{{none}}, 0.25}, {arg({2, 4}), indices({2}, {3, -100})}},
            {{{}, 1}, {arg({2, 3}), indices({2}, {1, 0})}},
            {{}, {arg({2, 3}), indices({2}, {-100, -100})}},
            {{}, {arg({7}), indices({}, {6})}},
            {{}, {arg({0, 3}), indices({0}, {})}},
            {{}, {arg({1, 1}), indices({1}, {0})}},
            {{}, {arg({2, 131}), indices({2}, {130, 7})}},
            {{}, {arg({2, 3}), indices({2}, {0, 3})}, "target 3 at position [1] is no class from 0 to 2"},
            {{}, {arg({2, 2, 3}), indices({2, 2}, {0, 1, -7, 0})}, "target -7 at position [1, 0]"},
            {{}, {arg({2, 3}), indices({3}, {0, 0, 0})}, "input 'targets' has shape [3], expected [2]"},
            {{{}, 1.5}, {arg({2, 3}), indices({2}, {0, 0})}, "label_smoothing is 1.5, expected a number from 0 to 1"},
            {{{{none, 3}}}, {arg({2, 3}), indices({2}, {0, 0})}, "items divides the mean"},
            {{}, {arg({}), indices({}, {0})}, "expected a last axis of at least one class"}};
  }

  Arrays oracle(const Arrays& in) const {
    const size_t n = static_cast<size_t>(in[0].shape.back());
    std::vector<double> terms;
    for (size_t row = 0; row < in[1].values.size(); ++row) {
      const double *x = in[0].values.data() + row * n, target = in[1].values[row];
      long double sum = 0;
      for (size_t i = 0; i < n && target != ignore(); ++i) {  // Σ q·-log p
        long double odds = 0;
        for (size_t j = 0; j < n; ++j) odds += std::exp(static_cast<long double>(x[j]) - x[i]);
        const double hit = static_cast<double>(i) == target ? 1 - label_smoothing : 0;
        sum += (hit + label_smoothing / static_cast<double>(n)) * std::log(odds);
      }
      terms.push_back(static_cast<double>(sum));
    }
    return {oracle_loss(loss.options.reduction, in[1].shape, std::move(terms), loss.divisor(in[1]))};
  }

 private:
  double ignore() const { return static_cast<double>(loss.options.ignore_index); }
};
const Register<CrossEntropy> cross_entropy_row;

}  // namespace

namespace {

// nll of log_softmax as two calls; smoothing adds the mean of all classes' -log p.
Tensor composed_cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options,
                              double smoothing) {
  const Tensor log_probs = log_softmax(logits);
  if (smoothing == 0) return nll(log_probs, targets, options);
  ClassLossOptions each = options;
  each.reduction = Reduction::none;
  if (options.reduction == Reduction::mean) each.items = 0;  // divides below
  std::vector<bool> ignored;
  for (const double target : to_vector(targets)) {
    ignored.push_back(target == static_cast<double>(options.ignore_index));
  }
  const Tensor uniform = masked_fill(mean(log_probs, -1), from_bools(ignored, targets.shape()), 0.0);
  const Tensor losses = (1 - smoothing) * nll(log_probs, targets, each) - smoothing * uniform;
  if (options.reduction == Reduction::none) return losses;
  if (options.reduction == Reduction::sum) return sum(losses);
  const auto own = static_cast<double>(std::count(ignored.begin(), ignored.end(), false));
  return sum(losses) / (options.items > 0 ? options.items : own);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options,
                     double label_smoothing) {
  if (!autograd::may_fuse<CrossEntropy>()) {
    return composed_cross_entropy(logits, targets, options, label_smoothing);
  }
  return autograd::apply(CrossEntropy{{options}, label_smoothing}, {logits, targets})[0];
}

}  // namespace mixtape::ops
