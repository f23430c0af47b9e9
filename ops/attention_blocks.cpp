#include "ops/attention_blocks.h"

#include <algorithm>

#include "core/factory.h"
#include "core/kernels/blocks.h"
#include "core/kernels/gemm_engine.h"
#include "core/kernels/layout.h"
#include "core/kernels/loops.h"
#include "core/kernels/parallel.h"
#include "core/kernels/random.h"
#include "ops/dropout.h"
#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

constexpr int64_t block_scores = 16 * 1024;  // with their copies and slopes they fit into a second-level cache

/// How many queries are looked at together when there are so many keys.
int64_t queries_at_once(int64_t keys) { return std::clamp<int64_t>(block_scores / std::max<int64_t>(keys, 1), 8, 128); }

template <class M>
struct Matrix {
  M* data;
  int64_t stride;  // from row to row
  Matrix from(int64_t row) const { return {data + row * stride, stride}; }
};

template <class M>
struct Factor {
  Matrix<M> matrix;
  bool transposed = false;
  Factor(const Matrix<M>& m, bool flip = false) : matrix(m), transposed(flip) {}
};

// c = alpha·a·b (+ c) by this thread alone: the heads are shared among the threads already.
template <class M>
void multiply(const int64_t (&mnk)[3], const Factor<M>& a, const Factor<M>& b, const Matrix<M>& c, double alpha = 1,
              bool add = false) {
  kernels::engine::multiply(kernels::engine::Product<M>{
      mnk[0], mnk[1], mnk[2], a.matrix.data, a.matrix.stride, a.transposed, b.matrix.data, b.matrix.stride,
      b.transposed, c.data, c.stride, static_cast<M>(alpha), static_cast<M>(add ? 1 : 0)});
}

/// One head of one sequence.
struct Head {
  int64_t sequence, number;
  int64_t token, tokens;  // of keys and values: the first, and how many
  int64_t query, queries;
};

// What a range of heads works with: room for one, taken once.
template <class M>
class Worker {
 public:
  Worker(const AttentionBlocks& all, int64_t width)
      : all_(all), columns_(width / all.heads), keep_(all.p), draws_(static_cast<size_t>(all.longest)) {
    const int64_t keys = all.longest, matrix = keys * columns_;
    const int64_t scores = std::max(block_scores, queries_at_once(keys) * keys);
    int64_t place = 0;
    for (auto [room, size] : {std::pair(&q_, matrix),
                              {&k_, matrix},
                              {&v_, matrix},
                              {&y_, matrix},
                              {&dq_, matrix},
                              {&dk_, matrix},
                              {&dv_, matrix},
                              {&weights_, scores},
                              {&slopes_, scores},
                              {&dropped_, scores},
                              {&seen_, keys}}) {
      *room = place;
      place += (size + 15) / 16 * 16;
    }
    room_ = empty({place}, dtype_of<M>);
  }

  void forward(const Head& h, const View& q_all, const View& k_all, const View& v_all, const View& out_all) {
    const View out = queries_of(h, out_all);
    const Matrix<M> q = load(queries_of(h, q_all), q_), k = load(tokens_of(h, k_all), k_);
    const Matrix<M> v = load(tokens_of(h, v_all), v_), y = target(out, y_);
    look(h);
    for_blocks(h, [&](int64_t first, int64_t rows) {
      const Matrix<M> weights = probabilities(h, rows, q.from(first), k);
      drop(h, first, rows, weights);
      multiply<M>({rows, columns_, h.tokens}, weights, v, y.from(first));
    });
    store(y, out);
  }

