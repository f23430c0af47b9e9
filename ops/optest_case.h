// What the checks of the op-table runner share: a sample turned into tensors of a dtype and layout, and numbers of it.
#pragma once

#include <functional>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/op.h"

namespace mixtape::optest {

using Numbers = std::vector<double>;

/// How an input lies in memory. The values are the same.
enum class Layout { contiguous, reversed, sliced };

/// One sample of one op.
class Case {
 public:
  Case(const OpSchema& row, const AnySample& one, int number) : op(row), sample(one), index(number) {}

  /// Values of input i in f64, before rounding; a function of (op, sample, i) alone.
  Numbers values(int i) const;
  /// Which dtype input i has when data is `data`.
  DType dtype_of_input(int i, DType data) const;
  Tensor input(int i, DType data, Layout layout = Layout::contiguous) const;
  Tensors inputs(DType data) const;
  bool is_float_input(int i) const {
    return !sample.args[static_cast<size_t>(i)].absent && is_float(sample.args[static_cast<size_t>(i)].dtype);
  }
  /// All data inputs are floats: the row's dtypes can be walked. Else the sample shows integers passing through.
  bool has_float_data() const;
  bool perturbs(int i) const { return is_float_input(i) && sample.args[static_cast<size_t>(i)].perturb; }
  int inputs_count() const { return static_cast<int>(sample.args.size()); }
  Tensors run(const Tensors& in) const { return autograd::call(op, sample.attrs.get(), in); }

  const OpSchema& op;
  const AnySample& sample;
  int index;
};

Numbers flatten(const Tensors& tensors);
/// Gradients for the outputs of a call: a function of the position alone, rounded to each output's dtype.
Tensors make_seeds(const Tensors& outputs);
Tensors require_grads(const Case& c, Tensors in);
/// The gradients of all float inputs for the given seeds, one after the other; zeros where nothing flows.
Numbers gradients(const Case& c, const Tensors& in, const Tensors& seeds_like_f64);

/// d(out)/d(in) of the f64 op by Richardson central differences, and what bounds need of it.
struct Jacobian {
  Numbers x;                    ///< all perturbable inputs, one after the other
  std::vector<Numbers> column;  ///< column[j][i] = d out_i / d x_j
  size_t outputs = 0;
};
Jacobian jacobian(const Case& c, const Tensors& f64_inputs);
/// The same by plain central differences of any function of the perturbable inputs.
Jacobian differences(const Case& c, const Tensors& f64_inputs, const std::function<Numbers(const Tensors&)>& f,
                     bool richardson);

}  // namespace mixtape::optest
