// inspect histogram: bins, shares and advice against brute force; what it prints, and what it refuses.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/half.h"
#include "tests/svg_texts.h"
#include "tests/tiny_run.h"
#include "tools/inspect/collect.h"

namespace mixtape::inspect {
namespace {
using nlohmann::json;
using tests::contains;
using tests::error_text;
using tests::run_program;
using tests::slurp;
using tests::TinyRun;

std::vector<float> all_halfs() {
  std::vector<float> out;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) out.push_back(to_float(half{static_cast<uint16_t>(bits)}));
  return out;
}

/// Random bit patterns of f32, and numbers around those where rounding to 16 bits changes its mind.
std::vector<float> hard_floats() {
  std::vector<float> out;
  uint32_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 1664525u + 1013904223u;
    out.push_back(std::bit_cast<float>(state ^ (state >> 16)));
  }
  for (const float at : {0x1p-25f, 0x1p-24f, 0x1.ffcp-15f, 0x1p-14f, 65504.f, 65520.f, 65536.f, 0x1p-134f, 0x1p-133f,
                         0x1.fcp-127f, 0x1p-126f, 0x1.fep127f, 0x1.ffp127f}) {
    for (const float x : {at, std::nextafter(at, 0.f), std::nextafter(at, std::numeric_limits<float>::infinity())}) {
      out.push_back(x);
      out.push_back(-x);
    }
  }
  for (const float x : {0.f, -0.f, std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(),
                        std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    out.push_back(x);
  }
  return out;
}

/// What becomes of a value, by the conversion itself.
Fate fate_by_conversion(const std::vector<float>& values, const LowFormat& format, double scale) {
  Fate out;
  for (const float value : values) {
    const double scaled = static_cast<double>(value) * scale;
    const double stored = std::abs(format.dtype == DType::f16 ? double{to_float(convert_to<half>(scaled))}
                                                              : double{to_float(convert_to<bf16>(scaled))});
    if (std::isnan(value))
      ++out.nan;
    else if (std::isinf(value))
      ++out.inf;
    else if (value == 0)
      ++out.zero;
    else if (stored == 0)
      ++out.flushed;
    else if (std::isinf(stored))
      ++out.overflow;
    else
      ++(stored < tiny(format.dtype) ? out.subnormal : out.normal);
  }
  return out;
}

Histogram histogram_of(const std::vector<float>& values) {
  Histogram out;
  out.add(std::span<const float>(values));
  return out;
}

}  // namespace

TEST_CASE("inspect histogram: bins are exact powers of two, for all halfs and for f32 with its subnormals") {
  for (const std::vector<float>& values : {all_halfs(), hard_floats()}) {
    const Histogram histogram = histogram_of(values);
    CHECK(histogram.count() == std::ssize(values));
    for (int e = Histogram::lowest - 1; e <= Histogram::highest + 1; ++e) {
      int64_t wanted = 0;
      for (const float value : values) {
        const double magnitude = std::abs(static_cast<double>(value));
        if (magnitude >= std::ldexp(1.0, e) && magnitude < std::ldexp(2.0, e)) ++wanted;
      }
      CAPTURE(e);
      CHECK(histogram.in_bin(e) == wanted);
    }
    int64_t zero = 0, inf = 0, nan = 0;
    for (const float value : values) zero += value == 0, inf += std::isinf(value), nan += std::isnan(value);
    CHECK(histogram.zero() == zero);
    CHECK(histogram.inf() == inf);
    CHECK(histogram.nan() == nan);
  }
}

TEST_CASE("inspect histogram: what a format makes of values at a scale is what the conversion makes of them") {
  std::vector<float> values = all_halfs();
  const std::vector<float> more = hard_floats();
  values.insert(values.end(), more.begin(), more.end());
  const Histogram histogram = histogram_of(values);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const LowFormat format = low_format(dtype);
    for (int shift = -126; shift <= 126; shift += std::abs(shift) < 30 ? 1 : 6) {
      CAPTURE(name_of(dtype));
      CAPTURE(shift);
      const double scale = std::ldexp(1.0, shift);
      const Fate wanted = fate_by_conversion(values, format, scale);
      CHECK(histogram.fate(format, shift) == wanted);
      CHECK(fate_of(std::span<const float>(values), format, scale) == wanted);
      CHECK(wanted.count() == std::ssize(values));
    }
    for (const double scale : {1000.0, 3.0, 0.1f * 1.0, 65535.0, 1e-3f * 1.0}) {
      CAPTURE(scale);
      CHECK(fate_of(std::span<const float>(values), format, scale) == fate_by_conversion(values, format, scale));
    }
  }
}