  void backward(const Head& h, const View& dy_all, const View& q_all, const View& k_all, const View& v_all,
                const View& dq_all, const View& dk_all, const View& dv_all) {
    const View dq_out = queries_of(h, dq_all), dk_out = tokens_of(h, dk_all), dv_out = tokens_of(h, dv_all);
    const Matrix<M> dy = load(queries_of(h, dy_all), y_), q = load(queries_of(h, q_all), q_);
    const Matrix<M> k = load(tokens_of(h, k_all), k_), v = load(tokens_of(h, v_all), v_);
    const Matrix<M> dq = target(dq_out, dq_), dk = target(dk_out, dk_), dv = target(dv_out, dv_);
    look(h);
    for_blocks(h, [&](int64_t first, int64_t rows) {
      const Matrix<M> weights = probabilities(h, rows, q.from(first), k), slopes = matrix(slopes_, h.tokens);
      multiply<M>({rows, h.tokens, columns_}, dy.from(first), {v, true}, slopes);
      Matrix<M> kept = weights;
      if (all_.p > 0) {
        kept = matrix(dropped_, h.tokens);
        std::copy_n(weights.data, rows * h.tokens, kept.data);
        drop(h, first, rows, kept);
        drop(h, first, rows, slopes);
      }
      multiply<M>({h.tokens, columns_, rows}, {kept, true}, dy.from(first), dv, 1, first > 0);
      for (int64_t i = 0; i < rows; ++i) {  // slopes of the weights become those of the scores
        SoftmaxRowGrad{}(kernels::Lanes<M>{}, h.tokens, 0, slopes.from(i).data, slopes.from(i).data,
                         weights.from(i).data);
      }
      multiply<M>({rows, columns_, h.tokens}, slopes, k, dq.from(first), all_.scale);
      multiply<M>({h.tokens, columns_, rows}, {slopes, true}, q.from(first), dk, all_.scale, first > 0);
    });
    store(dq, dq_out);
    store(dk, dk_out);
    store(dv, dv_out);
  }

 private:
  M* place(int64_t offset) const { return room_.template data<M>() + offset; }
  Matrix<M> matrix(int64_t offset, int64_t columns) const { return {place(offset), columns}; }

  View tokens_of(const Head& h, const View& v) const { return part(v, h.token, h.tokens, h.number); }
  View queries_of(const Head& h, const View& v) const { return part(v, h.query, h.queries, h.number); }
  View part(const View& v, int64_t row, int64_t rows, int64_t head) const {
    return kernels::section(kernels::section(v, 0, row, rows), 1, head * columns_, columns_);
  }

  // In place where the tensor is of M already, else converted.
  static bool is_plain(const View& v) { return v.dtype == dtype_of<M> && v.strides[1] == 1; }
  Matrix<M> target(const View& v, int64_t offset) const {
    return is_plain(v) ? Matrix<M>{v.as<M>(), v.strides[0]} : matrix(offset, columns_);
  }
  Matrix<M> load(const View& v, int64_t offset) const {
    const Matrix<M> to = target(v, offset);
    if (is_plain(v)) return to;
    for (int64_t i = 0; i < v.shape[0]; ++i) {
      M* row = to.from(i).data;
      const M* found = kernels::load_any<M>(v, i * v.strides[0], v.strides[1], columns_, row);
      if (found != row) std::copy_n(found, columns_, row);
    }
    return to;
  }
  void store(const Matrix<M>& from, const View& v) const {
    if (is_plain(v)) return;
    for (int64_t i = 0; i < v.shape[0]; ++i) {
      kernels::store_any<M>(from.from(i).data, v, i * v.strides[0], v.strides[1], columns_);
    }
  }

  template <class Body>
  void for_blocks(const Head& h, const Body& body) const {
    const int64_t most = queries_at_once(h.tokens);
    for (int64_t first = 0; first < h.queries; first += most) body(first, std::min(most, h.queries - first));
  }

  /// Which keys the queries of this sequence see.
  void look(const Head& h) {
    masked_ = false;
    if (!all_.visible) return;
    M* seen = place(seen_);
    for (int64_t i = 0; i < h.tokens; ++i) {
      seen[i] = all_.visible.as<bool>()[(h.token + i) * all_.visible.strides[0]] ? M(1) : M(0);
      masked_ |= seen[i] == M(0);
    }
  }

