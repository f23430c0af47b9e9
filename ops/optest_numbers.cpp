#include <algorithm>
#include <cmath>

#include "ops/optest_checks.h"

namespace mixtape::optest {

void check_oracle(const Case& c, Checks& checks) {
  checks.run(label(c, "oracle", DType::f64), [&] {
    const Tensors in = c.inputs(DType::f64);
    Arrays arrays;
    for (const Tensor& t : in) arrays.push_back(t ? Array{t.shape(), to_vector(t)} : Array{});
    const Tensors out = c.run(in);
    const Arrays expected = c.op.oracle(c.sample.attrs.get(), arrays);
    Numbers want, bound;
    for (size_t i = 0; i < expected.size(); ++i) {
      checks.expect(static_cast<int>(i) < out.size() && out[static_cast<int>(i)].shape() == expected[i].shape,
                    message("output ", i, " has another shape than the oracle's ", expected[i].shape.str()));
      for (double v : expected[i].values) {
        want.push_back(v);
        // A random mask of a known draw is an oracle's business too: no allowance but rounding.
        bound.push_back(1e-10 * (1 + std::abs(v)));
      }
    }
    // A cast rounds to its own dtype, whatever the oracle computed.
    for (size_t i = 0; i < bound.size(); ++i)
      bound[i] += is_low(out[0].dtype()) || out[0].dtype() == DType::f32 ? eps(out[0].dtype()) * std::abs(want[i]) : 0;
    checks.within(flatten(out), want, bound, 1e300);
  });
}

void check_forward(const Case& c, DType dtype, const Reference& ref, Checks& checks) {
  for (const Layout layout : {Layout::contiguous, Layout::reversed, Layout::sliced}) {
    const char* name = layout == Layout::contiguous ? "forward"
                       : layout == Layout::reversed ? "forward, axes stored in reverse"
                                                    : "forward, sliced";
    checks.run(label(c, name, dtype), [&] {
      Tensors in;
      for (int i = 0; i < c.inputs_count(); ++i)
        in.push_back(c.input(i, dtype, c.sample.args[static_cast<size_t>(i)].strided ? layout : Layout::contiguous));
      const Tensors out = c.run(in);
      const DType got = out[0].dtype();
      checks.within(flatten(out), ref.y, ref.forward_bound(got), largest(got));
    });
  }
}

void check_gradient(const Case& c, const Reference& ref, Checks& checks) {
  checks.run(label(c, "gradcheck", DType::f64), [&] {
    const Tensors seeds = make_seeds(c.run(ref.inputs));
    const Numbers dy = flatten(seeds), got = gradients(c, ref.inputs, seeds);
    Numbers want(ref.j.x.size()), bound(ref.j.x.size());
    Numbers compared = got;
    size_t k = 0;
    for (int i = 0; i < c.inputs_count(); ++i) {
      if (!c.is_float_input(i)) continue;
      for (int64_t e = 0; e < ref.inputs[i].numel(); ++e, ++k) {
        double reach = 1;
        for (size_t o = 0; o < dy.size(); ++o) {
          want[k] += dy[o] * ref.j.column[k][o];
          reach += std::abs(dy[o] * ref.j.column[k][o]);
        }
        bound[k] = 1e-9 * reach;
        if (!c.perturbs(i)) compared[k] = want[k];
      }
    }
    checks.within(compared, want, bound, 1e300);
  });
}

// eps_dx·|dx| + 4(8+n)·eps_acc·(|dx| + Σ|J||dy| + Σ|∂dx/∂x||x|), plus 2·eps_saved·(|dx| + Σ|J||dy|) where an output is
// saved low, and eps_dx times the same for each rounding inside; n = outputs that the input element moves.
Numbers backward_bound(const Case& c, DType dtype, const Reference& ref, const Numbers& dx, const Tensors& seeds) {
  const Numbers dy = flatten(seeds);
  const Jacobian slope = differences(
      c, ref.inputs, [&](const Tensors& in) { return gradients(c, in, seeds); }, false);
  const bool saved_low = c.op.info->saves.outputs != 0 && is_low(dtype);
  Numbers bound;
  for (int i = 0; i < c.inputs_count(); ++i) {
    const int64_t elements = c.is_float_input(i) ? ref.inputs[i].numel() : 0;
    const DType dx_dtype = c.op.info->inputs[i].wide_grad ? wide(dtype) : c.dtype_of_input(i, dtype);
    for (int64_t e = 0; e < elements; ++e) {
      const size_t k = bound.size();
      double through = 0, moved = 0;
      int n = 0;
      for (size_t o = 0; o < dy.size(); ++o) {
        through += std::abs(ref.j.column[k][o] * dy[o]);
        n += ref.j.column[k][o] != 0;
      }
      for (size_t x = 0; x < slope.x.size(); ++x) moved += std::abs(slope.column[x][k] * slope.x[x]);
      const double size = std::abs(dx[k]);
      bound.push_back(0.505 * eps(dx_dtype) * size + 4 * (8 + n) * eps_acc * (size + through + moved) +
                      smallest(dx_dtype) + (saved_low ? 2 * eps(dtype) * (size + through) : 0) +
                      ref.roundings * eps(dtype) * (size + through + moved));
    }
  }
  return bound;
}

// The same numbers, every second element of a longer block.
Tensor spread_out(const Tensor& seed) {
  if (seed.rank() == 0) return seed;
  Shape room = seed.shape();
  room[room.rank() - 1] *= 2;
  Strides steps = contiguous_strides(room);
  steps[steps.rank() - 1] = 2;
  const Tensor spread(zeros(room, seed.dtype()).storage(), {seed.shape(), steps, 0, seed.dtype()});
  assign(spread, seed);
  return spread;
}

void check_backward(const Case& c, DType dtype, const Reference& ref, Checks& checks) {
  checks.run(label(c, "backward", dtype), [&] {
    const Tensors f64_seeds = make_seeds(c.run(ref.inputs));
    const Numbers want = gradients(c, ref.inputs, f64_seeds);
    const Numbers bound = backward_bound(c, dtype, ref, want, f64_seeds);
    const Tensors in = c.inputs(dtype), out = c.run(in);
    for (const bool strided : {false, true}) {
      checks.at(label(c, strided ? "backward, strided gradient" : "backward", dtype));
      Tensors seeds;
      for (int o = 0; o < out.size(); ++o) {
        const Tensor seed = copy_of(f64_seeds[o], out[o].dtype());
        seeds.push_back(strided ? spread_out(seed) : seed);
      }
      checks.within(gradients(c, in, seeds), want, bound, largest(dtype));
    }
  });
}

namespace {

// The gradients of the inputs that may be moved, on leaves made of `in`; absent where nothing flows.
Tensors moved_gradients(const Case& c, const Tensors& in, const Tensors& seeds) {
  Tensors leaves, wanted;
  for (int i = 0; i < c.inputs_count(); ++i) {
    leaves.push_back(c.is_float_input(i) ? in[i].detach().set_requires_grad() : in[i]);
    if (c.perturbs(i)) wanted.push_back(leaves[i]);
  }
  return autograd::grad(c.run(leaves), wanted, {}, seeds);
}

double dot(const Tensors& a, const Tensors& b) {
  const Numbers x = flatten(a), y = flatten(b);
  double sum = 0;
  for (size_t k = 0; k < x.size(); ++k) sum += x[k] * y[k];
  return sum;
}

Tensors zeros_where_absent(Tensors gradients, const Tensors& like) {
  for (int i = 0; i < gradients.size(); ++i) {
    if (!gradients[i]) gradients[i] = zeros(like[i].shape(), DType::f64);
  }
  return gradients;
}

}  // namespace

// `twice`: the recorded backward has the values of the plain one, and is differentiated by the inputs (against
// differences of the plain one) and by the incoming gradients (against the Jacobian). Other rows must refuse.
void check_second_order(const Case& c, const Reference& ref, Checks& checks) {
  checks.run(label(c, "second order", DType::f64), [&] {
    Tensors leaves, wanted;
    for (int i = 0; i < c.inputs_count(); ++i) {
      leaves.push_back(c.is_float_input(i) ? ref.inputs[i].detach().set_requires_grad() : ref.inputs[i]);
      if (c.perturbs(i)) wanted.push_back(leaves[i]);
    }
    if (wanted.empty()) return;
    const Tensors out = c.run(leaves);
    Tensors seeds = make_seeds(out), first;
    for (Tensor& seed : seeds) seed.set_requires_grad();
    try {
      first = zeros_where_absent(autograd::grad(out, wanted, {.create_graph = true}, seeds), wanted);
    } catch (const Error& error) {
      return checks.expect(!c.op.info->twice, message("a row that promises it threw: ", error.what()));
    }
    if (!c.op.info->twice) return checks.expect(false, "a row that does not promise it let create_graph pass");
    const Numbers plain = flatten(zeros_where_absent(moved_gradients(c, ref.inputs, seeds), wanted));
    checks.within(flatten(first), plain, Numbers(plain.size(), 1e-11), 1e300);

    const Tensors weights = make_seeds(first);
    Tensors on_tape, their_weights;
    for (int i = 0; i < first.size(); ++i) {
      if (first[i].requires_grad()) on_tape.push_back(first[i]), their_weights.push_back(weights[i]);
    }
    for (const Tensor& seed : seeds) wanted.push_back(seed);
    const Tensors second = zeros_where_absent(
        on_tape.empty() ? Tensors(wanted.size()) : autograd::grad(on_tape, wanted, {}, their_weights), wanted);
    Numbers want, bound;
    const Jacobian d = differences(
        c, ref.inputs,
        [&](const Tensors& in) {
          return Numbers{dot(zeros_where_absent(moved_gradients(c, in, seeds), first), weights)};
        },
        true);
    size_t column = 0;
    Numbers through(flatten(out).size());  // Σ weight·J, the slope along each incoming gradient
    int w = 0;
    for (int i = 0; i < c.inputs_count(); ++i) {
      if (!c.is_float_input(i)) continue;
      const Numbers weight = c.perturbs(i) ? to_vector(weights[w++]) : Numbers();
      for (int64_t k = 0; k < ref.inputs[i].numel(); ++k, ++column) {
        if (weight.empty()) continue;
        want.push_back(d.column[column][0]);
        for (size_t o = 0; o < through.size(); ++o)
          through[o] += weight[static_cast<size_t>(k)] * ref.j.column[column][o];
      }
    }
    want.insert(want.end(), through.begin(), through.end());
    for (double value : want) bound.push_back(1e-6 * (1 + std::abs(value)));
    checks.within(flatten(second), want, bound, 1e300);
  });
}

}  // namespace mixtape::optest