TEST_CASE("inspect histogram: the ties of fp16") {
  const LowFormat format = low_format(DType::f16);
  CHECK(format.fraction_bits == 10);
  CHECK(format.smallest == -24);
  CHECK(format.smallest_normal == -14);
  CHECK(format.largest == 15);
  CHECK(low_format(DType::bf16).smallest == -133);
  const auto fate = [&](float value) { return histogram_of({value}).fate(format, 0); };
  CHECK(fate(0x1p-25f).flushed == 1);
  CHECK(fate(0x1.000002p-25f).subnormal == 1);
  CHECK(fate(0x1.ff7ffep-15f).subnormal == 1);
  CHECK(fate(0x1.ffcp-15f).normal == 1);
  CHECK(fate(65519.f).normal == 1);
  CHECK(fate(65520.f).overflow == 1);
  CHECK(error_text([] { (void)low_format(DType::f32); }).starts_with("E-DTYPE"));
}

TEST_CASE("inspect histogram: headroom, the largest safe and the smallest useful scale, on both sides") {
  const LowFormat format = low_format(DType::f16);
  const std::vector<float> values = {0.f, 3e-7f, -1e-5f, 0.02f, 1.2f, 7e-9f};
  const Histogram histogram = histogram_of(values);
  const int safe = histogram.largest_safe(format).value();
  CHECK(fate_by_conversion(values, format, std::ldexp(1.0, safe)).overflow == 0);
  CHECK(fate_by_conversion(values, format, std::ldexp(2.0, safe)).overflow == 1);
  const int useful = histogram.smallest_losing_less(format, 0.2).value();
  CHECK(fate_by_conversion(values, format, std::ldexp(1.0, useful)).lost() < 0.2);
  CHECK(fate_by_conversion(values, format, std::ldexp(0.5, useful)).lost() >= 0.2);
  for (const double scale : {1.0, 1000.0, 3.0}) {
    const int room = histogram.headroom(format, scale).value();
    CHECK(fate_by_conversion(values, format, std::ldexp(scale, room)).overflow == 0);
    CHECK(fate_by_conversion(values, format, std::ldexp(scale, room + 1)).overflow == 1);
  }
  CHECK(histogram_of({65519.f}).largest_safe(format) == 0);
  CHECK(histogram_of({65520.f}).largest_safe(format) == -1);
  CHECK(histogram_of({1e-30f}).largest_safe(format) == 115);
  CHECK_FALSE(histogram_of({0.f}).largest_safe(format));
  CHECK_FALSE(histogram_of({1.f, std::numeric_limits<float>::infinity()}).largest_safe(format));
  CHECK_FALSE(histogram_of({}).smallest_losing_less(format, 0.01));
}

TEST_CASE("inspect histogram: what it says of known numbers, as text") {
  Collected step;
  step.step = 7;
  step.loss = 0.6875;
  step.amp = "fp16";
  step.format = low_format(DType::f16);
  step.scale = 65536;
  step.scale_from = "the run's own at this step";
  const auto add = [&](What what, const std::string& place, const std::vector<float>& values) {
    Group group{.what = what, .place = place, .values = histogram_of(values), .at_scale = {}};
    group.at_scale = fate_of(std::span<const float>(values), step.format, is_scaled(what) ? step.scale : 1);
    step.groups.push_back(std::move(group));
  };
  std::vector<float> gradients = {0.f, 0.f, 0.f}, weights;
  for (int e = -44; e < -3; ++e) {
    for (int k = 0; k < 20 - std::abs(e + 24) / 2; ++k)
      gradients.push_back(std::ldexp(1.f + 0.01f * static_cast<float>(k), e));
  }
  for (int i = 0; i < 1000; ++i) weights.push_back(static_cast<float>(i * 37 % 1001 - 500) / 8192);
  add(What::agrad, "", gradients);
  add(What::agrad, "bert.embeddings.*", {gradients.begin(), gradients.begin() + 300});
  add(What::agrad, "bert.encoder.layer.0.*", {gradients.begin() + 300, gradients.end()});
  add(What::weight, "", weights);
  add(What::weight, "classifier.*", weights);
  const std::string folder = MIXTAPE_SOURCE_DIR "/tests/golden/inspect/";
  CHECK(collected_text(step, false) == slurp(folder + "histogram.txt"));
  CHECK(collected_text(step, true) == slurp(folder + "histogram_places.txt"));
  CHECK(json::parse(collected_json(step).pretty()).at("groups").size() == 5);
}

