#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/kernels/gemm.h"
#include "core/kernels/loops.h"
#include "ops/matrix.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::as_rows;
using kernels::section;
using kernels::transposed;

constexpr int most_layers = 3;

struct JointLinear {
  static constexpr OpInfo info{
      .name = "joint_linear",
      .precision = Rule::low,  // a matrix product: where 16 bits pay
      .inputs = {Input{"x"}, Input{.name = "weight0", .wide_grad = true},
                 Input{.name = "weight1", .wide_grad = true, .optional = true},
                 Input{.name = "weight2", .wide_grad = true, .optional = true}, Input{"bias0", Role::parameter},
                 Input{.name = "bias1", .role = Role::parameter, .optional = true},
                 Input{.name = "bias2", .role = Role::parameter, .optional = true}},
      .saves = saves_inputs(0, 1, 2, 3),
      .absorbs = "linear",
      .doc =
          "x·Wᵢᵀ + bᵢ side by side, for up to three W: one product each way where the weights lie end to end in "
          "memory; "
          "the gradients of the weights and biases are views"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(0).rank() >= 1, 0, "at least one axis");
    Shape out = in.shape(0);
    out[out.rank() - 1] = 0;
    for (int i = 0; i < most_layers; ++i) {
      const int weight = 1 + i, bias = weight + most_layers;
      if (in.has(weight) != in.has(bias)) in.fail(message("layer ", i, " has only one of weight and bias"));
      if (!in.has(weight)) continue;
      in.expect(in.shape(weight).rank() == 2 && in.shape(weight)[1] == in.shape(0).back(), weight,
                message("[out, ", in.shape(0).back(), "], the last axis of x being ", in.shape(0).back()));
      const int64_t features = in.shape(weight)[0];
      in.expect(in.shape(bias) == Shape{features}, bias, message("[", features, "], the rows of its weight"));
      out[out.rank() - 1] += features;
    }
    return {{.shape = out, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const View x = in[0].shape.rank() == 1 ? as_rows(in[0]) : in[0];
    const View y = in[0].shape.rank() == 1 ? as_rows(out[0]) : out[0];
    Views weights, biases;
    for (int i = 0; i < most_layers && in[1 + i]; ++i) {
      weights.push_back(in[1 + i]);
      biases.push_back(in[1 + most_layers + i]);
    }
    if (const View all = kernels::joined(weights), bias = kernels::joined(biases); all && bias) {
      return kernels::gemm(x, transposed(all), y, {.bias = bias});
    }
    each_section(weights, y,
                 [&](int i, const View& part) { kernels::gemm(x, transposed(weights[i]), part, {.bias = biases[i]}); });
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = packed_rows(g.in(0)), dy = packed_rows(g.dy());
    const View dy_rows = as_rows(dy.view());
    Tensors weights;
    for (int i = 0; i < most_layers && g.has(1 + i); ++i) weights.push_back(g.in(1 + i));
    const int layers = weights.size();
    Tensor dw, db;
    if (any_needs_grad(g, 1, layers)) {
      dw = empty({dy_rows.shape[1], x.shape().back()}, wide(x.dtype()), x.device());
      kernels::gemm(transposed(dy_rows), as_rows(x.view()), dw.view());
    }
    if (any_needs_grad(g, 1 + most_layers, layers)) {
      db = empty({dy_rows.shape[1]}, g.meta(1 + most_layers).dtype, x.device());
      kernels::fold(kernels::Identity{}, dy_rows.shape, db.view(), dy_rows);
    }
    Tensors all(1 + 2 * most_layers);
    if (g.needs_grad(0)) all[0] = slope_of_x(x, dy_rows, weights);
    for (int i = 0, at = 0; i < layers; ++i) {
      const int bias = 1 + most_layers + i;
      const int next = at + static_cast<int>(weights[i].size(0));
      if (g.needs_grad(1 + i)) all[1 + i] = slice(dw, 0, at, next);
      if (g.needs_grad(bias)) all[bias] = slice(db, 0, at, next);
      at = next;
    }
    return all;
  }

  static Samples<JointLinear> samples() {
    const auto layers = [](const Shape& x, std::initializer_list<int64_t> features) {
      std::vector<Arg> args(1 + 2 * most_layers, absent());
      args[0] = arg(x);
      size_t i = 1;
      for (int64_t n : features) {
        args[i] = arg({n, x.back()});
        args[most_layers + i++] = arg({n});
      }
      return args;
    };
    std::vector<Arg> lonely = layers({2, 4}, {3, 3}), wide_weight = lonely, long_bias = lonely;
    lonely[5] = absent();
    wide_weight[2] = arg({3, 5});
    long_bias[4] = arg({4});
    return {{{}, layers({3, 4}, {5, 2, 4})},
            {{}, layers({2, 3, 8}, {6, 6})},
            {{}, layers({7}, {3})},
            {{}, layers({0, 4}, {5, 5, 5})},
            {{}, layers({3, 1}, {1, 1, 1})},
            {{}, layers({4, 6}, {6, 6, 6})},  // where a flipped transpose has a fitting shape
            {{}, layers({33, 65}, {17, 9, 1})},
            {{}, lonely, "layer 1 has only one of weight and bias"},
            {{}, wide_weight, "input 'weight1' has shape [3, 5], expected [out, 4]"},
            {{}, long_bias, "input 'bias0' has shape [4], expected [3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    const size_t k = static_cast<size_t>(in[0].shape.back()), m = k ? in[0].values.size() / k : 0;
    Array y{in[0].shape, {}};
    y.shape[y.shape.rank() - 1] = 0;
    for (size_t i = 0; i < most_layers; ++i) y.shape[y.shape.rank() - 1] += std::ssize(in[1 + most_layers + i].values);
    for (size_t row = 0; row < m; ++row) {
      for (size_t i = 0; i < most_layers; ++i) {
        const std::vector<double>&weight = in[1 + i].values, &bias = in[1 + most_layers + i].values;
        for (size_t n = 0; n < bias.size(); ++n) {
          double sum = bias[n];
          for (size_t j = 0; j < k; ++j) sum += in[0].values[row * k + j] * weight[n * k + j];
          y.values.push_back(sum);
        }
      }
    }
    return {y};
  }

 private:
  /// Calls f(i, part) for the columns of [rows, n] that belong to weight i.
  template <class F>
  static void each_section(const Views& weights, const View& whole, const F& f) {
    int64_t at = 0;
    for (int i = 0; i < weights.size(); ++i) {
      const int64_t features = weights[i].shape[0];
      f(i, section(whole, whole.shape.rank() - 1, at, features));
      at += features;
    }
  }

  static bool any_needs_grad(const autograd::Grads& g, int first, int count) {
    for (int i = first; i < first + count; ++i) {
      if (g.needs_grad(i)) return true;
    }
    return false;
  }

  /// The sum over all layers, rounded once.
  static Tensor slope_of_x(const Tensor& x, const View& dy_rows, const Tensors& weights) {
    Views views;
    for (const Tensor& weight : weights) views.push_back(weight.view());
    if (const View all = kernels::joined(views)) {
      const Tensor dx = empty_like(x);
      kernels::gemm(dy_rows, all, as_rows(dx.view()));
      return dx;
    }
    const Tensor sum = empty(x.shape(), wide(x.dtype()), x.device());
    each_section(views, dy_rows, [&](int i, const View& part) {
      kernels::gemm(part, views[i], as_rows(sum.view()), {.accumulate = i > 0});
    });
    return sum.dtype() == x.dtype() ? sum : copy_of(sum, x.dtype());
  }
};
const Register<JointLinear> joint_linear_row;

}  // namespace

Tensors joint_linear(const Tensor& x, const Tensors& weights, const Tensors& biases) {
  const int layers = weights.size();
  if (layers < 1 || layers > most_layers || biases.size() != layers) {
    fail(ErrorKind::internal, "E-OP-ARGS",
         message("joint_linear: ", layers, " weights and ", biases.size(), " biases, expected 1 to ", most_layers,
                 " of each"));
  }
  if (!autograd::may_fuse<JointLinear>()) {
    Tensors each;
    for (int i = 0; i < layers; ++i) each.push_back(linear(x, weights[i], biases[i]));
    return each;
  }
  Tensors in(1 + 2 * most_layers);
  in[0] = x;
  std::vector<int64_t> sizes;
  for (int i = 0; i < layers; ++i) {
    in[1 + i] = weights[i];
    in[1 + most_layers + i] = biases[i];
    sizes.push_back(weights[i].size(0));
  }
  return split(autograd::apply(JointLinear{}, std::move(in))[0], sizes, -1);
}

}  // namespace mixtape::ops
