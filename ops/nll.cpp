#include "ops/losses.h"

namespace mixtape::ops {
namespace {

struct NllRow {
  double ignore;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes&, int64_t n, int64_t, M* loss, const M* x, const M* target) const {
    const int64_t t = static_cast<int64_t>(*target);
    const bool ignored = *target == static_cast<M>(ignore), known = t >= 0 && t < n;
    *loss = ignored ? M(0) : known ? -x[t] : static_cast<M>(NAN);
  }
};
struct NllRowGrad {
  double ignore;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* target,
                             const M* divisor) const {
    const int64_t t = *target == static_cast<M>(ignore) ? -1 : static_cast<int64_t>(*target);
    const M share = -*dy / *divisor;
    lanes.each(n, [&](int64_t i) { dx[i] = maths::select(i == t, share, M(0)); });
  }
};

struct Nll {
  ClassLoss loss;

  static constexpr OpInfo info{
      .name = "nll",
      .precision = Rule::full,  // one 16-bit step at 36 is 0.25
      .inputs = {Input{"log_probs"}, Input{"targets", Role::index}},
      .saves = saves_inputs(1),
      .twice = true,
      .doc = "-log_probs[target], averaged over the targets that are not ignore_index; log_softmax makes log_probs"};

  Metas infer(const Infer& in) const {
    return {{.shape = loss.infer(in), .dtype = in.out()}, {.shape = {}, .dtype = in.wide(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    check_targets(info.name, in[1], in[0].shape.back(), loss.options.ignore_index);
    const Tensor losses = empty(in[1].shape, wide(in[0].dtype), in[0].device);
    kernels::rows(NllRow{ignore()}, in[0].shape, kernels::write(as_column(losses.view())), in[0], as_column(in[1]));
    loss.reduce(losses.view(), in[1], out[0], out[1]);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor targets = g.in(1), dy = g.dy(), dx = empty(g.meta(0).shape, g.meta(0).dtype, dy.device());
    const Reduction reduction = loss.options.reduction;
    // The gradient is dy times a constant: under create_graph that one is computed for dy = 1.
    const Tensor one = g.create_graph() ? full({}, 1, dy.dtype(), dy.device()) : Tensor();
    kernels::rows(NllRowGrad{ignore()}, dx.shape(), kernels::write(dx.view()),
                  one ? one.view() : row_gradient(reduction, dy.view()), as_column(targets.view()), g.extra(0).view());
    return {one ? mul(dx, row_gradient(reduction, dy)) : dx, {}};
  }

  static Samples<Nll> samples() {
    using enum Reduction;
    return {{{}, {arg({3, 5}, -4, 0), indices({3}, {0, 4, 2})}},
            {{{{sum}}}, {arg({2, 2, 3}), indices({2, 2}, {0, -100, 2, 1})}},
            {{{{none}}}, {arg({2, 2, 3}), indices({2, 2}, {0, -100, 2, 1})}},
            {{{{mean, 10}}}, {arg({3, 2}), indices({3}, {0, 1, 1})}},
            {{{{mean, 0, 1}}}, {arg({3, 2}), indices({3}, {0, 1, 1})}},
            {{}, {arg({2, 3}), indices({2}, {-100, -100})}},
            {{}, {arg({7}), indices({}, {6})}},
            {{}, {arg({0, 3}), indices({0}, {})}},
            {{}, {arg({1, 1}), indices({1}, {0})}},
            {{}, {arg({2, 131}), indices({2}, {130, 7})}},
            {{}, {arg({2, 3}), indices({2}, {0, 3})}, "target 3 at position [1] is no class from 0 to 2"},
            {{}, {arg({2, 3}), indices({2}, {-1, 0})}, "target -1 at position [0]"},
            {{}, {arg({2, 3}), indices({3}, {0, 0, 0})}, "input 'targets' has shape [3], expected [2]"},
            {{}, {arg({2, 0}), indices({2}, {0, 0})}, "expected a last axis of at least one class"}};
  }

  Arrays oracle(const Arrays& in) const {
    std::vector<double> terms;
    for (size_t i = 0; i < in[1].values.size(); ++i) {
      const double target = in[1].values[i];
      const size_t at = i * static_cast<size_t>(in[0].shape.back()) + static_cast<size_t>(std::max(target, 0.0));
      terms.push_back(target == ignore() ? 0 : -in[0].values[at]);
    }
    return {oracle_loss(loss.options.reduction, in[1].shape, std::move(terms), loss.divisor(in[1]))};
  }

 private:
  double ignore() const { return static_cast<double>(loss.options.ignore_index); }
};
const Register<Nll> nll_row;

}  // namespace

Tensor nll(const Tensor& log_probs, const Tensor& targets, const ClassLossOptions& options) {
  return autograd::apply(Nll{{options}}, {log_probs, targets})[0];
}

}  // namespace mixtape::ops
