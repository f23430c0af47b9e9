// A new op, complete: formula, precision rule, gradient, samples, oracle, and its place in the table.
#include "core/maths.h"
#include "ops/optest.h"
#include "ops/unary.h"

namespace {

using namespace mixtape;
using ops::Unary;

struct Softplus {
  static constexpr OpInfo info =
      ops::unary("softplus", Rule::full,  // a logarithm of a sum: its small values vanish in 16 bits
                 saves_inputs(0), "log(1 + e^x), evaluated as max(x, 0) + log1p(e^-|x|)");
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::max(x, T(0)) + maths::log1p(maths::exp(-maths::abs(x)));
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return maths::sigmoid(x);
  }
  static double oracle(double x) { return std::log(1.0 + std::exp(x)); }
};
const Register<Unary<Softplus>> softplus_row;

/// What a user of the op calls; autocast, shapes, gradients and errors come with it.
Tensor softplus(const Tensor& x) { return autograd::apply(Unary<Softplus>{}, {x})[0]; }

}  // namespace

int main(int argc, char** argv) {
  const Tensor x = from({-1, 0, 1}, {3}).set_requires_grad();
  autograd::backward(ops::sum(softplus(x)));
  for (const double slope : to_vector(x.grad())) std::printf("%.6f ", slope);
  std::printf("\n");
  return optest::run(argc, argv);
}