  /// softmax(scale·q·kᵀ) of a block of queries, before dropout.
  Matrix<M> probabilities(const Head& h, int64_t rows, const Matrix<M>& q, const Matrix<M>& k) const {
    const Matrix<M> weights = matrix(weights_, h.tokens);
    multiply<M>({rows, h.tokens, columns_}, q, {k, true}, weights, all_.scale);
    for (int64_t i = 0; i < rows; ++i) normalize(weights.from(i).data, h.tokens);
    return weights;
  }
  void normalize(M* row, int64_t n) const {
    if (masked_)
      MaskedSoftmaxRow{}(kernels::Lanes<M>{}, n, 0, row, row, place(seen_));
    else
      SoftmaxRow{}(kernels::Lanes<M>{}, n, 0, row, row);
  }

  void drop(const Head& h, int64_t first, int64_t rows, const Matrix<M>& weights) {
    if (all_.p == 0) return;
    const kernels::Lanes<M> lanes;
    const int64_t before = (h.sequence * all_.heads + h.number) * all_.longest;  // rows of [.., longest, longest]
    for (int64_t i = 0; i < rows; ++i) {
      const uint64_t element = static_cast<uint64_t>((before + first + i) * all_.longest);
      kernels::random16_run(all_.at, element, h.tokens, draws_.data());
      M* row = weights.from(i).data;
      lanes.each(h.tokens, [&](int64_t j) { row[j] = keep_(row[j], static_cast<M>(draws_[static_cast<size_t>(j)])); });
    }
  }

  const AttentionBlocks& all_;
  int64_t columns_;  // of one head
  DropoutFormula keep_;
  std::vector<uint16_t> draws_;
  Tensor room_;
  int64_t q_, k_, v_, y_, dq_, dk_, dv_, weights_, slopes_, dropped_, seen_;  // places in it
  bool masked_ = false;
};

template <class M, class Body>
void for_heads(const AttentionBlocks& all, const View& q, const View& k, const Body& body) {
  const int64_t sequences = all.offsets.shape[0] - 1, width = k.shape[1];
  const bool all_queries = q.shape[0] == k.shape[0];
  kernels::PerRange<Worker<M>> workers(sequences * all.heads, all, width);
  kernels::parallel_for(sequences * all.heads, k.numel() * all.longest, [&](int64_t begin, int64_t end) {
    Worker<M>& worker = workers.take();
    for (int64_t item = begin; item < end; ++item) {
      const int64_t s = item / all.heads;
      const int64_t* offsets = all.offsets.as<int64_t>();
      const int64_t first = offsets[s * all.offsets.strides[0]], last = offsets[(s + 1) * all.offsets.strides[0]];
      body(worker, all_queries ? Head{s, item % all.heads, first, last - first, first, last - first}
                               : Head{s, item % all.heads, first, last - first, s, 1});
    }
  });
}

template <class M>
void attend_as(const AttentionBlocks& all, const View& q, const View& k, const View& v, const View& out) {
  for_heads<M>(all, q, k, [&](Worker<M>& worker, const Head& head) { worker.forward(head, q, k, v, out); });
}
template <class M>
void attend_backward_as(const AttentionBlocks& all, const View& dy, const View& q, const View& k, const View& v,
                        const View& dq, const View& dk, const View& dv) {
  for_heads<M>(all, q, k, [&](Worker<M>& worker, const Head& head) { worker.backward(head, dy, q, k, v, dq, dk, dv); });
}

}  // namespace

void attend(const AttentionBlocks& blocks, const View& q, const View& k, const View& v, const View& out) {
  if (q.dtype == DType::f64) return attend_as<double>(blocks, q, k, v, out);
  attend_as<float>(blocks, q, k, v, out);
}

void attend_backward(const AttentionBlocks& blocks, const View& dy, const View& q, const View& k, const View& v,
                     const View& dq, const View& dk, const View& dv) {
  if (q.dtype == DType::f64) return attend_backward_as<double>(blocks, dy, q, k, v, dq, dk, dv);
  attend_backward_as<float>(blocks, dy, q, k, v, dq, dk, dv);
}

}  // namespace mixtape::ops
