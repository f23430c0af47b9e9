// expect: backward must be
#include "autograd/call.h"

// A backward that the schema cannot call is an error, not a silently non-differentiable op.
struct Wrong {
  static constexpr mixtape::OpInfo info{
      .name = "wrong", .precision = mixtape::Rule::keep, .inputs = {mixtape::Input{"x"}}};
  mixtape::Metas infer(const mixtape::Infer& in) const { return {{.shape = in.shape(0), .dtype = in.out()}}; }
  void forward(const mixtape::Views&, const mixtape::Views&) const {}
  mixtape::Tensor backward(mixtape::autograd::Grads& g);
  static mixtape::Samples<Wrong> samples() { return {}; }
  mixtape::Arrays oracle(const mixtape::Arrays& in) const { return in; }
};
mixtape::Tensors use(const mixtape::Tensor& x) { return mixtape::autograd::apply(Wrong{}, {x}); }
