// The checks of the op-table runner, by what they look at: optest_kinds.cpp (are all kinds of samples there),
// optest_numbers.cpp (values and gradients), optest_modes.cpp (tape, threads, autocast); optest.cpp puts them together.
#pragma once

#include <cmath>

#include "ops/optest.h"
#include "ops/optest_case.h"

namespace mixtape::optest {

// Collects what passed and what did not, with the place in front.
class Checks {
 public:
  explicit Checks(Report& report) : report_(report) {}
  void at(std::string place) { place_ = std::move(place); }

  void expect(bool ok, const std::string& what) {
    if (ok)
      ++report_.passed;
    else
      report_.failures.push_back(place_ + ": " + what);
  }
  /// Runs one case; an exception is a failure, not the end.
  template <class F>
  void run(std::string place, F&& body) {
    at(std::move(place));
    try {
      body();
    } catch (const std::exception& error) {
      expect(false, std::string("threw: ") + error.what());
    }
  }
  /// |got - want| <= bound, element by element; NaN and infinities must match.
  void within(const Numbers& got, const Numbers& want, const Numbers& bound, double largest) {
    if (got.size() != want.size())
      return expect(false, message("got ", got.size(), " elements, expected ", want.size()));
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::abs(want[i]) > largest) continue;  // beyond the dtype: inf or the largest number, both right
      const bool same = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
      if (!same && !(std::abs(got[i] - want[i]) <= bound[i])) {
        return expect(false, message("element ", i, " is ", got[i], ", expected ", want[i], " within ", bound[i]));
      }
    }
    expect(true, "");
  }

 private:
  Report& report_;
  std::string place_;
};

/// Unit roundoff of f32, what sums are kept in.
inline const double eps_acc = eps(DType::f32) / 2;
/// Beyond this a result may be inf; below that it may be 0.
inline double largest(DType dtype) { return -lowest(dtype) * (1 - eps(dtype)); }
inline double smallest(DType dtype) { return tiny(dtype) * eps(dtype); }

/// "sample 3, backward bf16".
std::string label(const Case& c, std::string_view check, DType dtype);

// What the bounds of one sample in one dtype rest on: the f64 op on the values as that dtype holds them.
struct Reference {
  Tensors inputs;  // f64, rounded to the dtype under test
  Numbers y;
  Jacobian j;
  int roundings;  // inside the row
  Reference(const Case& c, DType dtype, bool with_jacobian) : roundings(c.op.info->roundings) {
    for (const Tensor& t : c.inputs(dtype)) inputs.push_back(t && is_float(t.dtype()) ? copy_of(t, DType::f64) : t);
    y = flatten(c.run(inputs));
    if (with_jacobian) j = jacobian(c, inputs);
  }
  // eps_out·|y| + 4(8+n)·eps_acc·(Σ|J||x| + |y|), n = inputs that the element depends on; each rounding inside moves y
  // by eps_out·Σ|J||x| at most
  Numbers forward_bound(DType out) const {
    Numbers bound(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      double reach = std::abs(y[i]);
      int n = 0;
      for (size_t k = 0; k < j.x.size(); ++k) {
        reach += std::abs(j.column[k][i]) * std::abs(j.x[k]);
        n += j.column[k][i] != 0;
      }
      bound[i] = 0.505 * eps(out) * std::abs(y[i]) + 4 * (8 + n) * eps_acc * reach + smallest(out) +
                 roundings * eps(out) * reach;
    }
    return bound;
  }
};

/// The samples: empty, odd, long, bad, broadcast where the op does that; and the row's sentence of documentation.
void check_kinds(const OpSchema& op, const std::vector<AnySample>& samples, Checks& checks);
void check_oracle(const Case& c, Checks& checks);
void check_forward(const Case& c, DType dtype, const Reference& ref, Checks& checks);
/// How far the gradients of a production dtype may lie from `dx`, the f64 ones for these seeds.
Numbers backward_bound(const Case& c, DType dtype, const Reference& ref, const Numbers& dx, const Tensors& seeds);
/// A gradient with the same numbers, every second element of a longer block.
Tensor spread_out(const Tensor& seed);
/// Analytic f64 gradients against differences.
void check_gradient(const Case& c, const Reference& ref, Checks& checks);
/// The production kernel's backward against the f64 one.
void check_backward(const Case& c, DType dtype, const Reference& ref, Checks& checks);
/// `twice`: the recorded backward is differentiated by differences of the plain one. Others must refuse.
void check_second_order(const Case& c, const Reference& ref, Checks& checks);
/// Each input alone on the tape gives the same bits as all together.
void check_needs_grad(const Case& c, Checks& checks);
void check_determinism(const Case& c, Checks& checks);
/// Output, saved and gradient dtypes are what the table promises, under a guard of each 16-bit dtype.
void check_autocast(const Case& c, DType low, Checks& checks);

}  // namespace mixtape::optest
