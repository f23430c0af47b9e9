// A batch for attention on both machines, and what attention is in double, written from its definition: with every
// number comes the sum of the magnitudes that it was made of, from which its error can be bounded.
#pragma once

#include "core/kernels/flash_backward.cuh"
#include "core/kernels/layout.h"
#include "ops/attention_blocks.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {

struct FlashCase {
  std::vector<int64_t> lengths;
  int64_t heads, columns;  // columns of a head
  double p = 0;
  bool masked = false;     // some keys are hidden, and all of the last sequence
  bool one_query = false;  // a sequence
  bool joint = false;      // q, k and v are cut from one tensor, their gradients too
  double std = 1;          // of q and k
};

/// A matrix of numbers with the magnitudes behind them.
struct Exact {
  std::vector<double> value, magnitude;
  explicit Exact(size_t count = 0) : value(count), magnitude(count) {}
  void add(size_t at, double x, double size) {
    value[at] += x;
    magnitude[at] += size;
  }
};

class FlashBatch {
 public:
  FlashBatch(const FlashCase& batch, DType dtype)
      : of(batch),
        tokens(total(batch.lengths)),
        width(batch.heads * batch.columns),
        queries(batch.one_query ? static_cast<int64_t>(batch.lengths.size()) : tokens),
        pieces(batch.joint ? 3 : 1),
        q(numbers({queries, pieces * width}, dtype, 1, batch.std)),
        k(numbers({tokens, width}, dtype, 2, batch.std)),
        v(numbers({tokens, width}, dtype, 3)),
        dy(numbers({queries, width}, dtype, 4)),
        offsets(offset_tensor(batch.lengths)),
        visible(mask_of(batch)),
        out({queries, width}, dtype),
        log_totals({batch.heads, queries}, DType::f32),
        dq({queries, pieces * width}, dtype),
        dk({tokens, width}, dtype),
        dv({tokens, width}, dtype) {}

  int64_t longest() const { return *std::max_element(of.lengths.begin(), of.lengths.end()); }
  /// Piece 0 is q, 1 is k, 2 is v; or their gradients.
  template <class On>
  View piece(const On& on, int which, bool gradient = false) const {
    const Pair& first = gradient ? dq : q;
    if (of.joint) return kernels::section(on(first), 1, which * width, width);
    return on(which == 0 ? first : which == 1 ? (gradient ? dk : k) : gradient ? dv : v);
  }
  ops::AttentionBlocks on_host() const {
    const OnHost on;
    return {of.heads, scale(), of.p, draws, longest(), on(offsets), of.masked ? on(visible) : View{}};
  }
  kernels::AttentionHeads on_device() const {
    const OnDevice on;
    return {of.heads, scale(), of.p, draws, longest(), on(offsets), of.masked ? on(visible) : View{}};
  }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(of.columns)); }
  std::vector<const Pair*> gradients() const {
    return of.joint ? std::vector<const Pair*>{&dq} : std::vector<const Pair*>{&dq, &dk, &dv};
  }
  /// The numbers of piece 0, 1 or 2, cut out of all.
  std::vector<double> cut(const std::vector<double>& first, const std::vector<double>& other, int which) const {
    if (!of.joint) return which == 0 ? first : other;
    std::vector<double> piece;
    for (size_t i = 0; i < first.size(); ++i) {
      const size_t w = static_cast<size_t>(width);
      if (i / w % 3 == static_cast<size_t>(which)) piece.push_back(first[i]);
    }
    return piece;
  }

  const RngCoordinates draws{7, rng_stream::dropout, 3, 1, 2};
  FlashCase of;
  int64_t tokens, width, queries, pieces;
  Pair q, k, v, dy, offsets, visible, out, log_totals, dq, dk, dv;

 private:
  static int64_t total(const std::vector<int64_t>& lengths) {
    int64_t sum = 0;
    for (const int64_t length : lengths) sum += length;
    return sum;
  }
  static Tensor offset_tensor(const std::vector<int64_t>& lengths) {
    std::vector<int64_t> offsets{0};
    for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
    return from_ints(offsets, {static_cast<int64_t>(offsets.size())});
  }
  static Tensor mask_of(const FlashCase& batch) {
    std::vector<bool> seen;
    for (size_t s = 0; s < batch.lengths.size(); ++s) {
      const bool last = s + 1 == batch.lengths.size();
      for (int64_t j = 0; j < batch.lengths[s]; ++j) {
        seen.push_back(!last && j % 5 != 3 && j <= batch.lengths[s] - static_cast<int64_t>(s) * 8);
      }
    }
    return from_bools(seen, {static_cast<int64_t>(seen.size())});
  }
};

