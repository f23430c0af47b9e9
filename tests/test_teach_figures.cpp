// The exact figures of the precision contract (../shared/precision.md, section 2), each printed by a lesson: a program
// that computes them, against the numbers of the contract, which stand here.
#include <doctest/doctest.h>

#include <cmath>

#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {
using nlohmann::json;

constexpr double inf = std::numeric_limits<double>::infinity();

struct Figure {
  const char* fact;
  const char* command;  ///< of teach
  const char* place;    ///< in its JSON
  double value;
  double tolerance = 0;  ///< relative; 0: exactly
};

constexpr const char* it = "/formats/0/value";  // of `bits … --formats one`

constexpr Figure of_half[] = {
    {"half max", "formats", "/formats/1/max", 65504},
    {"first value that rounds to inf", "formats", "/formats/1/rounds_to_inf", 65520},
    {"65519", "bits 65519 --formats fp16", it, 65504},
    {"65520", "bits 65520 --formats fp16", it, inf},
    {"smallest subnormal", "formats", "/formats/1/min_subnormal", 0x1p-24},
    {"about 5.96e-8", "formats", "/formats/1/min_subnormal", 5.96e-8, 1e-3},
    {"the tie that rounds to 0", "formats", "/formats/1/rounds_to_zero", 0x1p-25},
    {"about 2.98e-8", "bits 2^-25 --formats fp16", "/value", 2.98e-8, 1e-3},
    {"and rounds to 0", "bits 2^-25 --formats fp16", it, 0},
    {"half(1e-7)", "bits 1e-7 --formats fp16", it, 1.19e-7, 5e-3},
    {"half(1e-8)", "bits 1e-8 --formats fp16", it, 0},
    {"half(1e-12)", "bits 1e-12 --formats fp16", it, 0},
    {"half(1e-13)", "bits 1e-13 --formats fp16", it, 0},
    {"half(1e-4)", "bits 1e-4 --formats fp16", it, 1.0002e-4, 5e-5},
    {"half(1e-5)", "bits 1e-5 --formats fp16", it, 1.0014e-5, 5e-5},
    {"half(-1e4)", "bits -1e4 --formats fp16", it, -10000},
    {"its ulp", "bits -1e4 --formats fp16", "/formats/0/ulp", 8},
    {"scores added to it", "bits 'fp16(-1e4) + 3' --formats fp16", it, -10000},
    {"in multiples of 8", "bits 'fp16(-1e4) + 5' --formats fp16", it, -9992},
    {"half(-1e9)", "bits -1e9 --formats fp16", it, -inf},
    {"half(-66246.39)", "bits -66246.39 --formats fp16", it, -inf},
    {"half(-863637)", "bits -863637 --formats fp16", it, -inf},
    {"-65504 + (-16)", "bits '-65504 + -16' --formats fp16", it, -inf},
    {"-65504 + (-15.99)", "bits '-65504 + -15.99' --formats fp16", it, -65504},
    {"2 times -65504", "bits '2 * -65504' --formats fp16", it, -inf},
    {"half(1.0001)", "bits 1.0001 --formats fp16", it, 1},
    {"half(1 + 4.88e-4)", "bits 1+4.88e-4 --formats fp16", it, 1},
    {"half(1 + 4.9e-4)", "bits 1+4.9e-4 --formats fp16", it, 1.000977, 5e-7},
    {"half(2049)", "bits 2049 --formats fp16", it, 2048},
    {"255.8 squared, f32 inside", "bits 'fp32(255.8)^2' --formats fp16", it, 65440},
    {"256 squared", "bits 256^2 --formats fp16", it, inf},
    {"300 squared", "bits 300^2 --formats fp16", it, inf},
    {"255.8 in half", "bits 255.8 --formats fp16", it, 255.75},
    {"its square", "bits 'fp16(255.8)^2' --formats fp16", it, 65408},
    {"40 cubed", "bits 40^3 --formats fp16", it, 64000},
    {"41 cubed", "bits 41^3 --formats fp16", it, inf},
    {"sigmoid(8.317)", "bits 'sigmoid(fp32(8.317))' --formats fp16", it, 0.99951, 5e-6},
    {"sigmoid(8.318)", "bits 'sigmoid(fp32(8.318))' --formats fp16", it, 1},
    {"sigmoid(-17.32)", "bits 'sigmoid(fp32(-17.32))' --formats fp16", it, 5.96e-8, 1e-3},
    {"sigmoid(-17.33)", "bits 'sigmoid(fp32(-17.33))' --formats fp16", it, 0},
    {"8.317 and 8.318 are one half", "bits '8.317' --formats fp16", it, 8.3203125},
    {"8.317 and 8.318 are one half", "bits '8.318' --formats fp16", it, 8.3203125},
    {"whose sigmoid is 1", "bits 'sigmoid(fp16(8.317))' --formats fp16", it, 1},
    {"gradient 1e-8", "bits 1e-8 --formats fp16", it, 0},
    {"gradient 1e-8, scaled", "bits 1e-8*65536 --formats fp16", it, 6.55e-4, 1e-3},
    {"Adam's (1-b2)g^2", "bits '(1-0.999)*1.5e-3^2' --formats fp16", "/value", 2.25e-9, 1e-6},
    {"in half", "bits '(1-0.999)*1.5e-3^2' --formats fp16", it, 0},
    {"dropout p = 0.1 on 60000", "bits '60000/(1-0.1)' --formats fp16", "/value", 66667, 1e-5},
    {"in half", "bits '60000/(1-0.1)' --formats fp16", it, inf},
};

