#include "autograd/backward.h"
#include "autograd/call.h"
#include "ops/reduce.h"

namespace mixtape::ops {
namespace {

struct Sum {
  Reduce over;

  static constexpr OpInfo info{.name = "sum",
                               .precision = Rule::full,  // 70,000 ones are more than a half can hold
                               .inputs = {Input{"x"}},
                               .twice = true,
                               .doc = "the sum over one axis or all, in fixed pieces, whatever the thread count"};

  Metas infer(const Infer& in) const { return {{.shape = over.infer(in), .dtype = in.out()}}; }

  void forward(const Views& in, const Views& out) const {
    kernels::fold(kernels::Identity{}, in[0].shape, over.kept_view(out[0], in[0].shape), in[0]);
  }

  Tensors backward(autograd::Grads& g) const { return {spread(over, g.dy(), g.meta(0).shape)}; }

  static Samples<Sum> samples() {
    Samples<Sum> all;
    for (const auto& [over, shape] : reduce_cases()) all.push_back({{over}, {arg(shape)}});
    all.push_back({{{0}}, {arg({0, 3})}});
    all.push_back({{{2}}, {arg({2, 3})}, "axis 2 is outside input 'x' of shape [2, 3]"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    return {reduced(in[0], over, [](const std::vector<double>& x) {
      long double sum = 0;
      for (size_t i = x.size(); i > 0; --i) sum += x[i - 1];
      return static_cast<double>(sum);
    })};
  }
};
const Register<Sum> sum_row;

}  // namespace

Tensor sum(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return autograd::apply(Sum{{axis, keepdim}}, {x})[0];
}

}  // namespace mixtape::ops
