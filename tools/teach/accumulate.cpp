#include "tools/teach/accumulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "amp/autocast.h"
#include "core/factory.h"
#include "ops/ops.h"

namespace mixtape::teach {
namespace {

/// a + b in the arithmetic of T: two 16-bit numbers are added in f32, where their sum, rounded once more, is the sum
/// rounded once (24 bits are at least 2·11 + 2).
template <class T>
T added(T a, T b) {
  using M = math_t<T>;
  return convert_to<T>(convert_to<M>(a) + convert_to<M>(b));
}
template <class T>
T negated(T a) {
  return convert_to<T>(-convert_to<math_t<T>>(a));
}
template <class T>
double widened(T a) {
  return convert_to<double>(a);
}

template <class T>
class RunningSum {
 public:
  void add(T x) { sum_ = added(sum_, x); }
  double value() const { return widened(sum_); }

 private:
  T sum_{};
};

/// Kahan (1965): what a rounding lost is given to the next term.
template <class T>
class CompensatedSum {
 public:
  void add(T x) {
    const T term = added(x, negated(lost_)), sum = added(sum_, term);
    lost_ = added(added(sum, negated(sum_)), negated(term));
    sum_ = sum;
  }
  double value() const { return widened(sum_); }

 private:
  T sum_{}, lost_{};
};

/// Sums of 1, 2, 4, … terms; two of the same size become one, as a carry in binary.
template <class T>
class PairwiseSum {
 public:
  void add(T x) {
    for (int64_t n = count_++; n & 1; n >>= 1) {
      x = added(parts_.back(), x);
      parts_.pop_back();
    }
    parts_.push_back(x);
  }
  double value() const {
    T sum{};
    for (size_t i = parts_.size(); i > 0; --i) sum = added(parts_[i - 1], sum);
    return widened(sum);
  }

 private:
  std::vector<T> parts_;
  int64_t count_ = 0;
};

/// An f32 accumulator that is rounded to T when it is looked at.
template <class T>
class WideSum {
 public:
  void add(T x) { sum_ += to_float(x); }
  double value() const { return widened(convert_to<T>(sum_)); }

 private:
  float sum_ = 0;
};

double relative_error_of_sum(double sum, double exact) { return sum == exact ? 0 : (sum - exact) / std::abs(exact); }

template <class Sum, class T>
Method method_of(std::string name, const Accumulate& lesson, const T* terms, bool running) {
  Method out;
  out.name = std::move(name);
  Sum sum;
  double before = 0;
  int64_t last_change = 0;
  size_t next = 0;
  for (int64_t i = 0; i < lesson.options.n; ++i) {
    sum.add(terms[i]);
    if (running) {
      const double value = sum.value();
      if (value != before)
        last_change = i + 1;
      else if (widened(terms[i]) != 0)
        ++out.lost;
      before = value;
    }
    if (next < lesson.at.size() && lesson.at[next] == i + 1) {
      out.curve.push_back(sum.value());
      ++next;
    }
  }
  out.sum = sum.value();
  out.relative_error = relative_error_of_sum(out.sum, lesson.exact);
  if (running && out.lost > 1 && last_change + 1 < lesson.options.n) out.stalled_after = last_change;
  return out;
}

Method call_of_sum(std::string name, const Accumulate& lesson, const Tensor& terms) {
  Method out;
  out.name = std::move(name);
  out.sum = ops::sum(terms).item();
  out.relative_error = relative_error_of_sum(out.sum, lesson.exact);
  return out;
}

/// At most 129 places from 1 to n, the last among them.
std::vector<int64_t> places(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t i = 1; i <= 128; ++i) {
    const int64_t place = std::max<int64_t>(1, n * i / 128);
    if (out.empty() || out.back() != place) out.push_back(place);
  }
  return out;
}

template <class T>
void add_up(Accumulate& lesson, const Tensor& terms) {
  const T* x = terms.data<T>();
  size_t next = 0;
  for (int64_t i = 0; i < lesson.options.n; ++i) {
    lesson.exact += widened(x[i]);
    if (next < lesson.at.size() && lesson.at[next] == i + 1) {
      lesson.exact_curve.push_back(lesson.exact);
      ++next;
    }
  }
  const std::string in = message(" in ", lesson.format.name);
  lesson.methods.push_back(method_of<RunningSum<T>>("running sum" + in, lesson, x, true));
  lesson.methods.push_back(method_of<PairwiseSum<T>>("pairwise" + in, lesson, x, false));
  lesson.methods.push_back(method_of<CompensatedSum<T>>("compensated (Kahan)" + in, lesson, x, false));
  if (lesson.options.dtype == DType::f32) {
    lesson.methods.push_back(call_of_sum("ops::sum, in fixed pieces", lesson, terms));
    return;
  }
  lesson.methods.push_back(method_of<WideSum<T>>("running sum in fp32, rounded at the end", lesson, x, false));
  lesson.methods.push_back(call_of_sum(message("ops::sum, fp32 inside, ", lesson.format.name, " out"), lesson, terms));
  const amp::Autocast guard(lesson.options.dtype);
  lesson.methods.push_back(call_of_sum("ops::sum under autocast: fp32 out", lesson, terms));
}

trainer::Json method_json(const Method& method) {
  trainer::Json out = trainer::Json::object()
                          .set("name", method.name)
                          .set("sum", method.sum)
                          .set("relative_error", method.relative_error)
                          .set("lost", method.lost);
  return out.set("stalled_after", method.stalled_after ? trainer::Json(*method.stalled_after) : trainer::Json());
}

}  // namespace

