#include <algorithm>
#include <memory>

#include "autograd/cast.h"
#include "autograd/node.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"
#include "ops/optest_checks.h"

namespace mixtape::optest {

// Each input alone on the tape gives the same bits as all together.
void check_needs_grad(const Case& c, Checks& checks) {
  checks.run(label(c, "one input on the tape", DType::f32), [&] {
    const Tensors in = c.inputs(DType::f32);
    const Numbers all = gradients(c, in, {});
    size_t start = 0;
    for (int i = 0; i < in.size(); ++i) {
      if (!c.is_float_input(i)) continue;
      Tensors alone;
      for (const Tensor& t : in) alone.push_back(t ? t.detach() : t);
      alone[i].set_requires_grad();
      const Tensors out = c.run(alone);
      const Tensors found = autograd::grad(out, {alone[i]}, {}, make_seeds(out));
      const Numbers got = found[0] ? to_vector(found[0]) : Numbers(static_cast<size_t>(in[i].numel()));
      checks.expect(std::equal(got.begin(), got.end(), all.begin() + static_cast<std::ptrdiff_t>(start)),
                    message("input ", i, " alone has another gradient"));
      start += got.size();
    }
  });
}

void check_determinism(const Case& c, Checks& checks) {
  checks.run(label(c, "same bits", DType::f32), [&] {
    const Tensors in = c.inputs(DType::f32);
    const Numbers y = flatten(c.run(in)), dx = c.op.backward ? gradients(c, in, {}) : Numbers{};
    const int threads = kernels::thread_count();
    bool same = true;
    // Matrix libraries may cut sums by the thread count: they promise equal bits only at one count.
    const bool library = c.op.info->precision.rule == Rule::low;
    for (const int count : {threads, 1, 3}) {
      if (library && count != threads) continue;
      kernels::set_thread_count(count);
      same = same && flatten(c.run(in)) == y && (!c.op.backward || gradients(c, in, {}) == dx);
    }
    kernels::set_thread_count(threads);
    checks.expect(same, "a second run, or another thread count, gave other bits");
  });
}

namespace {

DType expected_out(const OpSchema& op, DType in, DType low) {
  switch (op.info->precision.rule) {
    case Rule::low:
    case Rule::low_out: return low;
    case Rule::full: return DType::f32;
    default: return in;
  }
}

void check_saved_dtypes(const Case& c, const autograd::Node& node, DType given, DType low, Checks& checks) {
  const Rule rule = c.op.info->precision.rule;
  const DType computed = rule == Rule::low ? low : rule == Rule::full ? DType::f32 : given;
  for (int i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].storage || c.op.info->inputs[i].role != Role::data || !c.is_float_input(i)) continue;
    checks.expect(node.inputs[i].geometry.dtype == computed,
                  message("input ", i, " was saved as ", name_of(node.inputs[i].geometry.dtype)));
  }
}

std::string refusal(const Case& c, const Tensors& in) {
  try {
    c.run(in);
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

// One call under a guard of `low` on inputs of dtype `given`.
void check_guarded(const Case& c, DType given, DType low, Checks& checks) {
  const auto rule = std::make_shared<CastRule>();
  rule->low = low;
  Context modes = context();
  modes.cast_rule = rule;
  const Tensors in = require_grads(c, c.inputs(given));
  Tensors out;
  {
    const ContextGuard guard(modes);
    if (c.op.info->precision.rule == Rule::banned) {
      return checks.expect(refusal(c, in) == "E-BANNED", "a banned op ran under a guard");
    }
    out = c.run(in);
  }
  const DType want = expected_out(c.op, given, low);
  for (const Tensor& t : out) {
    checks.expect(t.dtype() == want,
                  message("the output is ", name_of(t.dtype()), ", the table promises ", name_of(want)));
  }
  if (!c.op.backward || !out[0].node()) return;
  check_saved_dtypes(c, *out[0].node(), given, low, checks);
  autograd::backward(out, make_seeds(out));
  for (int i = 0; i < in.size(); ++i) {
    if (!c.is_float_input(i) || !in[i].leaf().gradient) continue;
    checks.expect(in[i].leaf().gradient.raw.dtype() == DType::f32,
                  message("the leaf gradient of input ", i, " is not f32"));
  }
}

}  // namespace

void check_autocast(const Case& c, DType low, Checks& checks) {
  if (autograd::is_cast(c.op)) return;
  for (const DType given : {DType::f32, low}) {
    checks.run(label(c, given == low ? "autocast of 16-bit inputs to" : "autocast to", low),
               [&] { check_guarded(c, given, low, checks); });
  }
}

}  // namespace mixtape::optest
