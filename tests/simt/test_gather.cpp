// The embedding on the device: rows picked by their ids, and the gradient of the table by a stable sort.
#include <doctest/doctest.h>

#include "core/kernels/gather.cuh"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

struct Case {
  int64_t rows, n, count;
};
const Case cases[] = {{5, 3, 4}, {40, 64, 30}, {3, 129, 9}, {300, 32, 700}, {70000, 4, 50}, {1, 8, 300}, {4, 5, 0}};

// The calls of the two machines under one name.
void gather(const OnHost&, const View& table, const View& index, const View& out) {
  kernels::gather_rows(table, index, out);
}
void gather(const OnDevice&, const View& table, const View& index, const View& out) {
  kernels::device::gather_rows(table, index, out);
}
void sum(const OnHost&, const View& in, const View& index, const View& out, int64_t skipped) {
  kernels::sum_rows(in, index, out, skipped);
}
void sum(const OnDevice&, const View& in, const View& index, const View& out, int64_t skipped) {
  kernels::device::sum_rows(in, index, out, skipped);
}

}  // namespace

TEST_CASE("embedding: rows of a table by their ids") {
  for (const DType to : float_types) {
    for (const DType from : {DType::f32, to}) {
      for (const Case& c : cases) {
        if (c.rows > 1000 && to != DType::bf16) continue;
        const Pair table(numbers({c.rows, c.n}, from, 1)), index(ids({c.count}, c.rows, 2)), y({c.count, c.n}, to);
        check_both("embedding", {&y}, 0, [&](const auto& on) { gather(on, on(table), on(index), on(y)); });
      }
    }
  }
}

TEST_CASE("an index outside the table gives NaN") {
  const Pair table(numbers({3, 4}, DType::f32, 3)), index(from_ints({2, 3, -1}, {3})), y({3, 4}, DType::f32);
  gather(OnDevice{}, table.device(), index.device(), y.device());
  const std::vector<double> got = y.device_values(), all = to_vector(numbers({3, 4}, DType::f32, 3));
  for (size_t i = 0; i < 4; ++i) {
    CHECK(got[i] == all[8 + i]);
    CHECK(std::isnan(got[4 + i]));
    CHECK(std::isnan(got[8 + i]));
  }
}

TEST_CASE("the gradient of a table: equal to the CPU's sums, whose order it keeps") {
  for (const DType in : float_types) {
    for (const Case& c : cases) {
      if (c.rows > 1000 && in != DType::bf16) continue;
      for (const int64_t skipped : {int64_t{-1}, c.rows / 2}) {
        const Pair dy(numbers({c.count, c.n}, in, 4)), index(ids({c.count}, c.rows, 5)), dt({c.rows, c.n}, DType::f32);
        check_both("embedding", {&dt}, 0, [&](const auto& on) { sum(on, on(dy), on(index), on(dt), skipped); });
      }
    }
  }
}

TEST_CASE("one frequent row: sums in chunks") {
  std::vector<int64_t> most(1500, 3);
  for (size_t i = 0; i < most.size(); i += 11) most[i] = static_cast<int64_t>(i % 7);
  const Pair dy(numbers({1500, 8}, DType::f32, 6)), index(from_ints(most, {1500})), dt({7, 8}, DType::f32);
  check_both("embedding", {&dt}, 0, [&](const auto& on) { sum(on, on(dy), on(index), on(dt), -1); });
}

TEST_CASE("the sort is stable and right at every size") {
  for (const int64_t count : {1, 31, 256, 257, 1000}) {
    for (const uint32_t largest : {0u, 1u, 15u, 16u, 40000u}) {
      std::vector<uint32_t> keys, values;
      const std::vector<double> drawn = to_vector(ids({count}, int64_t{largest} + 1, 7));
      for (const double key : drawn) keys.push_back(static_cast<uint32_t>(key));
      for (uint32_t i = 0; i < count; ++i) values.push_back(i);
      const size_t bytes = static_cast<size_t>(count) * sizeof(uint32_t);
      in_all_orders([&] {
        kernels::device::SortedPairs pairs(count, nullptr);
        check_cuda(cudaMemcpy(pairs.keys(), keys.data(), bytes, cudaMemcpyHostToDevice), "copy");
        check_cuda(cudaMemcpy(pairs.values(), values.data(), bytes, cudaMemcpyHostToDevice), "copy");
        pairs.sort(largest);
        std::vector<uint32_t> sorted(keys.size()), order(keys.size());
        check_cuda(cudaMemcpy(sorted.data(), pairs.keys(), bytes, cudaMemcpyDeviceToHost), "copy");
        check_cuda(cudaMemcpy(order.data(), pairs.values(), bytes, cudaMemcpyDeviceToHost), "copy");
        std::vector<uint32_t> expected = values;
        std::stable_sort(expected.begin(), expected.end(), [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
        CHECK(order == expected);
        for (size_t i = 0; i < order.size(); ++i) CHECK(sorted[i] == keys[order[i]]);
      });
    }
  }
}

}  // namespace mixtape::simt_tests
