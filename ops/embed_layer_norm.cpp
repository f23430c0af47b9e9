#include <algorithm>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/gather.h"
#include "ops/embed_layer_norm.h"
#include "ops/ops.h"
#include "ops/table_gradient.h"

namespace mixtape::ops {
namespace {

using kernels::as_rows;
using kernels::picked_rows;
using kernels::random_rows;
using kernels::sum_rows_into;
using kernels::write;

struct EmbedLayerNorm {
  double p = 0.0;
  double eps = 1e-12;
  RngCoordinates at = {};

  static constexpr OpInfo info{
      .name = "embed_layer_norm",
      .precision = Rule::low_out,  // as embedding: whole tables are not cast; f32 up to the one rounding of y
      .inputs = {Input{.name = "words", .role = Role::parameter, .wide_grad = true},
                 Input{.name = "types", .role = Role::parameter, .wide_grad = true},
                 Input{.name = "positions", .role = Role::parameter, .wide_grad = true}, Input{"word_ids", Role::index},
                 Input{"type_ids", Role::index}, Input{"position_ids", Role::index}, Input{"gamma", Role::parameter},
                 Input{"beta", Role::parameter}, Input{.name = "places", .role = Role::index, .optional = true}},
      .saves = saves_inputs(0, 1, 2, 3, 4, 5, 6, 8),  // no rows: the tables are there anyway
      .absorbs = "embedding add layer_norm dropout",
      .wide_dy = true,
      .doc =
          "dropout(layer_norm(words + types + positions)) of rows looked up in three tables, in one pass each way; "
          "saves mean and rstd in f32 and looks the rows up again; gradients of tables as those of embedding"};

  Metas infer(const Infer& in) const {
    if (!(p >= 0.0 && p <= 1.0)) in.fail(message("p = ", p, " is not in [0, 1]"));
    in.expect(in.shape(0).rank() == 2, 0, "[V, n]");
    const int64_t n = in.shape(0)[1];
    for (const int i : {1, 2}) {
      in.expect(in.shape(i).rank() == 2 && in.shape(i)[1] == n, i,
                message("[V, ", n, "], rows as long as those of words"));
    }
    const Shape rows = in.shape(3);
    for (const int i : {4, 5}) {
      in.expect(in.broadcast(3, i) == rows, i, message(rows.str(), " or what broadcasts to it: one for each word"));
    }
    if (in.has(8)) in.expect(in.shape(8) == rows, 8, rows.str() + ", a row number for each word");
    Shape out = rows;
    out.push_back(n);
    return normalized_metas(in, out, 6);
  }

  void forward(const Views& in, const Views& out) const {
    for (const int i : {0, 1, 2}) {
      kernels::check_indices(in[3 + i], in[i].shape[0], message(info.name, ": ", info.inputs[3 + i].name));
    }
    const auto rows_of_table = [&](int i) { return picked_rows(in[i], as_column(in[3 + i])); };
    kernels::rows(NormalizeThreeRows{{}, {eps}, DropoutFormula(p)}, out[0].shape, write(out[0]), write(out[1]),
                  write(out[2]), rows_of_table(0), rows_of_table(1), rows_of_table(2), in[6], in[7], draws(in[8]));
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor gamma = g.in(6), mean = g.extra(0), rstd = g.extra(1), places = g.has(8) ? g.in(8) : Tensor();
    const Shape shape = g.dy().shape();
    const auto gradient_of = [&](int i) { return empty(g.meta(i).shape, wide(g.meta(i).dtype), mean.device()); };
    const auto rows_of_table = [&](int i) { return picked_rows(g.in(i).view(), as_column(g.in(3 + i).view())); };
    const Tensor dz = empty(shape, mean.dtype(), mean.device()), dgamma = gradient_of(6), dbeta = gradient_of(7);
    kernels::rows(NormalizeThreeRowsGrad{{}, DropoutFormula(p)}, shape, write(dz.view()), write(View{}),
                  sum_rows_into(dgamma.view()), sum_rows_into(dbeta.view()), g.dy().view(), rows_of_table(0),
                  rows_of_table(1), rows_of_table(2), mean.view(), rstd.view(), gamma.view(),
                  draws(places ? places.view() : View{}));
    Tensors all(9);
    for (const int i : {0, 1, 2}) {
      if (!g.needs_grad(i)) continue;
      const Tensor ids = g.in(3 + i);
      all[i] = table_gradient(g, i, ids.view().broadcast_to(g.meta(3).shape), as_rows(dz.view()));
    }
    if (g.needs_grad(6)) all[6] = dgamma;
    if (g.needs_grad(7)) all[7] = dbeta;
    return all;
  }

