// The menu: every op as one line. Shapes stand behind; "…" is any number of leading axes, and shapes broadcast as in
// NumPy where two tensors meet. Precision rules are in ops/TABLE.md.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.h"

namespace mixtape::ops {

// elementwise
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor clamp(const Tensor& x, double low, double high);                   // either bound may be infinite
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);  // bool; a where it is true, else b
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);    // value where mask (bool) is true

// activations
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);       // erf form, as BERT
Tensor gelu_tanh(const Tensor& x);  // tanh approximation
Tensor silu(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);

// products
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});  // […, in], [out, in], [out] -> […, out]
Tensor matmul(const Tensor& a, const Tensor& b);                                // […, m, k], [k, n] -> […, m, n]
/// scale·a·b: [batch…, m, k], [batch…, k, n] -> [batch…, m, n]; the batch axes broadcast
Tensor batched_matmul(const Tensor& a, const Tensor& b, double scale = 1.0);

/// linear(x, weights[i], biases[i]) for each of up to three: […, in], [outᵢ, in], [outᵢ] -> […, outᵢ], which are views
/// of one tensor. One product for all where the weights, and the biases, lie end to end (zeros_end_to_end).
Tensors joint_linear(const Tensor& x, const Tensors& weights, const Tensors& biases);
/// linear(gelu(linear(x))): [.., in], [inner, in], [inner], [out, inner], [out] -> [.., out]
Tensor feed_forward(const Tensor& x, const Tensor& inner_weight, const Tensor& inner_bias, const Tensor& outer_weight,
                    const Tensor& outer_bias);

/// Sequences that lie end to end, as rows of one matrix.
struct Sequences {
  Tensor offsets;       ///< i64 [sequences + 1], from 0: sequence s is rows offsets[s] to offsets[s + 1]; none is empty
  int64_t longest = 0;  ///< what each is padded to, if only in thought: masks are drawn for [sequences, longest]
  Tensor visible = {};  ///< bool [rows]: which keys are seen; absent: all
};
/// dropout(softmax(q·kᵀ/√d), p)·v within each sequence and head: k, v [rows, heads·d]; q the same, or one row a
/// sequence, which is the query of its position 0. A query that sees nothing gives 0. Takes the next draw, as dropout
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences, int64_t heads,
                 double p = 0);

// rows
/// A table [V, n] and the rows of it that are read: i64, of any shape.
struct Lookup {
  Tensor table, index;
};
/// dropout(layer_norm(words + types + positions), p, places), of the rows that these look up: […, n], … being the shape
/// of words.index, to which the other two indices broadcast. One pass where the policy allows; takes the next draw, as
/// dropout
Tensor embed_layer_norm(const Lookup& words, const Lookup& types, const Lookup& positions, const Tensor& gamma,
                        const Tensor& beta, double p, double eps = 1e-12, const Tensor& places = {});
/// layer_norm(dropout(x, p, places) + residual): one pass where the policy allows; takes the next draw, as dropout
Tensor dropout_add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                              double p, double eps = 1e-12, const Tensor& places = {});
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-12);  // […, n], [n], [n]

// reductions: over one axis or, without it, over all; keepdim leaves the axis with size 1
Tensor sum(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
Tensor mean(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);
Tensor max(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false);  // the values
Tensor var(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false, double correction = 1);
Tensor norm(const Tensor& x, std::optional<int64_t> axis = {}, bool keepdim = false, double eps = 0);  // max(√Σx², eps)
Tensor logsumexp(const Tensor& x, int64_t axis = -1, bool keepdim = false);
Tensor cumsum(const Tensor& x, int64_t axis = -1, bool reverse = false);

// distributions along an axis; mask: bool, true = visible, broadcasts to x. A row without a visible place is all 0
Tensor softmax(const Tensor& x, int64_t axis = -1);
Tensor log_softmax(const Tensor& x, int64_t axis = -1);
Tensor masked_softmax(const Tensor& x, const Tensor& mask, int64_t axis = -1);
Tensor masked_log_softmax(const Tensor& x, const Tensor& mask, int64_t axis = -1);  // -inf where hidden

// losses
enum class Reduction { mean, sum, none };
struct LossOptions {
  Reduction reduction = Reduction::mean;
  double items = 0;  ///< > 0: what mean divides by instead of this call's own items (an accumulation window's)
};
struct ClassLossOptions {
  Reduction reduction = Reduction::mean;
  double items = 0;             ///< as above; the own items are the targets that are not ignored
  int64_t ignore_index = -100;  ///< such targets give loss 0 and gradient 0
};
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const ClassLossOptions& options = {},
                     double label_smoothing = 0);  // [.., C], i64 [..] -> [] or [..]
Tensor nll(const Tensor& log_probs, const Tensor& targets, const ClassLossOptions& options = {});  // the same shapes
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const LossOptions& options = {});  // equal shapes
Tensor binary_cross_entropy(const Tensor& probs, const Tensor& targets, const LossOptions& options = {});
Tensor mse(const Tensor& x, const Tensor& targets, const LossOptions& options = {});

// views: the bytes of x read in another way; axes may be negative and then count from the back
Tensor reshape(const Tensor& x, const Shape& shape);  // one size may be -1; copies where the strides allow no view
Tensor squeeze(const Tensor& x, int64_t axis);        // [.., 1, ..] -> [.., ..]
Tensor unsqueeze(const Tensor& x, int64_t axis);      // [.., ..] -> [.., 1, ..], the new axis counted in the result
Tensor transpose(const Tensor& x, int64_t first, int64_t second);
Tensor permute(const Tensor& x, const Dims& axes);  // axis i of the result is axis axes[i] of x
inline constexpr int64_t to_end = INT64_MAX;
Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t end = to_end, int64_t step = 1);
Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis);
Tensors chunk(const Tensor& x, int64_t pieces, int64_t axis);  // split into equal pieces
Tensor expand(const Tensor& x, const Shape& shape);            // broadcast
Tensor sum_to(const Tensor& x, const Shape& shape);            // the way back of expand; no view

// joins
Tensor concat(const Tensors& pieces, int64_t axis);  // along an axis that all have
Tensor stack(const Tensors& layers, int64_t axis);   // along a new one

// picked by an i64 index; an index outside its range throws E-INDEX with its place
Tensor embedding(const Tensor& table, const Tensor& ids,
                 std::optional<int64_t> padding_idx = {});                // [V, H], […] -> […, H]
Tensor gather(const Tensor& x, int64_t axis, const Tensor& index);        // y[i, j] = x[i, index[i, j]] for axis 1
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);  // index [n]: n places along the axis

// random: each call takes the next draw of context().rng, also with p = 0, where x itself is returned: switching one
// dropout off leaves the masks of all others as they are
/// `places` (i64, a number for each row): which row of a larger tensor each row of x is, and so which draws are its own
Tensor dropout(const Tensor& x, double p, const Tensor& places = {});

}  // namespace mixtape::ops