/// Attention and its gradients in double.
class FlashOracle {
 public:
  explicit FlashOracle(const FlashBatch& batch)
      : y(size(batch.queries, batch.width)),
        log_totals(size(batch.of.heads, batch.queries)),
        dq(size(batch.queries, batch.width)),
        dk(size(batch.tokens, batch.width)),
        dv(size(batch.tokens, batch.width)),
        b_(batch),
        q_(batch.cut(batch.q.host_values(), {}, 0)),
        k_(batch.cut(batch.q.host_values(), batch.k.host_values(), 1)),
        v_(batch.cut(batch.q.host_values(), batch.v.host_values(), 2)),
        dy_(batch.dy.host_values()),
        seen_(batch.visible.host_values()) {
    size_t begin = 0;
    for (size_t s = 0; s < batch.of.lengths.size(); ++s) {
      const size_t length = static_cast<size_t>(batch.of.lengths[s]);
      for (size_t h = 0; h < static_cast<size_t>(batch.of.heads); ++h) {
        for (size_t i = 0; i < (batch.of.one_query ? 1 : length); ++i) {
          row(s, h, i, begin, length, batch.of.one_query ? s : begin + i);
        }
      }
      begin += length;
    }
  }
  Exact y, log_totals, dq, dk, dv;
  double score = 0;  // the largest sum of magnitudes of one

 private:
  static size_t size(int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); }

  // Scores, masks and the slopes of the weights of one query, whose numbers begin at `at` and whose keys at row
  // `begin`.
  double look(size_t s, size_t h, size_t i, size_t begin, size_t length, size_t at) {
    const size_t d = static_cast<size_t>(b_.of.columns), all = static_cast<size_t>(b_.longest());
    weight_.assign(length, 0), kept_.assign(length, 0), change_.assign(length, 0), change_size_.assign(length, 0);
    double largest = -INFINITY;
    for (size_t j = 0; j < length; ++j) {
      const size_t key = (begin + j) * static_cast<size_t>(b_.width) + h * d;
      double score_size = 0;
      for (size_t c = 0; c < d; ++c) {
        weight_[j] += q_[at + c] * k_[key + c] * b_.scale();
        score_size += std::abs(q_[at + c] * k_[key + c]) * b_.scale();
        change_[j] += dy_[at + c] * v_[key + c];
        change_size_[j] += std::abs(dy_[at + c] * v_[key + c]);
      }
      if (b_.of.masked && seen_[begin + j] == 0) weight_[j] = -INFINITY;
      largest = std::max(largest, weight_[j]);
      score = std::max(score, score_size);
      const size_t element = ((s * static_cast<size_t>(b_.of.heads) + h) * all + i) * all + j;
      const bool keep = static_cast<double>(random16(b_.draws, element)) >= std::nearbyint(b_.of.p * 65536.0);
      kept_[j] = keep && b_.of.p < 1 ? 1 / (1 - b_.of.p) : 0;
    }
    return largest;
  }

  void row(size_t s, size_t h, size_t i, size_t begin, size_t length, size_t query) {
    const size_t width = static_cast<size_t>(b_.width), d = static_cast<size_t>(b_.of.columns),
                 at = query * width + h * d;
    const double largest = look(s, h, i, begin, length, at);
    double total = 0, mean = 0, mean_size = 0;
    for (double& w : weight_) total += w = largest == -INFINITY ? 0 : std::exp(w - largest);
    for (double& w : weight_) w = total > 0 ? w / total : 0;
    log_totals.add(h * static_cast<size_t>(b_.queries) + query, total > 0 ? largest + std::log(total) : -INFINITY, 1);
    for (size_t j = 0; j < length; ++j) {
      mean += weight_[j] * kept_[j] * change_[j];
      mean_size += weight_[j] * kept_[j] * change_size_[j];
    }
    for (size_t j = 0; j < length; ++j) {
      const double w = weight_[j] * kept_[j], slope = b_.scale() * weight_[j] * (kept_[j] * change_[j] - mean);
      const double slope_size = b_.scale() * weight_[j] * (kept_[j] * change_size_[j] + mean_size);
      for (size_t c = 0; c < d; ++c) {
        const size_t one = at + c, other = (begin + j) * width + h * d + c;
        y.add(one, w * v_[other], w * std::abs(v_[other]));
        dv.add(other, w * dy_[one], w * std::abs(dy_[one]));
        dq.add(one, slope * k_[other], slope_size * std::abs(k_[other]));
        dk.add(other, slope * q_[one], slope_size * std::abs(q_[one]));
      }
    }
  }

  const FlashBatch& b_;
  std::vector<double> q_, k_, v_, dy_, seen_;
  std::vector<double> weight_, kept_, change_, change_size_;  // of one query
};

}  // namespace mixtape::simt_tests