constexpr Figure of_others[] = {
    {"f32(1e-45)", "bits 1e-45 --formats fp32", it, 1.4e-45, 2e-3},
    {"its logarithm", "bits 'log(fp32(1e-45))'", "/value", -103.28, 5e-5},
    {"f32(1e-46)", "bits 1e-46 --formats fp32", it, 0},
    {"bf16(1e-45)", "bits 1e-45 --formats bf16", it, 0},
    {"bf16(1e-12)", "bits 1e-12 --formats bf16", it, 1.0019e-12, 5e-5},
    {"bf16(1e-13)", "bits 1e-13 --formats bf16", it, 9.99e-14, 1e-3},
    {"bf16(1.0001)", "bits 1.0001 --formats bf16", it, 1},
    {"bf16(1 + 2^-8), a tie", "bits 1+2^-8 --formats bf16", it, 1},
    {"bf16(1.00391)", "bits 1.00391 --formats bf16", it, 1.0078125},
    {"bf16(0.99805)", "bits 0.99805 --formats bf16", it, 1},
    {"bf16(0.998)", "bits 0.998 --formats bf16", it, 0.99609, 5e-6},
    {"bf16(257)", "bits 257 --formats bf16", it, 256},
    {"grid near 36", "bits 36 --formats bf16", "/formats/0/ulp", 0.25},
    {"1 - lr wd in bf16", "bits 1-2e-5*0.01", "/formats/2/value", 1},
    {"1 - lr wd in half", "bits 1-2e-5*0.01", "/formats/1/value", 1},
    {"1 - lr wd in f32", "bits 1-2e-5*0.01", "/formats/0/value", 0.99999982, 5e-9},
    {"bf16 0.02 + 2e-5", "swallow --dtype bf16 --weight 0.02 --update 2e-5 --steps 1", "/low/moved", 0},
    {"half an ulp there", "swallow --dtype bf16 --weight 0.02 --update 2e-5", "/half_ulp_above", 6.1e-5, 1e-3},
    {"bf16 1.0, 100 steps of -6e-4", "swallow --dtype bf16 --update -6e-4", "/low/end", 1},
    {"in fp32", "swallow --dtype bf16 --update -6e-4", "/master/end", 0.94, 5e-6},
    {"half an ulp below 1, half", "swallow", "/half_ulp_below", 2.4e-4, 2e-2},
    {"half an ulp below 1, bf16", "swallow --dtype bf16", "/half_ulp_below", 2.0e-3, 3e-2},
    {"half: ones stall", "accumulate", "/methods/0/sum", 2048},
    {"half: ones stall", "accumulate", "/methods/0/stalled_after", 2048},
    {"bf16: ones stall", "accumulate --dtype bf16", "/methods/0/sum", 256},
    {"half: 0.01 stalls", "accumulate --value 0.01", "/methods/0/sum", 32},
    {"4096 terms", "accumulate --value 0.01", "/exact", 40.97, 1e-4},
    {"at scale 65536: smallest", "formats --scale 65536", "/formats/1/gradients/smallest", 9.1e-13, 1e-3},
    {"at scale 65536: largest", "formats --scale 65536", "/formats/1/gradients/rounds_to_inf", 0.9998, 1e-4},
    {"backoffs until < 1", "formats --scale 65536", "/scale/backoffs_below_one", 17},
    {"until 1/scale is inf", "formats --scale 65536", "/scale/backoffs_inverse_inf", 144},
    {"until scale is 0", "formats --scale 65536", "/scale/backoffs_zero", 166},
    {"growths until inf", "formats --scale 65536", "/scale/growths_inf", 112},
    {"clean steps", "formats --scale 65536", "/scale/clean_updates_inf", 224000},
    {"clip a scaled norm of 65536 to 1, then unscale", "break --clip-before-unscale", "/clipped_then_unscaled", 1.5e-5,
     2e-2},
    // teach.md, command 2
    {"half: min normal", "formats", "/formats/1/min_normal", 6.10e-5, 1e-3},
    {"half: epsilon", "formats", "/formats/1/epsilon", 0x1p-10},
    {"bf16: max", "formats", "/formats/2/max", 3.39e38, 1e-3},
    {"bf16: min normal", "formats", "/formats/2/min_normal", 0x1p-126},
    {"bf16: min subnormal", "formats", "/formats/2/min_subnormal", 0x1p-133},
    {"bf16: epsilon", "formats", "/formats/2/epsilon", 0x1p-7},
    // the seed program's demonstrations
    {"70000 ones in half", "accumulate --n 70000", "/methods/4/sum", inf},
    {"with f32 reductions", "accumulate --n 70000", "/methods/5/sum", 70000},
};

/// The number at a place; one that is not finite is null there and stands under "nonfinite".
double number_at(const json& document, const std::string& place) {
  const json& value = document.at(json::json_pointer(place));
  if (!value.is_null()) return value.get<double>();
  const size_t slash = place.rfind('/');
  const std::string word =
      document.at(json::json_pointer(place.substr(0, slash))).at("nonfinite").at(place.substr(slash + 1));
  return word == "inf" ? inf : word == "-inf" ? -inf : std::nan("");
}

void check_figure(const Figure& figure) {
  const std::string fact = figure.fact, command = std::string("teach ") + figure.command + " --json";
  CAPTURE(fact);
  CAPTURE(command);
  const ProgramResult result = run_program(command);
  REQUIRE(result.exit_code == 0);
  const double value = number_at(json::parse(result.out), figure.place);
  CAPTURE(value);
  CHECK((value == figure.value || std::abs(value - figure.value) <= figure.tolerance * std::abs(figure.value)));
}

}  // namespace

TEST_CASE("teach: the exact figures of half are printed") {
  for (const Figure& figure : of_half) check_figure(figure);
}

TEST_CASE("teach: the exact figures of bf16, f32, sums and scales are printed") {
  for (const Figure& figure : of_others) check_figure(figure);
}

}  // namespace mixtape::tests
