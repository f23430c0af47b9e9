#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/gather.h"
#include "ops/matrix.h"
#include "ops/ops.h"
#include "ops/table_gradient.h"

namespace mixtape::ops {
namespace {

struct Embedding {
  std::optional<int64_t> padding_idx = {};  // this row of the table gets no gradient

  static constexpr OpInfo info{
      .name = "embedding",
      .precision = Rule::low_out,  // casting the whole table for a few rows would cost more than the gather
      .inputs = {Input{.name = "table", .role = Role::parameter, .wide_grad = true}, Input{"ids", Role::index}},
      .saves = saves_inputs(1),
      .wide_dy = true,
      .doc = "rows of a table [V, H] by their ids; the gradient of a row is summed in f32 in the order of the ids"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(0).rank() == 2, 0, "[V, H]");
    const int64_t rows = in.shape(0)[0];
    if (padding_idx && (*padding_idx < 0 || *padding_idx >= rows)) {
      in.fail(message("padding_idx ", *padding_idx, " is outside [0, ", rows, ")"));
    }
    Shape out = in.shape(1);
    out.push_back(in.shape(0)[1]);
    return {{.shape = out, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    kernels::check_indices(in[1], in[0].shape[0], info.name);
    kernels::gather_rows(in[0], in[1], kernels::as_rows(out[0]));
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor ids = g.in(1), dy = packed_rows(g.dy());
    return {table_gradient(g, 0, ids.view(), kernels::as_rows(dy.view()), padding_idx.value_or(-1)), {}};
  }

  static Samples<Embedding> samples() {
    Arg padded = arg({3, 7});
    padded.perturb = false;  // the gradient of row 1 is 0 by decree, not by calculus
    return {{{}, {arg({5, 3}), indices({4}, {0, 4, 2, 2})}},
            {{}, {arg({4, 129}), indices({2, 3}, {3, 3, 1, 3, 0, 3})}},
            {{1}, {padded, indices({5}, {1, 0, 1, 2, 0})}},
            {{}, {arg({3, 1}), indices({}, {2})}},
            {{}, {arg({3, 4}), indices({2, 0}, {})}},
            {{}, {arg({3, 0}), indices({2}, {0, 1})}},
            {{}, {arg({1, 131}), indices({2, 1, 2}, {0, 0, 0, 0})}},
            {{}, {arg({5, 3}), indices({2, 2}, {0, 4, 1, 5})}, "index 5 at [1, 1] is outside [0, 5)"},
            {{}, {arg({5, 3}), indices({2}, {-1, 5})}, "index -1 at [0] is outside [0, 5)"},
            {{5}, {arg({5, 3}), indices({1}, {0})}, "padding_idx 5 is outside [0, 5)"},
            {{}, {arg({5}), indices({1}, {0})}, "input 'table' has shape [5], expected [V, H]"},
            {{}, {arg({5, 3}), arg({1})}, "'ids' is an index and must be i64, got f32"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y{in[1].shape, {}};
    y.shape.push_back(in[0].shape[1]);
    for (double id : in[1].values) {
      const auto row = in[0].values.begin() + static_cast<std::ptrdiff_t>(id) * in[0].shape[1];
      y.values.insert(y.values.end(), row, row + in[0].shape[1]);
    }
    return {y};
  }
};
const Register<Embedding> embedding_row;

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& ids, std::optional<int64_t> padding_idx) {
  return autograd::apply(Embedding{padding_idx}, {table, ids})[0];
}

}  // namespace mixtape::ops
