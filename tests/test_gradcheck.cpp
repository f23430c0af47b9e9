#include "autograd/gradcheck.h"

#include <doctest/doctest.h>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/ops.h"
#include "tests/shared.h"

using namespace mixtape;

namespace {

Tensor doubles(const Shape& shape, uint32_t draw) {
  return randn(shape, {.stream = rng_stream::test, .draw = draw}, 1, 0, DType::f64);
}

// x² with a backward that forgets the factor 2 at one element.
struct WrongSquare {
  static constexpr OpInfo info{.name = "wrong_square",
                               .precision = Rule::keep,
                               .inputs = {Input{"x"}},
                               .saves = saves_inputs(0),
                               .doc = "a mistake"};
  Metas infer(const Infer& in) const { return {{.shape = in.shape(0), .dtype = in.out()}}; }
  void forward(const Views& in, const Views& out) const {
    for (int64_t i = 0; i < in[0].numel(); ++i) out[0].as<double>()[i] = in[0].as<double>()[i] * in[0].as<double>()[i];
  }
  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), dx = empty(x.shape(), DType::f64);
    for (int64_t i = 0; i < x.numel(); ++i) {
      dx.data<double>()[i] = (i == 2 ? 1 : 2) * x.data<double>()[i] * g.dy().data<double>()[i];
    }
    return {dx};
  }
  static Samples<WrongSquare> samples() { return {}; }
  Arrays oracle(const Arrays& in) const { return in; }
};

}  // namespace

TEST_CASE("gradcheck: functions of several inputs and outputs agree with differences") {
  const auto f = [](const Tensors& in) -> Tensors {
    const Tensor h = ops::tanh(ops::linear(in[0], in[1]));
    return {h, ops::layer_norm(h, in[2], in[3])};
  };
  const Tensors inputs{doubles({3, 4}, 1), doubles({5, 4}, 2), doubles({5}, 3), doubles({5}, 4)};
  CHECK(autograd::gradcheck(f, inputs) == "");
}

TEST_CASE("gradcheck: an index is handed through, an input without influence has gradient 0") {
  const auto f = [](const Tensors& in) -> Tensors { return {ops::embedding(in[0], in[1])}; };
  CHECK(autograd::gradcheck(f, {doubles({4, 3}, 1), from_ints({2, 0, 2}, {3}), doubles({2}, 2)}) == "");
}

TEST_CASE("gradcheck names the first place that is wrong") {
  const auto f = [](const Tensors& in) { return autograd::apply(WrongSquare{}, in); };
  const std::string found = autograd::gradcheck(f, {from({1, 2, 3, 4}, {4}, DType::f64)});
  CHECK(tests::contains(found, "input 0, element 2: backward gives "));
  CHECK(tests::contains(found, ", differences "));
}

TEST_CASE("gradcheck wants double precision") {
  const auto f = [](const Tensors& in) { return in; };
  CHECK(tests::contains(tests::error_text([&] { (void)autograd::gradcheck(f, {zeros({2})}); }), "no input is f64"));
}
