// Attention on the device against its definition in double, and the CPU's op beside it: packed and padded batches,
// masks, dropout, heads of many sizes, in every order of blocks and threads.
#include <doctest/doctest.h>

#include "tests/simt/flash_batch.cuh"

namespace mixtape::simt_tests {
namespace {

namespace device = kernels::device;

/// How far a result may lie from the definition: sums and exponentials of f32, whose scores err with the magnitudes
/// that they are made of; weights, slopes, d and the result itself are rounded to 16 bits where the operands have them.
struct FlashBound {
  double of_magnitude, least;
  FlashBound(const FlashBatch& batch, const FlashOracle& exact, DType dtype) {
    const double n = static_cast<double>(batch.longest()), d = static_cast<double>(batch.of.columns);
    of_magnitude = eps(DType::f32) * (4 * (8 + n + d) + (8 + d) * exact.score);
    if (dtype != DType::f32) of_magnitude += 1.5 * eps(dtype);
    // Weights below the smallest number of f16 are lost.
    least = dtype == DType::f16 ? n * tiny(dtype) * eps(dtype) * 16 * batch.of.std : 1e-30;
  }
  void check(const char* what, const Exact& exact, const std::vector<double>& found) const {
    REQUIRE(found.size() == exact.value.size());
    int wrong = 0;
    for (size_t i = 0; i < found.size() && wrong < 4; ++i) {
      if (found[i] == exact.value[i]) continue;
      const double bound = of_magnitude * exact.magnitude[i] + least;
      if (std::abs(found[i] - exact.value[i]) <= bound) continue;
      ++wrong;
      INFO(std::string(what), ", element ", i, ": ", found[i], ", expected ", exact.value[i], ", bound ", bound);
      CHECK(false);
    }
  }
  void check_gradients(const FlashBatch& batch, const FlashOracle& exact, const std::vector<double> (&found)[3]) const {
    check("dq", exact.dq, batch.cut(found[0], {}, 0));
    check("dk", exact.dk, batch.cut(found[0], found[1], 1));
    check("dv", exact.dv, batch.cut(found[0], found[2], 2));
  }
};

template <class On>
void forward_of(const FlashBatch& batch, const On& on) {
  const View q = batch.piece(on, 0), k = batch.piece(on, 1), v = batch.piece(on, 2);
  if constexpr (std::is_same_v<On, OnHost>) {
    ops::attend(batch.on_host(), q, k, v, on(batch.out));
  } else {
    device::attend(batch.on_device(), q, k, v, on(batch.out), on(batch.log_totals));
  }
}
template <class On>
void backward_of(const FlashBatch& batch, const On& on, bool saved) {
  const View q = batch.piece(on, 0), k = batch.piece(on, 1), v = batch.piece(on, 2), dy = on(batch.dy);
  const View dq = batch.piece(on, 0, true), dk = batch.piece(on, 1, true), dv = batch.piece(on, 2, true);
  if constexpr (std::is_same_v<On, OnHost>) {
    ops::attend_backward(batch.on_host(), dy, q, k, v, dq, dk, dv);
  } else {
    const device::SavedAttention kept{on(batch.out), on(batch.log_totals)};
    device::attend_backward(batch.on_device(), dy, q, k, v, dq, dk, dv, saved ? kept : device::SavedAttention{});
  }
}

/// The bytes of outputs, which must be the same in every order.
class SameBits {
 public:
  /// Whether these are the first.
  bool first(const std::vector<const Pair*>& outputs) {
    std::vector<std::vector<char>> bytes;
    for (const Pair* output : outputs) bytes.push_back(output->bytes().read());
    const bool is_first = bytes_.empty();
    if (is_first) bytes_ = bytes;
    CHECK_MESSAGE(bytes == bytes_, "another order of blocks and threads gives other bits");
    return is_first;
  }

