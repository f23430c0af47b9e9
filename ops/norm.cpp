#include <algorithm>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/reduce.h"
#include "ops/scalar.h"

namespace mixtape::ops {
namespace {

// Squares in three sums (Blue, 1978): large and small elements are scaled by a power of two, so that no square of an
// f32 value overflows or vanishes; every sum has room for 2^31 terms.
enum class Magnitude { small, medium, large };
constexpr double scale_up = 0x1p80, scale_down = 0x1p-80;

struct Square {
  Magnitude wanted;
  template <class M>
  MIXTAPE_HD M operator()(M x) const {
    const bool large = maths::abs(x) > M(0x1p48), small = maths::abs(x) < M(0x1p-48);
    const bool counts = wanted == Magnitude::large ? large : wanted == Magnitude::small ? small : !large && !small;
    const M scaled = x * M(wanted == Magnitude::large ? scale_down : wanted == Magnitude::small ? scale_up : 1.0);
    return maths::select(counts, scaled * scaled, M(0));
  }
};
struct Root {
  double eps;
  template <class M>
  MIXTAPE_HD M operator()(M small, M medium, M large) const {
    const M up = M(scale_up), down = M(scale_down);
    const M usual = maths::sqrt(medium + small * down * down);
    const M length = maths::select(large > M(0), maths::sqrt(large + medium * down * down) * up,
                                   maths::select(medium == M(0), maths::sqrt(small) * down, usual));
    return maths::max(length, static_cast<M>(eps));
  }
};
// Where the norm is 0 no direction is better than another, and where eps holds it nothing moves it: the sub-gradient
// there is 0.
struct NormSlope {
  double eps;
  template <class M>
  MIXTAPE_HD M operator()(M dy, M x, M norm) const {
    return maths::select(norm > static_cast<M>(eps), dy * (x / norm), M(0));
  }
};
struct Held {
  double eps, yes, no;
  template <class M>
  MIXTAPE_HD M operator()(M norm) const {
    return maths::select(norm <= static_cast<M>(eps), static_cast<M>(yes), static_cast<M>(no));
  }
};

struct Norm {
  Reduce over;
  double eps = 0;

  static constexpr OpInfo info{.name = "norm",
                               .precision = Rule::full,  // squares of 256 are more than a half can hold
                               .inputs = {Input{"x"}},
                               .saves = saves_inputs(0),
                               .twice = true,
                               .doc =
                                   "max(√Σx², eps) over one axis or all; no f32 square overflows or vanishes on the "
                                   "way; sub-gradient 0 where the "
                                   "norm is 0 or eps holds"};

  Metas infer(const Infer& in) const {
    if (!(eps >= 0)) in.fail(message("eps is ", eps, ", expected a number >= 0"));
    if (eps > 0 && stored_as(eps, in.out()) == 0) {  // whoever divides by the result would divide by 0
      in.fail(message("eps ", eps, " is 0 in ", name_of(in.out()),
                      ": run it under an autocast guard or cast x to f32, so that the result is f32"));
    }
    return {{.shape = over.infer(in), .dtype = in.out()},
            {.shape = over.kept(in.shape(0)), .dtype = in.wide(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    const Shape& full = in[0].shape;
    Views sums;
    Tensors room;
    for (const Magnitude wanted : {Magnitude::small, Magnitude::medium, Magnitude::large}) {
      room.push_back(empty(over.kept(full), wide(in[0].dtype), in[0].device));
      sums.push_back(room[room.size() - 1].view());
      kernels::fold(Square{wanted}, full, sums[sums.size() - 1], in[0]);
    }
    kernels::map(Root{eps}, over.kept_view(out[0], full), sums[0], sums[1], sums[2]);
    if (out[1]) kernels::map(Root{eps}, out[1], sums[0], sums[1], sums[2]);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0);
    if (g.create_graph()) return {slope_ops(g.dy(), x)};
    const Tensor dx = empty_like(x);
    kernels::map(NormSlope{eps}, dx.view(), over.kept_view(g.dy().view(), x.shape()), x.view(), g.extra(0).view());
    return {dx};
  }

  Tensor slope_ops(const Tensor& dy, const Tensor& x) const {
    const Tensor length = norm(x, over.axis, true, eps);
    const Tensor open = empty(length.shape(), length.dtype(), x.device()), held = copy_of(open);
    kernels::map(Held{eps, 0, 1}, open.view(), length.view());
    kernels::map(Held{eps, 1, 0}, held.view(), length.view());  // keeps the divisor from 0 where the slope is 0 anyway
    return mul(x, div(mul(over.kept_tensor(dy, x.shape()), open), add(length, held)));
  }

  static Samples<Norm> samples() {
    Samples<Norm> all;
    for (const auto& [over, shape] : reduce_cases()) all.push_back({{over}, {arg(shape, 0.25, 2)}});
    all.push_back({{{0}}, {arg({0, 3})}});
    all.push_back({{{-1}}, {fixed({2, 3}, {0.5, -2, 1, -3, -0.25, 4})}});
    all.push_back({{{-1}, 5}, {fixed({2, 2}, {3, 3, -6, 8})}});  // the first row is shorter than eps
    Arg extreme = fixed({2, 2}, {3e20, -4e20, 6e-20, 8e-20});    // squares that f32 does not hold
    extreme.perturb = false;
    all.push_back({{{-1}}, {extreme}});
    all.push_back({{{}, -1}, {arg({3})}, "eps is -1, expected a number >= 0"});
    all.push_back({{{3}}, {arg({2, 3})}, "axis 3 is outside input 'x' of shape [2, 3]"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    return {reduced(in[0], over, [&](const std::vector<double>& x) {
      double length = 0;
      for (double value : x) length = std::hypot(length, value);
      return std::max(length, eps);
    })};
  }
};
const Register<Norm> norm_row;

}  // namespace

Tensor norm(const Tensor& x, std::optional<int64_t> axis, bool keepdim, double eps) {
  return autograd::apply(Norm{{axis, keepdim}, eps}, {x})[0];
}

}  // namespace mixtape::ops