TEST_CASE("inspect histogram: names of kinds and places") {
  CHECK(parse_what("agrad,weight") == std::vector<What>{What::agrad, What::weight});
  CHECK(contains(error_text([] { (void)parse_what("agrad,agard"); }), "did you mean \"agrad\"?"));
  CHECK(contains(error_text([] { (void)parse_what("act,act"); }), "comes twice"));
  CHECK(contains(error_text([] { (void)parse_what(""); }), "E-INSPECT-WHAT"));
  CHECK(place_of("bert.encoder.layer.11.output.dense") == "bert.encoder.layer.11.*");
  CHECK(place_of("bert.embeddings.LayerNorm") == "bert.embeddings.*");
  CHECK(place_of("classifier") == "classifier.*");
  CHECK(place_of("") == "*");
}

TEST_CASE("inspect histogram: from outside") {
  const TinyRun tiny;
  const std::string config = "'" + tiny.config_path() + "'", svg = "'" + tiny.path("bins.svg") + "'";
  const std::string command = "inspect histogram " + config + " --set amp.dtype=fp16 --step 3 --svg " + svg;
  const auto shown = run_program(command + " --json");
  CAPTURE(shown.err);
  REQUIRE(shown.exit_code == 0);
  const json step = json::parse(shown.out);
  CHECK(step.at("format") == "fp16");
  CHECK(step.at("scale") == 65536);
  for (const json& group : step.at("groups")) {
    int64_t sum = group.at("zero").get<int64_t>() + group.at("inf").get<int64_t>() + group.at("nan").get<int64_t>();
    for (const json& bin : group.at("bins")) sum += bin.at("count").get<int64_t>();
    CHECK(sum == group.at("n").get<int64_t>());
    const json& fate = group.at("unscaled");
    const double shares = fate.at("flushed_share").get<double>() + fate.at("subnormal_share").get<double>() +
                          fate.at("normal_share").get<double>() + fate.at("overflow_share").get<double>();
    const double zero = group.at("zero").get<double>() / group.at("n").get<double>();
    CHECK(shares + zero == doctest::Approx(1).epsilon(1e-12));
  }
  CHECK(contains(slurp(tiny.path("bins.svg")), "scaled: 0 below"));
  CHECK(tests::svg_label_fault(slurp(tiny.path("bins.svg"))) == "");
  const auto text = run_program(command);
  CHECK(contains(text.out, "largest safe scale now: 2^"));
  CHECK(run_program(command).out == text.out);
  const auto bf16 = run_program("inspect histogram " + config + " --set amp.dtype=bf16 --what agrad");
  CHECK(contains(bf16.out, "bf16 at scale 1 (2^0), bf16 is not scaled"));
}

TEST_CASE("inspect histogram: what it refuses, with a reason") {
  const TinyRun tiny;
  struct {
    const char *arguments, *code, *word;
  } const refused[] = {{"--step 0", "E-USAGE", "--step"},
                       {"--step 13", "E-REPLAY-STEP", "from 1 to 12"},
                       {"--what grad", "E-INSPECT-WHAT", "wgrad"},
                       {"--scale 0", "E-SCALE-OPTIONS", "2^-126"},
                       {"--scale=-2", "E-SCALE-OPTIONS", "2^-126"},
                       {"--scale nan", "E-TEACH-VALUE", "finite"},
                       {"--scale big", "E-TEACH-VALUE", "number"},
                       {"--format fp32", "E-USAGE", "fp16"},
                       {"--svg /nowhere/x.svg", "E-IO", "/nowhere"},
                       {"--set trainer.seeds=1", "E-CONFIG-UNKNOWN-KEY", "seed"}};
  for (const auto& [arguments, code, word] : refused) {
    CAPTURE(arguments);
    const auto result = run_program("inspect histogram '" + tiny.config_path() + "' " + arguments);
    CHECK(result.exit_code != 0);
    CHECK(contains(result.err, code));
    CHECK(contains(result.err, word));
  }
  CHECK(contains(run_program("inspect histogram '" + tiny.path("none") + "'").err, "E-CONFIG-FILE"));
  CHECK(contains(run_program("inspect histogram '" + tiny.path("data") + "'").err, "E-RUN-DIR"));
  CHECK(contains(run_program("inspect histogram '" + tiny.path("data") + "' --set trainer.seed=1").err, "E-USAGE"));
  CHECK(run_program("inspect histogram").exit_code == 2);
}

}  // namespace mixtape::inspect
