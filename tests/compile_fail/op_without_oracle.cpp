// expect: Operator
#include "autograd/call.h"

// No oracle, no op: its samples could not be judged.
struct Unjudged {
  static constexpr mixtape::OpInfo info{
      .name = "unjudged", .precision = mixtape::Rule::keep, .inputs = {mixtape::Input{"x"}}};
  mixtape::Metas infer(const mixtape::Infer& in) const { return {{.shape = in.shape(0), .dtype = in.out()}}; }
  void forward(const mixtape::Views&, const mixtape::Views&) const {}
  static mixtape::Samples<Unjudged> samples() { return {}; }
};
mixtape::Tensors use(const mixtape::Tensor& x) { return mixtape::autograd::apply(Unjudged{}, {x}); }
