#include "ops/optest.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "autograd/cast.h"
#include "autograd/node.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"
#include "ops/optest_case.h"

namespace mixtape::optest {
namespace {

constexpr DType production[] = {DType::f32, DType::bf16, DType::f16};
const double eps_acc = eps(DType::f32) / 2;

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

double largest(DType dtype) { return -lowest(dtype) * (1 - eps(dtype)); }
double smallest(DType dtype) { return tiny(dtype) * eps(dtype); }

std::string label(const Case& c, std::string_view check, DType dtype) {
  return message("sample ", c.index, ", ", check, " ", name_of(dtype));
}

// What the bounds of one sample in one dtype rest on: the f64 op on the values as that dtype holds them.
struct Reference {
  Tensors inputs;  // f64, rounded to the dtype under test
  Numbers y;
  Jacobian j;
  Reference(const Case& c, DType dtype, bool with_jacobian) {
    for (const Tensor& t : c.inputs(dtype)) inputs.push_back(t && is_float(t.dtype()) ? copy_of(t, DType::f64) : t);
    y = flatten(c.run(inputs));
    if (with_jacobian) j = jacobian(c, inputs);
  }
  // eps_out·|y| + 4(8+n)·eps_acc·(Σ|J||x| + |y|), n = inputs that the element depends on
  Numbers forward_bound(DType out) const {
    Numbers bound(y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      double reach = std::abs(y[i]);
      int n = 0;
      for (size_t k = 0; k < j.x.size(); ++k) {
        reach += std::abs(j.column[k][i]) * std::abs(j.x[k]);
        n += j.column[k][i] != 0;
      }
      bound[i] = 0.505 * eps(out) * std::abs(y[i]) + 4 * (8 + n) * eps_acc * reach + smallest(out);
    }
    return bound;
  }
};

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

// The production kernel's backward against the f64 one.
void check_backward(const Case& c, DType dtype, const Reference& ref, Checks& checks) {
  checks.run(label(c, "backward", dtype), [&] {
    const Tensors f64_out = c.run(ref.inputs);
    const Tensors f64_seeds = make_seeds(f64_out);
    const Numbers want = gradients(c, ref.inputs, f64_seeds), dy = flatten(f64_seeds);
    const Jacobian slope = differences(
        c, ref.inputs, [&](const Tensors& in) { return gradients(c, in, f64_seeds); }, false);
    const Tensors in = c.inputs(dtype);
    const bool saved_low = c.op.info->saves.outputs != 0 && is_low(dtype);
    Numbers bound(want.size());
    std::vector<DType> dx_dtype;
    for (int i = 0; i < in.size(); ++i) {
      if (!c.is_float_input(i)) continue;
      dx_dtype.insert(dx_dtype.end(), static_cast<size_t>(in[i].numel()), in[i].dtype());
    }
    for (size_t k = 0; k < want.size(); ++k) {
      double through = 0, moved = 0;
      int n = 0;
      for (size_t o = 0; o < dy.size(); ++o) {
        through += std::abs(ref.j.column[k][o] * dy[o]);
        n += ref.j.column[k][o] != 0;
      }
      for (size_t x = 0; x < slope.x.size(); ++x) moved += std::abs(slope.column[x][k] * slope.x[x]);
      const double size = std::abs(want[k]);
      bound[k] = 0.505 * eps(dx_dtype[k]) * size + 4 * (8 + n) * eps_acc * (size + through + moved) +
                 smallest(dx_dtype[k]) + (saved_low ? 2 * eps(dtype) * (size + through) : 0);
    }
    for (const bool strided : {false, true}) {
      checks.at(label(c, strided ? "backward, strided gradient" : "backward", dtype));
      const Tensors out = c.run(in);
      Tensors seeds;
      for (int o = 0; o < out.size(); ++o) {
        Tensor seed = copy_of(f64_seeds[o], out[o].dtype());
        if (strided && seed.rank() > 0) {  // the same numbers, every second element of a longer block
          Shape room = seed.shape();
          room[room.rank() - 1] *= 2;
          Strides steps = contiguous_strides(room);
          steps[steps.rank() - 1] = 2;
          const Tensor spread(zeros(room, seed.dtype()).storage(), {seed.shape(), steps, 0, seed.dtype()});
          assign(spread, seed);
          seed = spread;
        }
        seeds.push_back(seed);
      }
      checks.within(gradients(c, in, seeds), want, bound, largest(dtype));
    }
  });
}

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

DType expected_out(const OpSchema& op, DType in, DType low) {
  switch (op.info->precision.rule) {
    case Rule::low:
    case Rule::low_out: return low;
    case Rule::full: return DType::f32;
    default: return in;
  }
}

// Output, saved and gradient dtypes are what the table promises, under a guard of each 16-bit dtype.
void check_autocast(const Case& c, DType low, Checks& checks) {
  for (const DType given : {DType::f32, low}) {
    checks.run(label(c, given == low ? "autocast of 16-bit inputs to" : "autocast to", low), [&] {
      if (autograd::is_cast(c.op)) return;
      const auto rule = std::make_shared<CastRule>();
      rule->low = low;
      Tensors in = require_grads(c, c.inputs(given));
      Context modes = context();
      modes.cast_rule = rule;
      Tensors out;
      if (c.op.info->precision.rule == Rule::banned) {
        const ContextGuard guard(modes);
        std::string what;
        try {
          c.run(in);
        } catch (const Error& error) {
          what = error.code();
        }
        return checks.expect(what == "E-BANNED", "a banned op ran under a guard");
      }
      {
        const ContextGuard guard(modes);
        out = c.run(in);
      }
      const DType want = expected_out(c.op, given, low);
      for (const Tensor& t : out) {
        checks.expect(t.dtype() == want,
                      message("the output is ", name_of(t.dtype()), ", the table promises ", name_of(want)));
      }
      if (!c.op.backward || !out[0].node()) return;
      const autograd::Node& node = *out[0].node();
      for (int i = 0; i < node.inputs.size(); ++i) {
        if (!node.inputs[i].storage || c.op.info->inputs[i].role != Role::data || !c.is_float_input(i)) continue;
        const DType computed = c.op.info->precision.rule == Rule::low    ? low
                               : c.op.info->precision.rule == Rule::full ? DType::f32
                                                                         : given;
        checks.expect(node.inputs[i].geometry.dtype == computed,
                      message("input ", i, " was saved as ", name_of(node.inputs[i].geometry.dtype)));
      }
      autograd::backward(out, make_seeds(out));
      for (int i = 0; i < in.size(); ++i) {
        if (!c.is_float_input(i) || !in[i].leaf().gradient) continue;
        checks.expect(in[i].leaf().gradient.raw.dtype() == DType::f32,
                      message("the leaf gradient of input ", i, " is not f32"));
      }
    });
  }
}

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

void check_error(const Case& c, Checks& checks) {
  checks.at(message("sample ", c.index, ", error"));
  try {
    c.run(c.inputs(DType::f32));
    checks.expect(false, "did not throw \"" + c.sample.error + "\"");
  } catch (const Error& error) {
    const std::string what = error.what();
    checks.expect(what.find(c.sample.error) != std::string::npos,
                  "threw \"" + what + "\", without \"" + c.sample.error + "\"");
    checks.expect(what.find(c.op.info->name) != std::string::npos, "the message does not name the op: " + what);
  }
}

// A row whose samples miss a kind is not tested: that is a failure of the row.
void check_kinds(const OpSchema& op, const std::vector<AnySample>& samples, Checks& checks) {
  bool zero = false, odd = false, long_row = false, bad = false, broadcast = false;
  int data_inputs = 0;
  for (int i = 0; i < op.info->inputs.count; ++i) data_inputs += op.info->inputs[i].role == Role::data;
  for (const AnySample& s : samples) {
    if (!s.error.empty()) {
      bad = true;
      continue;
    }
    for (const Arg& a : s.args) {
      zero = zero || a.shape.numel() == 0;
      odd = odd || std::any_of(a.shape.begin(), a.shape.end(), [](int64_t d) { return d > 1 && d % 2 == 1; });
      long_row = long_row || a.shape.numel() >= 129;
    }
    broadcast = broadcast || (s.args.size() > 1 && !(s.args[0].shape == s.args[1].shape));
  }
  checks.at("samples");
  checks.expect(zero, "none has an empty tensor");
  checks.expect(odd, "none has an odd size");
  checks.expect(long_row, "none is long enough for the vector loops and their tail (129 elements)");
  checks.expect(bad || autograd::is_cast(op), "none is a bad input");
  if (op.info->precision.rule == Rule::widest && data_inputs > 1 && !op.info->variadic)
    checks.expect(broadcast, "none broadcasts");
  checks.expect(!op.info->doc.empty(), "the row has no doc");
}

void check_sample(const Case& c, Checks& checks) {
  if (!c.sample.error.empty()) return check_error(c, checks);
  check_oracle(c, checks);
  if (!c.has_float_data()) return;
  if (autograd::is_cast(c.op) && !is_float(c.run(c.inputs(DType::f32))[0].dtype())) return;
  const bool differentiable = c.op.backward != nullptr;
  for (const DType dtype : production) {
    checks.run(label(c, "reference", dtype), [&] {
      const Reference ref(c, dtype, true);
      check_forward(c, dtype, ref, checks);
      if (!differentiable) return;
      if (dtype == DType::f32) {
        if (!autograd::is_cast(c.op)) {  // differences of a rounding are not its derivative
          check_gradient(c, ref, checks);
          check_second_order(c, ref, checks);
        }
        check_needs_grad(c, checks);
      }
      if (!autograd::is_cast(c.op)) check_backward(c, dtype, ref, checks);
    });
  }
  check_determinism(c, checks);
  check_autocast(c, DType::bf16, checks);
  check_autocast(c, DType::f16, checks);
}

}  // namespace

Report check_op(const OpSchema& op) {
  Report report{std::string(op.info->name), 0, {}};
  Checks checks(report);
  const std::vector<AnySample> samples = op.samples();
  check_kinds(op, samples, checks);
  for (size_t i = 0; i < samples.size(); ++i) check_sample(Case(op, samples[i], static_cast<int>(i)), checks);
  return report;
}

int run(int argc, char** argv) {
  std::vector<std::string_view> wanted;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--op") == 0) wanted.emplace_back(argv[i + 1]);
  }
  if (argc % 2 == 0 || static_cast<int>(wanted.size()) != argc / 2) {
    std::fprintf(stderr, "usage: %s [--op NAME]...\n", argv[0]);
    return 2;
  }
  int passed = 0, failed = 0;
  std::vector<const OpSchema*> rows = registry();
  if (!wanted.empty()) {
    rows.clear();
    for (std::string_view name : wanted) {
      if (const OpSchema* op = find_op(name)) {
        rows.push_back(op);
        continue;
      }
      std::printf("%.*s: no such row; did you mean '%.*s'?\n", static_cast<int>(name.size()), name.data(),
                  static_cast<int>(nearest_op(name).size()), nearest_op(name).data());
      ++failed;
    }
  }
  for (const OpSchema* op : rows) {
    const Report report = check_op(*op);
    std::printf("%-20s %5d passed %3d failed\n", report.op.c_str(), report.passed,
                static_cast<int>(report.failures.size()));
    for (size_t i = 0; i < std::min<size_t>(report.failures.size(), 20); ++i)
      std::printf("    %s\n", report.failures[i].c_str());
    passed += report.passed;
    failed += static_cast<int>(report.failures.size());
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace mixtape::optest
