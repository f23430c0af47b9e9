// Philox against published vectors, what the coordinates mean, and dropout masks.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "core/context.h"
#include "core/factory.h"
#include "core/kernels/parallel.h"
#include "core/kernels/random.h"
#include "core/rng.h"
#include "ops/ops.h"

namespace mixtape {
namespace {

using Words = std::array<uint32_t, 4>;
Words philox(const Words& counter, uint32_t k0, uint32_t k1) {
  const Philox p = philox4x32(counter[0], counter[1], counter[2], counter[3], k0, k1);
  return {p.word[0], p.word[1], p.word[2], p.word[3]};
}
Words block(const RngCoordinates& at, uint64_t number) {
  const Philox p = philox_block(at, number);
  return {p.word[0], p.word[1], p.word[2], p.word[3]};
}

RngCoordinates place(uint32_t step, uint32_t micro_step, uint32_t draw) {
  return {42, rng_stream::dropout, step, micro_step, draw};
}

Tensor drop(const Tensor& x, double p, const RngCoordinates& at) {
  const RngGuard guard(at);
  return ops::dropout(x, p);
}
std::vector<double> mask(const Shape& shape, double p, const RngCoordinates& at, DType dtype = DType::f32) {
  std::vector<double> kept = to_vector(drop(full(shape, 1.0, dtype), p, at));
  for (double& value : kept) value = value != 0.0;
  return kept;
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the vectors that Random123 publishes") {
  CHECK(philox({0, 0, 0, 0}, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, ones, ones) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("an element's 16 bits are its eighth of the block of eight") {
  const RngCoordinates at = place(5, 1, 3);
  for (uint64_t element : {uint64_t{0}, uint64_t{7}, uint64_t{8}, uint64_t{1000003}, (uint64_t{1} << 40) + 5}) {
    const Words words = block(at, element / 8);
    const uint32_t word = words[(element % 8) / 2];
    CHECK(random16(at, element) == (element % 2 ? word >> 16 : word & 0xffff));
  }
  CHECK(block(at, 1) != block(at, (uint64_t{1} << 32) + 1));  // the block number has 64 bits
}

TEST_CASE("a run of elements draws what each of them draws alone") {
  const RngCoordinates at{(uint64_t{7} << 33) + 5, rng_stream::test, 6, 2, 9};
  for (uint64_t first : {uint64_t{0}, uint64_t{3}, uint64_t{8}, uint64_t{61}, (uint64_t{1} << 35) - 20}) {
    for (int64_t n : {0, 1, 5, 31, 32, 33, 64, 129}) {
      std::vector<uint16_t> run(static_cast<size_t>(n) + 1, 7), single(run);
      kernels::random16_run(at, first, n, run.data());
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) single[i] = random16(at, first + i);
      CHECK(run == single);  // the last one, behind the run, is not written
    }
  }
}

TEST_CASE("each coordinate leads to other numbers") {
  const RngCoordinates base = place(1, 1, 1);
  std::set<Words> blocks;
  size_t expected = 0;
  const auto add = [&](RngCoordinates at) {
    for (uint64_t number : {0, 1, 2}) blocks.insert(block(at, number));
    expected += 3;
  };
  for (uint32_t step = 0; step < 8; ++step) {
    for (uint32_t micro_step = 0; micro_step < 4; ++micro_step) {
      for (uint32_t draw = 0; draw < 8; ++draw) add(place(step, micro_step, draw));
    }
  }
  add(place(0, 0, 65535));
  add(place(0, 65535, 0));
  add(place(0xffffffff, 0, 0));
  for (uint32_t stream : {rng_stream::init, rng_stream::shuffle, rng_stream::test}) {
    RngCoordinates at = base;
    at.stream = stream;
    add(at);
  }
  for (uint64_t seed : {uint64_t{43}, uint64_t{42} << 32, (uint64_t{1} << 32) + 42}) {
    RngCoordinates at = base;
    at.seed = seed;
    add(at);
  }
  CHECK(blocks.size() == expected);
}

TEST_CASE("16-bit draws are uniform and neighbours independent") {
  const RngCoordinates at = place(9, 0, 2);
  constexpr int count = 1 << 18, buckets = 256;
  std::vector<int> singles(buckets), pairs(buckets);
  int last = 0;
  for (int i = 0; i < count; ++i) {
    const int draw = random16(at, static_cast<uint64_t>(i));
    ++singles[static_cast<size_t>(draw >> 8)];
    ++pairs[static_cast<size_t>((draw >> 12) * 16 + last)];
    last = draw >> 12;
  }
  const double mean = static_cast<double>(count) / buckets;
  for (const std::vector<int>& counts : {singles, pairs}) {
    double chi_squared = 0;
    for (int n : counts) chi_squared += (n - mean) * (n - mean) / mean;
    CHECK(chi_squared > 150);  // 255 degrees of freedom: 150 and 370 are five deviations away
    CHECK(chi_squared < 370);
  }
}

TEST_CASE("uniform and normal numbers have their moments") {
  constexpr int64_t n = 1 << 16;
  const auto moments = [](const std::vector<double>& values) {
    double sum = 0, squares = 0;
    for (double v : values) sum += v, squares += v * v;
    const double mean = sum / static_cast<double>(values.size());
    return std::pair(mean, squares / static_cast<double>(values.size()) - mean * mean);
  };
  const auto [uniform_mean, uniform_var] = moments(to_vector(rand_uniform({n}, place(0, 0, 0), -1, 3, DType::f64)));
  CHECK(uniform_mean == doctest::Approx(1.0).epsilon(0.02));
  CHECK(uniform_var == doctest::Approx(16.0 / 12).epsilon(0.02));
  const auto [normal_mean, normal_var] = moments(to_vector(randn({n}, place(0, 0, 0), 0.5, 2.0, DType::f64)));
  CHECK(normal_mean == doctest::Approx(2.0).epsilon(0.005));
  CHECK(normal_var == doctest::Approx(0.25).epsilon(0.02));
}

TEST_CASE("dropout keeps the share that it should, and the mean") {
  constexpr int64_t n = 1 << 18;
  for (double p : {0.1, 0.5, 0.9}) {
    double kept = 0, sum = 0;
    for (double value : to_vector(drop(full({n}, 1.0), p, place(1, 0, 0)))) kept += value != 0, sum += value;
    const double deviation = std::sqrt(p * (1 - p) / static_cast<double>(n));
    CHECK(std::abs(kept / static_cast<double>(n) - (1 - p)) < 4 * deviation);
    CHECK(std::abs(sum / static_cast<double>(n) - 1) < 4 * deviation / (1 - p));
  }
}

TEST_CASE("a mask depends on its coordinates alone") {
  const Shape shape{61, 1031};  // large enough to be shared between threads, and of odd sizes
  const RngCoordinates at = place(3, 1, 4);
  const std::vector<double> wanted = mask(shape, 0.1, at);
  SUBCASE("not on the dtype") {
    for (DType dtype : {DType::f16, DType::bf16, DType::f64}) CHECK(mask(shape, 0.1, at, dtype) == wanted);
  }
  SUBCASE("not on the thread count") {
    const int threads = kernels::thread_count();
    for (int count : {1, 2, 3, 8}) {
      kernels::set_thread_count(count);
      CHECK(mask(shape, 0.1, at) == wanted);
    }
    kernels::set_thread_count(threads);
  }
  SUBCASE("not on the layout or on axes of size 1") {
    const Tensor turned = ops::transpose(full({1031, 61}, 1.0), 0, 1);
    std::vector<double> kept = to_vector(drop(turned, 0.1, at));
    for (double& value : kept) value = value != 0;
    CHECK(kept == wanted);
    CHECK(mask({61, 1, 1031, 1}, 0.1, at) == wanted);
    CHECK(mask({61 * 1031}, 0.1, at) == wanted);
  }
  SUBCASE("a part draws what the whole draws there") {
    const std::vector<double> first = mask({7, 1031}, 0.1, at);
    CHECK(std::equal(first.begin(), first.end(), wanted.begin()));
  }
  SUBCASE("but on step, micro-step and draw") {
    std::set<std::vector<double>> masks{wanted};
    for (const RngCoordinates& other : {place(4, 1, 4), place(3, 2, 4), place(3, 1, 5), place(3, 4, 1)}) {
      masks.insert(mask(shape, 0.1, other));
    }
    CHECK(masks.size() == 5);
  }
}

TEST_CASE("every dropout call takes the next draw, also with p = 0") {
  const Tensor x = full({64}, 1.0);
  const auto third = [&](double first, double second) {
    const RngGuard guard(place(0, 0, 0));
    ops::dropout(x, first);
    ops::dropout(x, second);
    const std::vector<double> y = to_vector(ops::dropout(x, 0.5));
    CHECK(context().rng.draw == 3);
    return y;
  };
  CHECK(third(0.0, 0.1) == third(0.3, 0.0));
  CHECK(third(0.0, 0.0) == to_vector(drop(x, 0.5, place(0, 0, 2))));
  const RngGuard guard(place(0, 0, 0));
  CHECK(ops::dropout(x, 0.0).same_as(x));
  CHECK(to_vector(ops::dropout(x, 0.5)) != to_vector(ops::dropout(x, 0.5)));
}

TEST_CASE("backward draws the forward's mask again") {
  Tensor x = full({5, 7}, 1.0);
  x.set_requires_grad();
  const Tensor y = drop(x, 0.5, place(2, 0, 1));
  autograd::backward({y}, {full({5, 7}, 1.0)});  // at another draw than the forward's
  CHECK(to_vector(x.grad()) == to_vector(y));

  const RngGuard guard(place(2, 0, 1));
  const auto part = [](const Tensors& in) { return Tensors{ops::dropout(ops::dropout(in[0], 0.3), 0.5)}; };
  Tensor plain = full({5, 7}, 1.0), recomputed = full({5, 7}, 1.0);
  plain.set_requires_grad();
  recomputed.set_requires_grad();
  const Tensor once = part({plain})[0];
  context().rng = place(2, 0, 1);
  const Tensor again = autograd::checkpoint(part, {recomputed})[0];
  CHECK(to_vector(once) == to_vector(again));
  autograd::backward({once, again}, {full({5, 7}, 1.0), full({5, 7}, 1.0)});
  CHECK(to_vector(plain.grad()) == to_vector(recomputed.grad()));
  CHECK(to_vector(plain.grad()) == to_vector(once));
}

TEST_CASE("dropout multiplies in f32 and rounds once; p = 1 multiplies nothing by infinity") {
  const Tensor big = full({64}, 60000, DType::f16);
  bool overflowed = false;
  for (double value : to_vector(drop(big, 0.1, place(0, 0, 0)))) {
    overflowed = overflowed || std::isinf(value);
    CHECK((value == 0 || std::isinf(value)));  // 66667 is beyond half
  }
  CHECK(overflowed);

  // With 1/0.9 as half holds it, 1.1113, some of these results would differ.
  std::vector<double> values(1024);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 1.0 + static_cast<double>(i) / 1024;
  const std::vector<double> y = to_vector(drop(from(values, {1024}, DType::f16), 0.1, place(0, 0, 0)));
  int rounded_otherwise = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0) continue;
    const float exact = static_cast<float>(values[i]) * static_cast<float>(1.0 / 0.9);
    CHECK(y[i] == to_vector(from({exact}, {1}, DType::f16))[0]);
    rounded_otherwise += y[i] != to_vector(from({values[i] * 1.111328125}, {1}, DType::f16))[0];
  }
  CHECK(rounded_otherwise > 0);

  Tensor x = from({1, -INFINITY, NAN, 0}, {4}, DType::f16);
  x.set_requires_grad();
  const Tensor nothing = drop(x, 1.0, place(0, 0, 0));
  CHECK(to_vector(nothing) == std::vector<double>(4));
  autograd::backward({nothing}, {full({4}, INFINITY, DType::f16)});
  CHECK(to_vector(x.grad()) == std::vector<double>(4));
}

}  // namespace mixtape