Accumulate accumulate(const AccumulateOptions& options) {
  Accumulate lesson;
  lesson.options = options;
  lesson.format = format_of(options.dtype);
  lesson.term = rounded(lesson.format, options.value);
  lesson.at = places(options.n);
  const NoGradGuard no_grad;
  const RngCoordinates at{.seed = options.seed, .stream = rng_stream::test};
  const Tensor terms = options.random ? rand_uniform({options.n}, at, 0, 2 * options.value, options.dtype)
                                      : full({options.n}, options.value, options.dtype);
  dispatch_float(options.dtype, "teach accumulate", [&](auto tag) {
    using T = typename decltype(tag)::type;
    add_up<T>(lesson, terms);
  });
  return lesson;
}

std::string accumulate_text(const Accumulate& lesson) {
  const AccumulateOptions& options = lesson.options;
  std::string out = options.random ? fmt::format("{} terms drawn from 0 to {} (seed {})", options.n,
                                                 decimal(2 * options.value), options.seed)
                                   : fmt::format("{} terms of {}", options.n, decimal(options.value));
  if (!options.random && lesson.term != options.value)
    out += fmt::format(", in {} {}", lesson.format.name, decimal(lesson.term));
  out += fmt::format("; their exact sum is {}\n\n", decimal(lesson.exact));
  out += fmt::format("{:<42}{:<20}{:<12}{}\n", "method", "sum", "rel error", "terms that changed nothing");
  for (const Method& method : lesson.methods) {
    std::string line =
        fmt::format("{:<42}{:<20}{:<12}", method.name, decimal(method.sum),
                    std::isnan(method.relative_error) ? "nan" : fmt::format("{:+.1e}", method.relative_error));
    if (method.lost > 0) line += fmt::format("{}", method.lost);
    if (method.stalled_after)
      line += fmt::format(": it stalls at {} after {} terms", decimal(method.sum), *method.stalled_after);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

trainer::Json accumulate_json(const Accumulate& lesson) {
  trainer::Json methods = trainer::Json::array();
  for (const Method& method : lesson.methods) methods.push(method_json(method));
  trainer::Json out = trainer::Json::object()
                          .set("dtype", lesson.format.name)
                          .set("n", lesson.options.n)
                          .set("value", lesson.options.value)
                          .set("term", lesson.term)
                          .set("random", lesson.options.random);
  if (lesson.options.random) out.set("seed", lesson.options.seed);
  return out.set("exact", lesson.exact).set("methods", std::move(methods));
}

Tensor running_sum(const Tensor& x) {
  const Tensor out = empty({}, x.dtype());
  dispatch_float(x.dtype(), "running_sum", [&](auto tag) {
    using T = typename decltype(tag)::type;
    RunningSum<T> sum;
    for (const T *at = x.data<T>(), *end = at + x.numel(); at != end; ++at) sum.add(*at);
    *out.data<T>() = convert_to<T>(sum.value());
  });
  return out;
}

}  // namespace mixtape::teach
