#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/reduce.h"

namespace mixtape::ops {
namespace {

struct SquaredDistance {
  template <class M>
  MIXTAPE_HD M operator()(M x, M mean) const {
    return (x - mean) * (x - mean);
  }
};
struct VarSlope {
  double freedom;
  template <class M>
  MIXTAPE_HD M operator()(M dy, M x, M mean) const {
    return dy * (M(2) * (x - mean) / static_cast<M>(freedom));
  }
};

struct Var {
  Reduce over;
  double correction = 1;

  static constexpr OpInfo info{.name = "var",
                               .precision = Rule::full,  // squares of 256 are more than a half can hold
                               .inputs = {Input{"x"}},
                               .saves = saves_inputs(0),
                               .doc = "Σ(x - mean)²/(n - correction) over one axis or all, in two passes"};

  Metas infer(const Infer& in) const {
    const Shape shape = over.infer(in);
    const int64_t n = over.terms(in.shape(0));
    if (!(correction >= 0 && static_cast<double>(n) > correction)) {
      in.fail(message("the variance of ", n, " elements with correction ", correction,
                      " divides by n - correction <= 0: give more elements or a correction from 0 to below n"));
    }
    return {{.shape = shape, .dtype = in.out()},
            {.shape = over.kept(in.shape(0)), .dtype = in.wide(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    const Shape &full = in[0].shape, kept = over.kept(full);
    const double n = static_cast<double>(over.terms(full));
    const Tensor sums = empty(kept, wide(in[0].dtype), in[0].device);
    const Tensor means = out[1] ? Tensor() : empty(kept, wide(in[0].dtype), in[0].device);
    const View mean = out[1] ? out[1] : means.view();
    kernels::fold(kernels::Identity{}, full, sums.view(), in[0]);
    kernels::map(DividedBy{n}, mean, sums.view());
    kernels::fold(SquaredDistance{}, full, sums.view(), in[0], mean);
    kernels::map(DividedBy{n - correction}, over.kept_view(out[0], full), sums.view());
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), dx = empty_like(x);
    const double n = static_cast<double>(over.terms(x.shape()));
    kernels::map(VarSlope{n - correction}, dx.view(), over.kept_view(g.dy().view(), x.shape()), x.view(),
                 g.extra(0).view());
    return {dx};
  }

  static Samples<Var> samples() {
    Samples<Var> all;
    for (const auto& [over, shape] : reduce_cases()) {
      all.push_back({{over, over.terms(shape) > 1 ? 1.0 : 0.0}, {arg(shape)}});
    }
    all.push_back({{{-1}, 0}, {arg({3, 5}, 100, 101)}});
    all.push_back({{{-1}, 1.5}, {arg({2, 4})}});
    all.push_back({{{1}}, {arg({3, 1})}, "the variance of 1 elements with correction 1"});
    all.push_back({{{}, 0}, {arg({0})}, "the variance of 0 elements with correction 0"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    return {reduced(in[0], over, [&](const std::vector<double>& x) {
      long double mean = 0, squares = 0;  // one pass (Welford, 1962)
      for (size_t i = 0; i < x.size(); ++i) {
        const long double step = x[i] - mean;
        mean += step / static_cast<long double>(i + 1);
        squares += step * (x[i] - mean);
      }
      return static_cast<double>(squares / (static_cast<long double>(x.size()) - correction));
    })};
  }
};
const Register<Var> var_row;

}  // namespace

Tensor var(const Tensor& x, std::optional<int64_t> axis, bool keepdim, double correction) {
  return autograd::apply(Var{{axis, keepdim}, correction}, {x})[0];
}

}  // namespace mixtape::ops
