// The questions: each draws its numbers, computes its answer with the formats themselves, and says why.
#include <array>
#include <cmath>

#include "core/rng.h"
#include "tools/teach/bits.h"
#include "tools/teach/quiz.h"

namespace mixtape::teach {
namespace {

/// What the questions of one number draw from.
class Dice {
 public:
  Dice(uint64_t seed, int64_t question)
      : at_{.seed = seed, .stream = rng_stream::test, .step = static_cast<uint32_t>(question)} {}

  /// 0 to n - 1.
  int64_t below(int64_t n) { return static_cast<int64_t>(uniform32(at_, element_++) * static_cast<double>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool coin() { return below(2) == 1; }
  Format low_format() { return format_of(coin() ? DType::f16 : DType::bf16); }

 private:
  RngCoordinates at_;
  uint64_t element_ = 0;
};

Question yes_or_no(std::string kind, std::string text, bool yes, std::string explanation) {
  return {std::move(kind), std::move(text), true, yes ? 1.0 : 0.0, 0, std::move(explanation)};
}

Question of_bits(Dice& dice) {
  const Format f = dice.low_format();
  const auto exponent = static_cast<uint32_t>(f.bias + dice.between(-3, 4));
  const auto top_three = static_cast<uint32_t>(dice.between(0, 7));
  const uint32_t sign = dice.coin() ? 1u << (f.bits - 1) : 0;
  const uint32_t code = sign | exponent << f.fraction_bits | top_three << (f.fraction_bits - 3);
  const double value = value_of(f, code);
  const Number number{"", value, value, BitPattern{f.dtype, code}};
  const BitsRow row = bits(number, {f})[0];
  const int power = static_cast<int>(exponent) - f.bias;
  return {"bits",
          message(f.name, ": which number do the bits ", row.sign_bits(), " ", row.exponent_bits(), " ",
                  row.fraction_bits(), " stand for?"),
          false,
          value,
          0,
          message("the exponent field is ", exponent, ", less the bias ", f.bias, " that is 2^", power,
                  "; the fraction makes it ", decimal(std::abs(value) / std::ldexp(1.0, power)),
                  " times that: ", decimal(value))};
}

Question of_ulp(Dice& dice) {
  const Format f = dice.low_format();
  constexpr std::array<double, 8> places = {0.1, 1, 3, 10, 36, 100, 1000, 10000};
  const double place = places[static_cast<size_t>(dice.below(places.size()))], ulp = ulp_of(f, rounded(f, place));
  const int exponent = std::ilogb(rounded(f, place));
  return {"ulp",
          message(f.name, ": how far apart are the numbers just above ", decimal(place), "?"),
          false,
          ulp,
          ulp / 100,
          message(decimal(place), " lies between 2^", exponent, " and 2^", exponent + 1, ", where ", f.fraction_bits,
                  " fraction bits make steps of 2^", exponent - f.fraction_bits, " = ", decimal(ulp))};
}

Question of_rounding(Dice& dice) {
  const Format f = dice.low_format();
  const auto whole = static_cast<int64_t>(f.whole);
  const double typed = static_cast<double>(dice.between(whole + 1, 8 * whole)), held = rounded(f, typed);
  const double below = held <= typed ? held : number_below(f, held),
               above = held >= typed ? held : number_above(f, held);
  const bool tie = below < typed && typed - below == above - typed;
  return {"rounding",
          message(f.name, ": what does ", decimal(typed), " become?"),
          false,
          held,
          0,
          below == above
              ? message("it is a number of ", f.name, " itself")
              : message("its neighbours are ", decimal(below), " and ", decimal(above),
                        tie ? ", equally far away: the one with an even last bit wins, " : "; the nearer one is ",
                        decimal(held))};
}

Question of_update(Dice& dice) {
  const Format f = dice.low_format();
  constexpr std::array<double, 5> weights = {0.02, 0.25, 0.5, 1, 3};
  constexpr std::array<double, 4> updates = {2e-5, 1e-3, 2e-4, 6e-3};
  const double weight = rounded(f, weights[static_cast<size_t>(dice.below(weights.size()))]),
               update = updates[static_cast<size_t>(dice.below(updates.size()))], after = rounded(f, weight + update);
  return yes_or_no("update",
                   message(f.name, ": a weight is ", decimal(weight), " and its update +", decimal(update),
                           ". Does the weight change?"),
                   after != weight,
                   message("half an ulp there is ", decimal((number_above(f, weight) - weight) / 2),
                           ": the sum rounds to ", decimal(after)));
}

Question of_stall(Dice& dice) {
  const Format f = dice.low_format();
  const double term = std::ldexp(1.0, static_cast<int>(dice.between(-4, 3)));
  double sum = 0, next = term;
  while (next != sum) {
    sum = next;
    next = rounded(f, sum + term);
  }
  return {"stall",
          message(f.name, ": a running sum adds ", decimal(term), " again and again. Where does it stall?"),
          false,
          sum,
          0,
          message("at ", decimal(sum), " the next number is ", decimal(number_above(f, sum)), ": adding ",
                  decimal(term), " is a tie, and the even one is the old sum")};
}

Question of_overflow(Dice& dice) {
  const Format f = dice.low_format();
  const double x = static_cast<double>(dice.between(200, 320)), square = x * x;
  return yes_or_no("overflow", message(f.name, ": is the square of ", decimal(x), " finite?"),
                   std::isfinite(rounded(f, square)),
                   message(decimal(square), " against the largest number ", decimal(f.largest), "; from ",
                           decimal(f.overflow), " on a number rounds to inf"));
}

Question of_underflow(Dice& dice) {
  const Format f = format_of(DType::f16);
  const int gradient = static_cast<int>(dice.between(-34, -20)), scale = static_cast<int>(dice.between(0, 10));
  const double product = std::ldexp(1.0, gradient + scale);
  return yes_or_no(
      "underflow", message(f.name, ": is a gradient of 2^", gradient, " other than 0 at loss scale 2^", scale, "?"),
      rounded(f, product) != 0,
      message("scaled it is 2^", gradient + scale, "; up to 2^", std::ilogb(f.underflow), " a number rounds to 0"));
}

Question of_scale(Dice& dice) {
  const Format f = format_of(DType::f16);
  const int gradient = static_cast<int>(dice.between(-40, -27));
  double scale = 1;
  while (rounded(f, std::ldexp(scale, gradient)) < f.smallest_normal) scale *= 2;
  return {"scale",
          message(f.name, ": the smallest power of two, as a loss scale, at which a gradient of 2^", gradient,
                  " is a normal number?"),
          false,
          scale,
          scale / 100,
          message("the smallest normal number is ", power_or_decimal(f.smallest_normal),
                  ": the scale must be at least ", power_or_decimal(scale))};
}

}  // namespace

std::vector<Question> quiz_questions(uint64_t seed, int64_t count) {
  constexpr std::array kinds = {of_bits, of_ulp, of_rounding, of_update, of_stall, of_overflow, of_underflow, of_scale};
  std::vector<Question> out;
  for (int64_t i = 0; i < count; ++i) {
    Dice dice(seed, i);
    out.push_back(kinds[static_cast<size_t>(i) % kinds.size()](dice));
  }
  return out;
}

}  // namespace mixtape::teach