 private:
  std::vector<std::vector<char>> bytes_;
};

void check_flash(const FlashCase& of, DType dtype) {
  INFO(name_of(dtype), ", ", of.lengths.size(), " sequences up to ",
       *std::max_element(of.lengths.begin(), of.lengths.end()), ", ", of.heads, " heads of ", of.columns, ", p ", of.p);
  tally().rows.insert("attention");
  ++tally().cases;
  const FlashBatch batch(of, dtype);
  const FlashOracle exact(batch);
  const FlashBound bound(batch, exact, dtype);
  forward_of(batch, OnHost{});
  backward_of(batch, OnHost{}, false);
  bound.check("y on the CPU", exact.y, batch.out.host_values());
  bound.check_gradients(batch, exact, {batch.dq.host_values(), batch.dk.host_values(), batch.dv.host_values()});
  SameBits forward, recomputed, saved;
  in_all_orders([&] {
    batch.out.bytes().reset();
    batch.log_totals.bytes().reset();
    forward_of(batch, OnDevice{});
    if (forward.first({&batch.out, &batch.log_totals})) {
      bound.check("y", exact.y, batch.out.device_values());
      FlashBound(batch, exact, DType::f32).check("log Σ exp", exact.log_totals, batch.log_totals.device_values());
    }
    for (const bool from_saved : {false, true}) {
      for (const Pair* gradient : batch.gradients()) gradient->bytes().reset();
      backward_of(batch, OnDevice{}, from_saved);
      if (!(from_saved ? saved : recomputed).first(batch.gradients())) continue;
      bound.check_gradients(batch, exact,
                            {batch.dq.device_values(), batch.dk.device_values(), batch.dv.device_values()});
    }
  });
}

void check_flash(const FlashCase& of) {
  for (const DType dtype : float_types) check_flash(of, dtype);
}

}  // namespace

TEST_CASE("attention of one sequence") {
  for (const int64_t length : {1, 7, 16, 33, 64}) {
    for (const double p : {0.0, 0.25}) {
      check_flash({.lengths = {length}, .heads = 1, .columns = 32, .p = p});
      if (length != 64) check_flash({.lengths = {length}, .heads = 1, .columns = 64, .p = p});
    }
  }
}

TEST_CASE("attention of more tiles than one") {
  check_flash({.lengths = {130}, .heads = 1, .columns = 64, .p = 0.25});
  check_flash({.lengths = {130}, .heads = 1, .columns = 32});
}

TEST_CASE("attention of packed sequences") {
  for (const double p : {0.0, 0.25}) {
    check_flash({.lengths = {1, 33, 7, 16}, .heads = 3, .columns = 32, .p = p, .joint = true});
  }
  check_flash({.lengths = {16, 70, 5}, .heads = 3, .columns = 64, .p = 0.25, .joint = true});
}

TEST_CASE("attention of padded sequences: hidden keys, and a sequence that sees nothing") {
  for (const double p : {0.0, 0.25}) {
    check_flash({.lengths = {33, 33, 33}, .heads = 1, .columns = 64, .p = p, .masked = true});
    check_flash({.lengths = {20, 20}, .heads = 3, .columns = 32, .p = p, .masked = true, .joint = true});
  }
}

TEST_CASE("attention of one query a sequence") {
  for (const bool masked : {false, true}) {
    check_flash({.lengths = {7, 70, 16}, .heads = 3, .columns = 32, .p = 0.25, .masked = masked, .one_query = true});
    check_flash({.lengths = {5, 33}, .heads = 1, .columns = 64, .masked = masked, .one_query = true});
  }
}

TEST_CASE("attention with heads of other sizes") {
  for (const int64_t columns : {1, 5, 16, 40, 63}) {
    check_flash({.lengths = {19, 3}, .heads = 2, .columns = columns, .p = 0.25, .joint = true});
  }
  for (const int64_t columns : {80, 128}) check_flash({.lengths = {19}, .heads = 1, .columns = columns, .p = 0.25});
}

TEST_CASE("attention whose scores reach ±80") {
  check_flash({.lengths = {70}, .heads = 1, .columns = 32, .std = 5});
  check_flash({.lengths = {33, 40}, .heads = 1, .columns = 64, .p = 0.25, .masked = true, .std = 5});
}

TEST_CASE("attention that drops every weight") {
  check_flash({.lengths = {9, 16}, .heads = 1, .columns = 32, .p = 1.0});
}

TEST_CASE("attention beyond its range is refused") {
  const FlashBatch wide({.lengths = {3}, .heads = 1, .columns = 129}, DType::f32);
  CHECK_THROWS_WITH(forward_of(wide, OnDevice{}), doctest::Contains("heads of 129 columns, expected at most 128"));
  CHECK_THROWS_WITH(backward_of(wide, OnDevice{}, false), doctest::Contains("heads of 129 columns"));
  const FlashBatch fine({.lengths = {3}, .heads = 1, .columns = 32}, DType::f64);
  CHECK_THROWS_WITH(forward_of(fine, OnDevice{}), doctest::Contains("f64 is for gradient checks on the CPU"));
}

TEST_CASE("scores of -inf: no softmax where nothing is hidden, nothing where something is") {
  for (const bool masked : {false, true}) {
    const FlashCase of{.lengths = {5, 5}, .heads = 1, .columns = 16, .masked = masked};
    FlashBatch batch(of, DType::f16);
    const Pair q(full({10, 16}, 60000, DType::f16)), k(full({10, 16}, -INFINITY, DType::f16));
    const std::vector<View> in{OnDevice{}(q), OnDevice{}(k), OnDevice{}(batch.v)};
    device::attend(batch.on_device(), in[0], in[1], in[2], OnDevice{}(batch.out));
    ops::attend(batch.on_host(), q.host(), k.host(), batch.v.host(), batch.out.host());
    const std::vector<double> host = batch.out.host_values(), found = batch.out.device_values();
    for (size_t i = 0; i < host.size(); ++i) {
      CHECK(std::isnan(host[i]) == !masked);
      CHECK((std::isnan(host[i]) ? std::isnan(found[i]) : host[i] == found[i]));
    }
  }
}

TEST_CASE("offsets that cannot be meant give NaN, and nothing beyond the tokens is touched") {
  const FlashBatch batch({.lengths = {6, 6}, .heads = 1, .columns = 32}, DType::f32);
  for (const std::vector<int64_t>& wrong : std::vector<std::vector<int64_t>>{{0, 6, 13}, {0, 6, 3}, {-2, 6, 12}}) {
    const Pair offsets(from_ints(wrong, {3}));
    kernels::AttentionHeads heads = batch.on_device();
    heads.offsets = OnDevice{}(offsets);
    const OnDevice on;
    batch.out.bytes().reset();
    device::attend(heads, on(batch.q), on(batch.k), on(batch.v), on(batch.out));
    device::attend_backward(heads, on(batch.dy), on(batch.q), on(batch.k), on(batch.v), on(batch.dq), on(batch.dk),
                            on(batch.dv));
    const size_t row = wrong[0] < 0 ? 0 : 6;  // of the sequence that is wrong, the first
    for (const Pair* output : {&batch.out, &batch.dq, &batch.dk, &batch.dv}) {
      const std::vector<double> values = output->device_values();
      if (wrong[2] >= wrong[1]) CHECK(std::isnan(values[row * 32]));
      CHECK(!std::isnan(values[(row == 0 ? 6 : 0) * 32]));
    }
  }
}

}  // namespace mixtape::simt_tests
