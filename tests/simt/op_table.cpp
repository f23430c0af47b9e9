// The op table on a device, the device-on-CPU runner or a GPU: every row by way of the module of device code, its
// values and gradients beside those of the CPU. `--op NAME` (may be repeated) for single rows; README.md.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "autograd/cast.h"
#include "core/allocator.h"
#include "core/device_module.h"
#include "core/kernels/parallel.h"
#include "ops/optest_checks.h"
#include "tests/simt/device_checks.h"
#include "tests/simt/faults.h"
#include "tests/simt/machine.h"
#include "tests/simt/step_checks.h"

namespace mixtape::simt_tests {
namespace {

using optest::Case;
using optest::Checks;
using optest::Layout;
using optest::Numbers;

constexpr DType production[] = {DType::f32, DType::bf16, DType::f16};
constexpr Layout layouts[] = {Layout::contiguous, Layout::reversed, Layout::sliced};

// A program under a sanitizer has no time for all of it.
constexpr bool sanitized = this_build == Build::tsan || this_build == Build::asan;

int cases = 0;

Tensors on_device(const Tensors& tensors) {
  Tensors moved;
  for (const Tensor& tensor : tensors) moved.push_back(as_laid_on_device(tensor));
  return moved;
}

Tensors inputs(const Case& c, DType dtype, Layout layout) {
  Tensors in;
  for (int i = 0; i < c.inputs_count(); ++i) {
    in.push_back(c.input(i, dtype, c.sample.args[static_cast<size_t>(i)].strided ? layout : Layout::contiguous));
  }
  return in;
}

bool same_bits(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

/// Calls f in every order of blocks and threads, or a GPU's: what it gives must have the same bits in each.
template <class F>
Numbers in_each_order(Checks& checks, const F& f) {
  Numbers first;
  bool same = true;
  for (int turn = 0; turn < turns; ++turn) {
    const Turn guard(turn);
    Numbers found = f();
    if (turn == 0) {
      first = std::move(found);
    } else {
      same = same && same_bits(found, first);
    }
    device_backend(the_device).synchronize();
    device_backend(the_device).allocator(the_device).release_cached();
  }
  checks.expect(same, "another order of blocks and threads gives other bits");
  ++cases;
  return first;
}

/// What the device may differ from the CPU by where nothing better is known: docs/device.md.
Numbers wide_bound(const Numbers& host, DType dtype, size_t terms, int roundings) {
  double largest = 0;
  for (const double value : host) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
  const double sums = 4 * (8 + static_cast<double>(terms)) * eps(DType::f32) * std::max(largest, 1.0);
  Numbers bound;
  const double inside = roundings * eps(dtype) * std::max(largest, 1.0);
  for (const double value : host) bound.push_back(2 * eps(dtype) * std::abs(value) + sums + inside);
  return bound;
}

Numbers no_bound(const Numbers& host) { return Numbers(host.size()); }

/// How far a row's results may lie from those in f64, as the op table's own tests say; a program under a sanitizer,
/// which looks for other things, has no time to work that out and compares with the CPU's.
struct Expected {
  Numbers y, dx, y_bound, dx_bound;
  Tensors seeds;
};
/// Beyond those of the CPU's kernel: tensor cores multiply 16-bit operands, so attention's weights, which are f32
/// there, are rounded before they meet the values, and in backward the slopes of the scores before they meet q and k.
int more_roundings(const OpSchema& op) { return op.info->name == "attention" ? 2 : 0; }

Expected by_reference(const Case& c, DType dtype) {
  optest::Reference ref(c, dtype, true);
  ref.roundings += more_roundings(c.op);
  Expected e;
  e.seeds = optest::make_seeds(c.run(ref.inputs));
  e.y = ref.y;
  e.y_bound = ref.forward_bound(c.run(c.inputs(dtype))[0].dtype());
  if (!c.op.backward) return e;
  e.dx = optest::gradients(c, ref.inputs, e.seeds);
  e.dx_bound = optest::backward_bound(c, dtype, ref, e.dx, e.seeds);
  return e;
}
Expected by_the_cpu(const Case& c, DType dtype) {
  const Tensors in = c.inputs(dtype), out = c.run(in);
  Expected e;
  e.seeds = optest::make_seeds(out);
  e.y = optest::flatten(out);
  size_t terms = 1;
  for (int i = 0; i < in.size(); ++i) terms += in[i] ? static_cast<size_t>(in[i].numel()) : 0;
  const bool exact = autograd::is_cast(c.op);
  e.y_bound = exact ? no_bound(e.y) : wide_bound(e.y, out[0].dtype(), terms, more_roundings(c.op));
  if (!c.op.backward) return e;
  e.dx = optest::gradients(c, in, e.seeds);
  e.dx_bound = exact ? no_bound(e.dx) : wide_bound(e.dx, dtype, terms, more_roundings(c.op));
  return e;
}
Expected expected(const Case& c, DType dtype) {
  return this_build == Build::plain && !autograd::is_cast(c.op) ? by_reference(c, dtype) : by_the_cpu(c, dtype);
}

void check_values(const Case& c, DType dtype, const Expected& e, Checks& checks) {
  for (const Layout layout : layouts) {
    if (layout != Layout::contiguous && (sanitized && dtype != DType::f32)) continue;
    checks.run(optest::label(c, message("forward, layout ", static_cast<int>(layout)), dtype), [&] {
      DType got = dtype;
      const Tensors in = inputs(c, dtype, layout);
      const Numbers y = in_each_order(checks, [&] {
        const Tensors out = c.run(on_device(in));
        got = out[0].dtype();
        return optest::flatten(out);
      });
      checks.within(y, e.y, e.y_bound, optest::largest(got));
    });
  }
}

void check_gradients(const Case& c, DType dtype, const Expected& e, Checks& checks) {
  for (const bool strided : {false, true}) {
    if (strided && sanitized && dtype != DType::f32) continue;
    checks.run(optest::label(c, strided ? "backward, strided" : "backward", dtype), [&] {
      const Tensors in = inputs(c, dtype, strided ? Layout::reversed : Layout::contiguous), out = c.run(in);
      Tensors seeds;
      for (int o = 0; o < out.size(); ++o) {
        const Tensor seed = copy_of(e.seeds[o], out[o].dtype());
        seeds.push_back(strided ? optest::spread_out(seed) : seed);
      }
      const Numbers dx = in_each_order(checks, [&] { return optest::gradients(c, on_device(in), on_device(seeds)); });
      checks.within(dx, e.dx, e.dx_bound, optest::largest(dtype));
    });
  }
}

void append(Numbers& all, const Tensors& found, const Tensors& like) {
  for (int i = 0; i < found.size(); ++i) {
    const Numbers values = found[i] ? to_vector(found[i]) : Numbers(static_cast<size_t>(like[i].numel()));
    all.insert(all.end(), values.begin(), values.end());
  }
}

/// Gradients of a row that can be differentiated twice, made of ops, and behind them the gradients of these.
Numbers two_orders(const Case& c, const Tensors& in, const Tensors& seeds) {
  Tensors leaves, wanted, first;
  for (int i = 0; i < in.size(); ++i) {
    leaves.push_back(c.is_float_input(i) ? in[i].detach().set_requires_grad() : in[i]);
    if (c.is_float_input(i)) wanted.push_back(leaves[i]);
  }
  const Tensors found = autograd::grad(c.run(leaves), wanted, {.create_graph = true}, seeds);
  Numbers all;
  append(all, found, wanted);
  for (const Tensor& gradient : found) {
    if (gradient && gradient.requires_grad()) first.push_back(gradient);
  }
  if (first.empty()) return all;  // a linear row
  Tensors weights;
  for (const Tensor& weight : optest::make_seeds(first)) weights.push_back(to(weight, first[0].device()));
  append(all, autograd::grad(first, wanted, {}, weights), wanted);
  return all;
}

void check_recorded(const Case& c, const Expected& e, Checks& checks) {
  checks.run(optest::label(c, "recorded backward, two orders", DType::f32), [&] {
    const Tensors in = c.inputs(DType::f32), out = c.run(in);
    Tensors seeds;
    for (int o = 0; o < out.size(); ++o) seeds.push_back(copy_of(e.seeds[o], out[o].dtype()));
    const Numbers host = two_orders(c, in, seeds);
    Numbers bound = e.dx_bound;
    for (double& value : bound) value *= 4;  // several ops, each of which rounds
    const Numbers second(host.begin() + static_cast<std::ptrdiff_t>(bound.size()), host.end());
    for (const double value : wide_bound(second, DType::f32, host.size(), 16)) bound.push_back(value);
    checks.within(in_each_order(checks, [&] { return two_orders(c, on_device(in), on_device(seeds)); }), host, bound,
                  1e300);
  });
}

// Integers and booleans pass through, on both machines the same.
void check_moved(const Case& c, Checks& checks) {
  checks.run(message("sample ", c.index, ", integers"), [&] {
    const Tensors in = c.inputs(DType::f32);
    const Numbers host = optest::flatten(c.run(in));
    const Numbers device = in_each_order(checks, [&] { return optest::flatten(c.run(on_device(in))); });
    checks.expect(same_bits(device, host), "other numbers than the CPU's");
  });
}

void check_sample(const Case& c, Checks& checks) {
  if (!c.sample.error.empty()) return;
  const bool from_f64 = autograd::is_cast(c.op) && !is_float(c.run(c.inputs(DType::f32))[0].dtype());
  if (!c.has_float_data() || from_f64) return check_moved(c, checks);
  for (const DType dtype : production) {
    if (sanitized && dtype == DType::f16) continue;  // the code of bf16
    checks.run(optest::label(c, "reference", dtype), [&] {
      const Expected e = expected(c, dtype);
      check_values(c, dtype, e, checks);
      if (!c.op.backward) return;
      check_gradients(c, dtype, e, checks);
      if (dtype == DType::f32 && c.op.info->twice && !sanitized) check_recorded(c, e, checks);
    });
  }
}

bool has_kernel(const OpSchema& op) { return op.device_forward && (op.device_backward || !op.backward); }

void check_row(const OpSchema& op, optest::Report& report) {
  Checks checks(report);
  checks.at("row");
  checks.expect(has_kernel(op), "has no device function");
  checks.expect(op.in_device_module, "is not said to have one");
  if (!has_kernel(op)) return;
  const std::vector<AnySample> samples = op.samples();
  for (size_t i = 0; i < samples.size(); ++i) check_sample(Case(op, samples[i], static_cast<int>(i)), checks);
}

void tell(const optest::Report& report) {
  std::printf("%-24s %5d passed %3zu failed\n", report.op.c_str(), report.passed, report.failures.size());
  const size_t shown = std::min<size_t>(report.failures.size(), 20);
  for (size_t i = 0; i < shown; ++i) std::printf("    %s\n", report.failures[i].c_str());
  std::fflush(stdout);
}

struct Asked {
  std::string module;                  ///< empty: the one that is found
  std::vector<std::string_view> rows;  ///< and "tensors", what lies beside the table; none: all
  bool dry_run = false;                ///< nothing is run
};

int run_table(const Asked& asked) {
  int rows = 0, passed = 0, failed = 0;
  std::string lacking;
  const auto add = [&](const optest::Report& report) {
    tell(report);
    passed += report.passed;
    failed += static_cast<int>(report.failures.size());
  };
  const auto is_asked = [&](std::string_view name) {
    return asked.rows.empty() || std::find(asked.rows.begin(), asked.rows.end(), name) != asked.rows.end();
  };
  const std::pair<const char*, void (*)(optest::Report&)> others[] = {{"tensors", check_device_tensors},
                                                                      {"optimizers", check_optimizers},
                                                                      {"scalers", check_scalers},
                                                                      {"bert", check_bert_steps}};
  for (const auto& [name, check] : others) {
    if (!is_asked(name) || asked.dry_run) continue;
    optest::Report report{name, 0, {}};
    check(report);
    add(report);
  }
  for (const OpSchema* op : registry()) {
    if (!is_asked(op->info->name)) continue;
    if (!has_kernel(*op)) lacking += message(lacking.empty() ? "" : ", ", op->info->name);
    ++rows;
    if (asked.dry_run) continue;
    optest::Report report{std::string(op->info->name), 0, {}};
    check_row(*op, report);
    add(report);
  }
  if (races_reported() > 0) std::printf("data races reported: %d\n", races_reported());
  failed += races_reported();
  std::printf("%s ops: %d rows, %zu kernels, %d cases, without a device function: %s; %d passed, %d failed\n",
              machine_name, rows, kernels_launched(), cases, lacking.empty() ? "none" : lacking.c_str(), passed,
              failed);
  return failed == 0 && lacking.empty() && rows + passed > 0 ? 0 : 1;
}

// False: the words are none that this program knows.
bool read_words(int count, char** words, Asked& asked) {
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--dry-run") == 0) {
      asked.dry_run = true;
      continue;
    }
    if (i + 1 == count) return false;
    const std::string_view option = words[i++];
    if (option == "--op") {
      asked.rows.emplace_back(words[i]);
    } else if (option == "--module") {
      asked.module = words[i];
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace mixtape::simt_tests

int main(int count, char** words) try {
  using namespace mixtape;
  simt_tests::Asked asked;
#if defined(MIXTAPE_SIMT_MODULE)
  asked.module = MIXTAPE_SIMT_MODULE;
  kernels::set_thread_count(1);  // the race detector does not see OpenMP's barriers
#endif
  if (!simt_tests::read_words(count, words, asked)) {
    std::fprintf(stderr, "usage: %s [--module FILE] [--dry-run] [--op NAME]...\n", words[0]);
    return 2;
  }
  simt_tests::prepare_machine();
  if (!asked.module.empty()) load_device_module(asked.module);
  const int devices = device_count();  // looks for a module
  if (!asked.dry_run && devices == 0) {
    std::fprintf(stderr, "there is no device: mixtape doctor says what was looked for\n");
    return 5;
  }
  return simt_tests::run_table(asked);
} catch (const mixtape::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
