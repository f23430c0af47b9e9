#include <cmath>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/attention_blocks.h"
#include "ops/dropout.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

int64_t offset_at(const View& offsets, int64_t s) { return offsets.as<int64_t>()[s * offsets.strides[0]]; }

/// Throws unless the offsets cut `tokens` into sequences of 1 to `longest`.
void check_offsets(const View& offsets, int64_t tokens, int64_t longest) {
  const auto refuse = [](const std::string& what) {
    fail(ErrorKind::internal, "E-INDEX", "attention: offsets " + what);
  };
  const int64_t last = offsets.shape[0] - 1;
  if (offset_at(offsets, 0) != 0 || offset_at(offsets, last) != tokens) {
    refuse(message("run from ", offset_at(offsets, 0), " to ", offset_at(offsets, last), ", expected 0 to ", tokens));
  }
  for (int64_t s = 0; s < last; ++s) {
    const int64_t length = offset_at(offsets, s + 1) - offset_at(offsets, s);
    if (length < 1 || length > longest) {
      refuse(message("give sequence ", s, " a length of ", length, ", expected 1 to ", longest));
    }
  }
}

struct Attention {
  int64_t heads = 1;
  int64_t longest = 0;
  double p = 0.0;
  RngCoordinates at = {};

  static constexpr OpInfo info{
      .name = "attention",
      .precision = Rule::low,  // two matrix products: where 16 bits pay; scores and weights never leave f32
      .inputs = {Input{"q"}, Input{"k"}, Input{"v"}, Input{"offsets", Role::index},
                 Input{.name = "visible", .role = Role::mask, .optional = true}},
      .saves = saves_inputs(0, 1, 2, 3, 4),
      .absorbs = "batched_matmul masked_softmax dropout",
      .doc =
          "dropout(softmax(q·kᵀ/√d))·v within each sequence and head, in blocks: no [seq, seq] is stored, backward "
          "computes the weights again (Dao et al., 2022)"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(1).rank() == 2, 1, "[tokens, width]");
    const int64_t tokens = in.shape(1)[0], width = in.shape(1)[1];
    if (heads < 1 || width % heads != 0) in.fail(message("a width of ", width, " is not cut into ", heads, " heads"));
    if (!(p >= 0.0 && p <= 1.0)) in.fail(message("p = ", p, " is not in [0, 1]"));
    in.expect(in.shape(2) == in.shape(1), 2, in.shape(1).str() + ", that of k");
    in.expect(in.shape(3).rank() == 1 && in.shape(3)[0] >= 1, 3, "[sequences + 1]");
    const int64_t sequences = in.shape(3)[0] - 1;
    in.expect(in.shape(0) == in.shape(1) || in.shape(0) == Shape{sequences, width}, 0,
              message(in.shape(1).str(), ", that of k, or ", Shape{sequences, width}.str(), ", one query a sequence"));
    if (in.has(4)) in.expect(in.shape(4) == Shape{tokens}, 4, message("[", tokens, "], the tokens of k"));
    return {{.shape = in.shape(0), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    if (in[3].device.is_cpu()) check_offsets(in[3], in[1].shape[0], longest);  // else the host would have to wait
    attend(blocks(in[3], in[1], in[4]), in[0], in[1], in[2], out[0]);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor q = g.in(0), k = g.in(1), v = g.in(2), offsets = g.in(3), visible = g.has(4) ? g.in(4) : Tensor();
    Tensors out = gradients_of(q, k, v);
    attend_backward(blocks(offsets.view(), k.view(), visible ? visible.view() : View{}), g.dy().view(), q.view(),
                    k.view(), v.view(), out[0].view(), out[1].view(), out[2].view());
    for (int i = 0; i < 3; ++i) {
      if (!g.needs_grad(i)) out[i] = Tensor();
    }
    out.push_back({});
    out.push_back({});
    return out;
  }

  static Samples<Attention> samples() {
    const RngCoordinates at{7, rng_stream::dropout, 3, 1, 2};
    const Arg three = indices({4}, {0, 2, 7, 8});
    return {
        {{1, 3}, {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 3}), absent()}},
        {{2, 5}, {arg({8, 6}), arg({8, 6}), arg({8, 6}), three, absent()}},
        {{2, 9, 0.3, at}, {arg({8, 6}), arg({8, 6}), arg({8, 6}), three, absent()}},
        {{2, 5, 0.3, at}, {arg({3, 6}), arg({8, 6}), arg({8, 6}), three, absent()}},  // one query a sequence
        {{3, 4, 0.5, at},  // the second sequence sees nothing
         {arg({8, 3}), arg({8, 3}), arg({8, 3}), indices({3}, {0, 4, 8}), mask({8}, {1, 0, 1, 1, 0, 0, 0, 0})}},
        {{1, 4, 0.0, at},
         {arg({2, 2}), arg({8, 2}), arg({8, 2}), indices({3}, {0, 4, 8}), mask({8}, {1, 1, 0, 0, 1, 1, 1, 1})}},
        {{1, 150, 0.1, at}, {arg({150, 5}), arg({150, 5}), arg({150, 5}), indices({2}, {0, 150}), absent()}},
        {{2, 4, 1.0, at}, {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 3}), absent()}},
        {{2, 4, 0.0, at}, {arg({0, 4}), arg({0, 4}), arg({0, 4}), indices({1}, {0}), absent()}},
        {{3, 3}, {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 3}), absent()}, "is not cut into 3 heads"},
        {{1, 3}, {arg({3, 4}), arg({3, 4}), arg({3, 5}), indices({2}, {0, 3}), absent()}, "expected [3, 4], that of k"},
        {{1, 3},
         {arg({2, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 3}), absent()},
         "or [1, 4], one query a sequence"},
        {{1, 3},
         {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 2}), absent()},
         "offsets run from 0 to 2, expected 0 to 3"},
        {{1, 2},
         {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 3}), absent()},
         "sequence 0 a length of 3, expected 1 to 2"},
        {{1, 3},
         {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({3}, {0, 0, 3}), absent()},
         "sequence 0 a length of 0, expected 1 to 3"},
        {{1, 3},
         {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 3}), mask({2}, {1, 1})},
         "expected [3], the tokens of k"},
        {{1, 3, -0.5},
         {arg({3, 4}), arg({3, 4}), arg({3, 4}), indices({2}, {0, 3}), absent()},
         "p = -0.5 is not in [0, 1]"}};
  }

  Arrays oracle(const Arrays& in) const {
    const size_t width = static_cast<size_t>(in[1].shape[1]), d = width / static_cast<size_t>(heads);
    const size_t all = static_cast<size_t>(longest);
    Array y{in[0].shape, std::vector<double>(in[0].values.size())};
    const bool first = !(in[0].shape == in[1].shape);
    for (size_t s = 0; s + 1 < in[3].values.size(); ++s) {
      const size_t begin = static_cast<size_t>(in[3].values[s]), end = static_cast<size_t>(in[3].values[s + 1]);
      for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
        for (size_t i = 0; i < (first ? 1 : end - begin); ++i) {
          const size_t query = (first ? s : begin + i) * width + h * d;
          std::vector<long double> odds(end - begin);
          long double total = 0;
          for (size_t j = 0; j < odds.size(); ++j) {
            if (in.size() > 4 && !in[4].values.empty() && in[4].values[begin + j] == 0) continue;
            long double score = 0;
            for (size_t c = 0; c < d; ++c)
              score += in[0].values[query + c] * in[1].values[(begin + j) * width + h * d + c];
            total += odds[j] = std::exp(score / std::sqrt(static_cast<long double>(d)));
          }
          for (size_t j = 0; j < odds.size() && total > 0; ++j) {
            const size_t element = ((s * static_cast<size_t>(heads) + h) * all + i) * all + j;
            if (static_cast<double>(random16(at, element)) < std::nearbyint(p * 65536.0)) continue;
            const double weight = static_cast<double>(odds[j] / total) / (p < 1 ? 1 - p : 1);
            for (size_t c = 0; c < d; ++c)
              y.values[query + c] += weight * in[2].values[(begin + j) * width + h * d + c];
          }
        }
      }
    }
    return {y};
  }

 private:
  /// Room for the gradients: side by side in one tensor where q, k and v, or k and v, are, so that it is the gradient
  /// of what they were cut from.
  static Tensors gradients_of(const Tensor& q, const Tensor& k, const Tensor& v) {
    const auto room = [&](int64_t pieces) {
      const Tensor all = empty({k.size(0), pieces * k.size(1)}, k.dtype(), k.device());
      return chunk(all, pieces, 1);
    };
    if (!k.storage().same_as(v.storage())) return {empty_like(q), empty_like(k), empty_like(v)};
    if (q.storage().same_as(k.storage()) && q.shape() == k.shape()) return room(3);
    const Tensors kv = room(2);
    return {empty_like(q), kv[0], kv[1]};
  }

  AttentionBlocks blocks(const View& offsets, const View& k, const View& visible) const {
    const double head = static_cast<double>(k.shape[1] / heads);
    return {heads, 1.0 / std::sqrt(head), p, at, longest, offsets, visible};
  }
};
const Register<Attention> attention_row;

