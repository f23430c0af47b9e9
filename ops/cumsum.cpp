#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/reduce.h"

namespace mixtape::ops {
namespace {

struct CumsumRow {
  bool reverse;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, const M* x) const {
    M sum = 0;
    lanes.in_order(n, [&](int64_t i) {
      const int64_t at = reverse ? n - 1 - i : i;
      sum += x[at];
      y[at] = sum;
    });
  }
};

struct Cumsum {
  int64_t axis = -1;
  bool reverse = false;

  static constexpr OpInfo info{.name = "cumsum",
                               .precision = Rule::full,  // as sum: in half it would stall at 2048 ones
                               .inputs = {Input{"x"}},
                               .twice = true,
                               .doc = "y[i] = x[0] + … + x[i] along an axis; reverse: from the end"};

  Metas infer(const Infer& in) const {
    in.axis(0, axis);
    return {{.shape = in.shape(0), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "cumsum");
    const View x = axis_last(in[0], along);
    kernels::rows(CumsumRow{reverse}, x.shape, kernels::write(axis_last(out[0], along)), x);
  }

  Tensors backward(autograd::Grads& g) const { return {cumsum(g.dy(), axis, !reverse)}; }

  static Samples<Cumsum> samples() {
    return {{{}, {arg({7})}},
            {{0}, {arg({4, 3})}},
            {{1, true}, {arg({2, 5, 3})}},
            {{-1}, {arg({3, 0})}},
            {{-1}, {arg({2, 1})}},
            {{-1}, {arg({1031})}},
            {{-1, true}, {arg({3, 130})}},
            {{0}, {arg({})}, "axis 0 is outside input 'x' of shape []"},
            {{2}, {arg({2, 3})}, "axis 2 is outside input 'x' of shape [2, 3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    return {by_rows(in[0], axis, [&](const std::vector<double>& x) {
      std::vector<double> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {  // each place gives its value to all that come after it
        for (size_t j = reverse ? 0 : i; j < (reverse ? i + 1 : x.size()); ++j) y[j] += x[i];
      }
      return y;
    })};
  }
};
const Register<Cumsum> cumsum_row;

}  // namespace

Tensor cumsum(const Tensor& x, int64_t axis, bool reverse) { return autograd::apply(Cumsum{axis, reverse}, {x})[0]; }

}  // namespace mixtape::ops
