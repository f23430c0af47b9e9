#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/reduce.h"

namespace mixtape::ops {
namespace {

struct Mean {
  Reduce over;

  static constexpr OpInfo info{.name = "mean",
                               .precision = Rule::full,  // as sum
                               .inputs = {Input{"x"}},
                               .twice = true,
                               .doc = "the mean over one axis or all; the sum is divided before it is rounded"};

  Metas infer(const Infer& in) const {
    const Shape shape = over.infer(in);
    over.expect_terms(in);
    return {{.shape = shape, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const Shape& full = in[0].shape;
    const Tensor total = empty(over.kept(full), wide(in[0].dtype), in[0].device);
    kernels::fold(kernels::Identity{}, full, total.view(), in[0]);
    kernels::map(divided(full), over.kept_view(out[0], full), total.view());
  }

  Tensors backward(autograd::Grads& g) const {
    const Shape& full = g.meta(0).shape;
    if (g.create_graph()) {
      const Tensor n = mixtape::full({}, divided(full).by, g.dy().dtype(), g.dy().device());
      return {spread(over, div(g.dy(), n), full)};
    }
    const Tensor each = empty(g.dy().shape(), g.dy().dtype(), g.dy().device());
    kernels::map(divided(full), each.view(), g.dy().view());
    return {spread(over, each, full)};
  }

  static Samples<Mean> samples() {
    Samples<Mean> all;
    for (const auto& [over, shape] : reduce_cases()) all.push_back({{over}, {arg(shape)}});
    all.push_back({{{0}}, {arg({0, 3})}, "there is nothing to reduce in a tensor of shape [0, 3]"});
    all.push_back({{{-3}}, {arg({2, 3})}, "axis -3 is outside input 'x' of shape [2, 3]"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    return {reduced(in[0], over, [](const std::vector<double>& x) {
      long double mean = 0;  // the running mean, never the sum
      for (size_t i = 0; i < x.size(); ++i) mean += (x[i] - mean) / static_cast<long double>(i + 1);
      return static_cast<double>(mean);
    })};
  }

 private:
  DividedBy divided(const Shape& full) const { return {static_cast<double>(over.terms(full))}; }
};
const Register<Mean> mean_row;

}  // namespace

Tensor mean(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return autograd::apply(Mean{{axis, keepdim}}, {x})[0];
}

}  // namespace mixtape::ops