// The twin's layout: every sequence padded to the longest.
struct Padded {
  std::vector<int64_t>
      from;  // for each place of [sequences, longest] the row that stands there, some row of it if none
  std::vector<bool> visible;    // whether one does, and is seen
  std::vector<int64_t> places;  // for each row its place
};
Padded padded(const Sequences& s) {
  Padded out;
  const std::vector<double> offsets = to_vector(s.offsets), seen = s.visible ? to_vector(s.visible) : offsets;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    const int64_t begin = static_cast<int64_t>(offsets[i]), end = static_cast<int64_t>(offsets[i + 1]);
    for (int64_t j = 0; j < s.longest; ++j) {
      const bool there = begin + j < end;
      if (there) out.places.push_back(static_cast<int64_t>(out.from.size()));
      out.from.push_back(there ? begin + j : begin);
      out.visible.push_back(there && (!s.visible || seen[static_cast<size_t>(begin + j)] != 0));
    }
  }
  return out;
}

// batched_matmul, masked_softmax and dropout over [sequences, heads, longest, longest].
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& s, int64_t heads,
                          double p) {
  const int64_t count = s.offsets.size(0) - 1, width = k.size(1), rows = count * s.longest;
  const bool first = !(q.shape() == k.shape()), whole = k.size(0) == rows;
  const Padded layout = whole && !first ? Padded{} : padded(s);
  const Tensor from = layout.from.empty() ? Tensor() : from_ints(layout.from, {rows});
  Tensor starts, spread;  // of each sequence its first place; for each place its sequence
  if (first) {
    std::vector<int64_t> start, sequence;
    for (int64_t i = 0; i < rows; ++i) sequence.push_back(i / s.longest);
    for (int64_t i = 0; i < count; ++i) start.push_back(i * s.longest);
    starts = from_ints(start, {count});
    spread = from_ints(sequence, {rows});
  }
  const auto heads_of = [&](const Tensor& x, const Tensor& index, const Dims& order) {
    const Tensor all = index ? index_select(x, 0, index) : x;
    return permute(reshape(all, {count, s.longest, heads, width / heads}), order);
  };
  const Tensor queries = heads_of(q, first ? spread : whole ? Tensor() : from, {0, 2, 1, 3});
  const Tensor keys = heads_of(k, whole ? Tensor() : from, {0, 2, 3, 1});
  const Tensor values = heads_of(v, whole ? Tensor() : from, {0, 2, 1, 3});
  const Tensor scores = batched_matmul(queries, keys, 1.0 / std::sqrt(static_cast<double>(width / heads)));
  // Always the row that the fused one absorbs, also where everything is visible: a policy names that one.
  const Tensor seen = !whole      ? from_bools(layout.visible, {rows})
                      : s.visible ? s.visible
                                  : from_bools(std::vector<bool>(static_cast<size_t>(rows), true), {rows});
  const Tensor weights = masked_softmax(scores, reshape(seen, {count, 1, 1, s.longest}));
  const Tensor context = batched_matmul(dropout(weights, p), values);
  const Tensor all = reshape(permute(context, {0, 2, 1, 3}), {rows, width});
  if (first) return index_select(all, 0, starts);
  return whole ? all : index_select(all, 0, from_ints(layout.places, {k.size(0)}));
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& s, int64_t heads, double p) {
  if (!autograd::may_fuse<Attention>()) return composed_attention(q, k, v, s, heads, p);
  return autograd::apply(Attention{heads, s.longest, p, next_draw()}, {q, k, v, s.offsets, s.visible})[0];
}

}  // namespace mixtape::ops