  static Samples<EmbedLayerNorm> samples() {
    std::vector<double> many(150);  // more rows than are summed together
    for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i * i % 5);
    const Arg ids = padded(3)[3], one = indices({}, {0});
    Samples<EmbedLayerNorm> all = {
        {{0.0, 1e-5, drawn}, padded(8)},
        {{0.3, 1e-5, drawn}, padded(7)},
        {{0.2, 1e-5, drawn}, args(sizes, 3, ids, indices({1}, {1}), indices({2, 1}, {3, 1}))},
        {{0.5, 1e-5, drawn},  // packed
         args(sizes, 9, indices({3}, {1, 1, 3}), indices({3}, {0, 1, 1}), indices({3}, {0, 1, 0}),
              indices({3}, {4, 0, 11}))},
        {{0.1, 1e-12, drawn}, padded(130)},
        {{0.1, 1e-5, drawn}, args(sizes, 3, indices({150}, many), indices({1}, {0}), indices({1}, {2}))},
        {{0.1, 1e-5, drawn}, args({1, 1, 1}, 600, one, one, one)},
        {{1.0, 1e-5, drawn}, padded(5)},
        {{0.2, 1e-5, drawn}, args(sizes, 4, indices({2, 0}, {}), indices({2, 0}, {}), indices({1}, {0}))}};
    for (Sample<EmbedLayerNorm>& bad : bad_samples()) all.push_back(std::move(bad));
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    const size_t n = static_cast<size_t>(in[0].shape[1]);
    Array y{in[3].shape, std::vector<double>(in[3].values.size() * n)};
    y.shape.push_back(in[0].shape[1]);
    for (const size_t table : {0u, 1u, 2u}) {
      const Array& ids = in[3 + table];
      const Strides steps = broadcast_strides(ids.shape, contiguous_strides(ids.shape), in[3].shape);
      for (size_t row = 0; row < in[3].values.size(); ++row) {
        int64_t place = 0, rest = static_cast<int64_t>(row);
        for (int axis = steps.rank() - 1; axis >= 0; --axis) {
          place += rest % in[3].shape[axis] * steps[axis];
          rest /= in[3].shape[axis];
        }
        const size_t id = static_cast<size_t>(ids.values[static_cast<size_t>(place)]);
        for (size_t i = 0; i < n; ++i) y.values[row * n + i] += in[table].values[id * n + i];
      }
    }
    for (size_t row = 0; row < in[3].values.size(); ++row) {
      double* z = y.values.data() + row * n;
      const size_t place = in[8].values.empty() ? row : static_cast<size_t>(in[8].values[row]);
      normalize_exactly(z, in[6], in[7], eps);
      for (size_t i = 0; i < n; ++i) z[i] = drop_exactly(z[i], p, at, place * n + i);
    }
    return {y};
  }

 private:
  /// Nothing for p = 0: then nothing is drawn.
  kernels::Operand draws(const View& places) const {
    return p == 0.0 ? kernels::Operand(View{}) : random_rows(at, as_column(places));
  }

  static constexpr RngCoordinates drawn{7, rng_stream::dropout, 3, 1, 2};
  static inline const Shape sizes{5, 2, 4};  // rows of the tables
  static std::vector<Arg> args(const Shape& tables, int64_t n, Arg words, Arg types, Arg positions,
                               Arg places = absent()) {
    std::vector<Arg> all;
    for (const int64_t rows : tables) all.push_back(arg({rows, n}));
    for (Arg* index : {&words, &types, &positions}) all.push_back(std::move(*index));
    for (int i = 0; i < 2; ++i) all.push_back(arg({n}));
    all.push_back(std::move(places));
    return all;
  }
  static std::vector<Arg> padded(int64_t n) {  // the positions broadcast
    return args(sizes, n, indices({2, 3}, {4, 0, 2, 2, 4, 4}), indices({2, 3}, {0, 0, 1, 0, 1, 1}),
                indices({3}, {0, 1, 3}));
  }
  static Samples<EmbedLayerNorm> bad_samples() {
    const auto with = [](int input, Arg bad) {
      std::vector<Arg> all = padded(4);
      all[static_cast<size_t>(input)] = std::move(bad);
      return all;
    };
    const EmbedLayerNorm op{0.5, 1e-5, drawn};
    return {
        {{1.5, 1e-5, drawn}, padded(4), "p = 1.5 is not in [0, 1]"},
        {op, with(0, arg({5})), "input 'words' has shape [5], expected [V, n]"},
        {op, with(1, arg({2, 5})), "input 'types' has shape [2, 5], expected [V, 4]"},
        {op, with(2, arg({4})), "input 'positions' has shape [4], expected [V, 4]"},
        {op, with(4, indices({2}, {0, 0})), "'word_ids' and 'type_ids' do not broadcast"},
        {op, with(5, indices({2, 1, 3}, {0, 1, 2, 0, 1, 2})), "[2, 1, 3], expected [2, 3] or what broadcasts to it"},
        {op, with(6, arg({3})), "input 'gamma' has shape [3], expected [4]"},
        {op, with(8, indices({1}, {0})), "'places' has shape [1], expected [2, 3]"},
        {op, with(3, indices({2, 3}, {0, 1, 2, 3, 5, 0})), "word_ids: index 5 at [1, 1] is outside [0, 5)"},
        {op, with(4, indices({2, 3}, {0, 1, 2, 0, 1, 0})), "type_ids: index 2 at [0, 2] is outside [0, 2)"},
        {op, with(5, indices({3}, {0, -1, 2})), "position_ids: index -1 at [1] is outside [0, 4)"}};
  }
};
const Register<EmbedLayerNorm> embed_layer_norm_row;

}  // namespace

Tensor embed_layer_norm(const Lookup& words, const Lookup& types, const Lookup& positions, const Tensor& gamma,
                        const Tensor& beta, double p, double eps, const Tensor& places) {
  // add promotes where the dtypes differ and layer_norm refuses, one pass would do neither.
  const auto is_wide = [&](const Tensor& t) { return t.dtype() == wide(words.table.dtype()); };
  if (!autograd::may_fuse<EmbedLayerNorm>() || !is_wide(words.table) || !is_wide(types.table) ||
      !is_wide(positions.table) || !is_wide(gamma) || !is_wide(beta)) {
    const Tensor typed = add(embedding(words.table, words.index), embedding(types.table, types.index));
    const Tensor placed = add(typed, embedding(positions.table, positions.index));
    return dropout(layer_norm(placed, gamma, beta, eps), p, places);
  }
  return autograd::apply(EmbedLayerNorm{p, eps, next_draw()}, {words.table, types.table, positions.table, words.index,
                                                               types.index, positions.index, gamma, beta, places})[0];
}

}  // namespace mixtape::ops
