// The built-in presets against the lists of the systems that they reproduce. The tables are written from
// ../shared/precision.md, part 3, under the names that stand there, never from the policy files.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "amp/autocast.h"
#include "amp/ledger.h"
#include "amp/parameters.h"
#include "autograd/backward.h"
#include "core/factory.h"
#include "ops/ops.h"
#include "tests/shared.h"

namespace mixtape::tests {
namespace {

using amp::ParameterStorage;
using amp::Policy;

/// Names of a list with the rule that it stands for, separated by blanks. "theirs=ours": what the op is called here.
struct Class {
  Rule rule;
  std::string_view names;
};
using List = std::vector<Class>;

constexpr std::string_view torch_cuda_full =
    "acos asin cosh sinh tan erfinv exp expm1 log log2 log10 log1p reciprocal rsqrt pow softplus layer_norm "
    "native_layer_norm=layer_norm group_norm rms_norm frobenius_norm=norm nuclear_norm cosine_similarity renorm dist "
    "pdist cdist logsumexp nll nll2d=nll kl_div l1_loss smooth_l1_loss huber_loss mse poisson_nll_loss "
    "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multilabel_margin_loss multi_margin_loss "
    "soft_margin_loss triplet_margin_loss bce_with_logits upsample softmax log_softmax sum prod cumsum cumprod "
    "linalg_vector_norm=norm linalg_matrix_norm=matrix_norm norm";
/// Ours that are made of listed ones: a softmax under a mask, and the loss that is nll of log_softmax.
constexpr std::string_view softmaxes_and_loss = "masked_softmax masked_log_softmax cross_entropy";
constexpr std::string_view torch_cuda_promote =
    "addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add cat=concat stack";
constexpr std::string_view convolutions =
    "conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d";

/// 3.1.2
const List torch_cuda = {
    {Rule::low, convolutions},
    {Rule::low,
     "convolution _convolution prelu linear matmul mm=matmul mv bmm=batched_matmul addmm addmv addr addbmm baddbmm "
     "chain_matmul linalg_multi_dot linalg_vecdot einsum lstm lstm_cell gru gru_cell rnn rnn_cell "
     "scaled_dot_product_attention=attention"},
    {Rule::full, torch_cuda_full},
    {Rule::full, softmaxes_and_loss},
    {Rule::widest, torch_cuda_promote},
    {Rule::banned, "binary_cross_entropy"}};

/// 3.1.3
const List torch_cpu = {
    {Rule::low, convolutions},
    {Rule::low,
     "_convolution bmm=batched_matmul mm=matmul baddbmm addmm addbmm linear matmul linalg_vecdot _addmm_activation "
     "mkldnn_rnn_layer prelu scaled_dot_product_attention=attention multi_head_attention"},
    {Rule::full,
     "binary_cross_entropy mse l1_loss smooth_l1_loss huber_loss nll nll2d=nll cross_entropy kl_div bce_with_logits "
     "ctc_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss "
     "cosine_embedding_loss hinge_embedding_loss poisson_nll_loss avg_pool3d max_pool3d max_unpool2d max_unpool3d "
     "adaptive_max_pool3d fractional_max_pool3d adaptive_avg_pool3d pad grid_sampler polar prod quantile nanquantile "
     "stft cdist trace view_as_complex fft linalg cholesky inverse qr svd lu_solve geqrf orgqr ormqr pinverse "
     "triangular_solve fake_quantize"},
    {Rule::widest, "stack cat=concat index_copy"}};

/// 3.3.3: as torch on CUDA, with these differences.
const List apex_O1 = {
    {Rule::low, convolutions},
    {Rule::low, "linear prelu addmm addmv addr matmul mm=matmul mv bmm=batched_matmul addbmm baddbmm"},
    {Rule::full, torch_cuda_full},
    {Rule::full, softmaxes_and_loss},
    {Rule::full, "var std local_response_norm normalize interpolate softmin"},
    {Rule::widest, torch_cuda_promote},
    {Rule::widest, "add mul div eq ge gt le lt ne"},
    {Rule::banned, "binary_cross_entropy"}};

struct Row {
  std::string name, op;  ///< theirs and ours; the same for an op that is not here
  Rule rule;
};
std::vector<Row> rows_of(const List& list) {
  std::vector<Row> rows;
  for (const auto& [rule, names] : list) {
    for (size_t at = 0; at < names.size();) {
      const size_t end = std::min(names.find(' ', at), names.size());
      const std::string word(names.substr(at, end - at));
      const size_t equals = word.find('=');
      rows.push_back({word.substr(0, equals), equals == std::string::npos ? word : word.substr(equals + 1), rule});
      at = end + 1;
    }
  }
  return rows;
}

/// Every name of the list has its rule, as a row or as one that is absent; nothing else is in the file.
void check_preset(const char* name, const List& list, const std::set<std::string>& left_out) {
  CAPTURE(name);
  const Policy policy = Policy::load(name);
  std::set<std::string> listed;
  for (const Row& row : rows_of(list)) {
    CAPTURE(row.name);
    if (left_out.contains(row.name)) continue;
    listed.insert(row.op);
    const OpSchema* op = find_op(row.op);
    const amp::PolicyRows& where = op ? policy.rows : policy.absent;
    REQUIRE(where.contains(row.op));
    CHECK(where.at(row.op) == row.rule);
    if (op) CHECK(policy.rule_of(*op) == row.rule);
  }
  for (const amp::PolicyRows* where : {&policy.rows, &policy.absent}) {
    for (const auto& entry : *where) {
      CAPTURE(entry.first);
      CHECK(listed.contains(entry.first));
      CHECK((find_op(entry.first) != nullptr) == (where == &policy.rows));
    }
  }
  for (const OpSchema* op : registry()) {
    CAPTURE(op->info->name);
    if (!listed.contains(std::string(op->info->name))) CHECK(policy.rule_of(*op) == Rule::widest);
  }
  CHECK(policy.casts);
  CHECK(policy.dynamic_scale);
  CHECK_FALSE(policy.low_model);
  CHECK(policy.keep_norms_f32);
  CHECK(policy.storage == ParameterStorage::f32_with_low_copy);
}

Tensor fresh(const Shape& shape, uint32_t draw, DType dtype = DType::f32) {
  return randn(shape, {.stream = rng_stream::test, .draw = draw}, 1, 0, dtype).set_requires_grad();
}

}  // namespace

TEST_CASE("presets: torch_cuda, row by row") { check_preset("torch_cuda", torch_cuda, {}); }
TEST_CASE("presets: torch_cpu, row by row") { check_preset("torch_cpu", torch_cpu, {}); }
TEST_CASE("presets: apex_O1, row by row") {
  check_preset("apex_O1", apex_O1, {"rms_norm"});  // younger than Apex
}

TEST_CASE("presets: attention is the systems' scaled_dot_product_attention: 16 bits go in and come out") {
  for (const char* name : {"torch_cuda", "torch_cpu"}) {
    for (const DType low : {DType::f16, DType::bf16}) {
      CAPTURE(name);
      const Policy policy = Policy::load(name);
      CHECK(policy.rule_of(*find_op("attention")) == Rule::low);
      CHECK_FALSE(policy.absent.contains("scaled_dot_product_attention"));
      const Tensor q = fresh({3, 4}, 1), k = fresh({3, 4}, 2), v = fresh({3, 4}, 3);
      const amp::Autocast guard(policy, low);
      amp::Ledger ledger;
      const ObserverGuard observer(ledger.observer());
      CHECK(ops::attention(q, k, v, {.offsets = from_ints({0, 3}, {2}), .longest = 3}, 2, 0).dtype() == low);
      for (const amp::LedgerRow& row : ledger.forward()) {
        // The parts run by their own rows: CUDA's list has softmax in f32, the CPU's has none.
        if (row.op.find("softmax") != std::string::npos)
          CHECK(row.in[0] == (std::string(name) == "torch_cuda" ? DType::f32 : low));
        if (row.op == "batched_matmul") CHECK(row.in == std::vector<DType>{low, low});
      }
    }
  }
}

TEST_CASE("presets: what the lists leave out runs in what it is given, and mean among them") {
  const Policy torch = Policy::load("torch_cuda");
  for (const char* name : {"mean", "var", "gelu", "tanh", "sigmoid", "dropout", "embedding", "masked_fill", "where",
                           "add", "mul", "sqrt"}) {
    CAPTURE(name);
    CHECK(torch.rule_of(*find_op(name)) == Rule::widest);
  }
  const amp::Autocast guard(torch, DType::f16);
  const Tensor half = full({3}, 2, DType::f16);
  CHECK(ops::mean(half).dtype() == DType::f16);
  CHECK(ops::sum(half).dtype() == DType::f32);
  CHECK(ops::layer_norm(half, full({3}, 1), zeros({3})).dtype() == DType::f32);
  CHECK(contains(error_text([&] { ops::binary_cross_entropy(half, half); }), "E-BANNED"));
}

TEST_CASE("presets: the opt levels are the columns of Apex's table") {
  struct Level {
    const char* name;
    bool casts, low_model, keep_norms, masters;
    double scale;  // 0: dynamic
  };
  // 3.3.1 and 1.1: O0 = no casts, O1 = casts at ops, O2 = 16-bit model with f32 masters and norms, O3 = pure 16-bit.
  for (const Level& level :
       {Level{"apex_O0", false, false, true, true, 1}, Level{"apex_O1", true, false, true, true, 0},
        Level{"apex_O2", true, true, true, true, 0}, Level{"apex_O3", true, true, false, false, 1}}) {
    CAPTURE(level.name);
    const Policy policy = Policy::load(level.name);
    CHECK(policy.casts == level.casts);
    CHECK(policy.low_model == level.low_model);
    CHECK(policy.keep_norms_f32 == level.keep_norms);
    CHECK(amp::is_low(policy.storage) == !level.masters);
    CHECK(policy.dynamic_scale == (level.scale == 0));
    if (level.scale != 0) CHECK(policy.static_scale == level.scale);
    CHECK((make_rule(policy, DType::f16) != nullptr) == level.casts);
  }
}

TEST_CASE("presets: under O2 and O3 every op runs in the 16 bits of the model, but for the losses on its outputs") {
  const std::set<std::string_view> losses = {"bce_with_logits", "binary_cross_entropy", "cross_entropy", "mse", "nll"};
  for (const char* name : {"apex_O2", "apex_O3"}) {
    const Policy policy = Policy::load(name);
    for (const OpSchema* op : registry()) {
      CAPTURE(op->info->name);
      const Rule rule = policy.rule_of(*op);
      const bool in_low = rule == Rule::low || rule == Rule::keep || rule == Rule::widest || rule == Rule::low_out;
      CHECK(losses.contains(op->info->name) == (rule == Rule::full));
      CHECK(losses.contains(op->info->name) == !in_low);
      if (op->info->precision.rule == Rule::low) CHECK(rule == Rule::low);
    }
  }
}

TEST_CASE("presets: O0 is a guard without casts, and takes no overrides") {
  Policy policy = Policy::load("apex_O0");
  const Tensor x = full({2, 2}, 1), w = fresh({2, 2}, 1);
  const amp::Autocast outer(DType::bf16);
  const amp::Autocast guard(policy, DType::f16);
  CHECK(ops::linear(x, w).dtype() == DType::f32);
  CHECK_FALSE(w.leaf().shadow.bytes);
  CHECK(contains(error_text([&] { policy.replace("gelu", Rule::full); }), "E-POLICY-RULE"));
}

TEST_CASE("presets: O2 sees biases and tables in 16 bits and γ, β in f32; O3 sees all of them in 16 bits") {
  for (const bool keeps : {true, false}) {
    for (const DType low : {DType::f16, DType::bf16}) {
      Policy policy = Policy::load("apex_O2");
      policy.keep_norms_f32 = keeps;
      const double fine = 1 + 0x1p-12;  // 1 in either
      const Tensor bias = full({1}, fine).set_requires_grad(), weight = zeros({1, 1}).set_requires_grad(),
                   table = full({1, 1}, fine).set_requires_grad();
      const Tensor gamma = full({2}, fine).set_requires_grad(), beta = full({2}, 0).set_requires_grad();
      const amp::Autocast guard(policy, low);
      const Tensor wide_x = from({0}, {1, 1});
      CHECK(ops::linear(wide_x, weight, bias).dtype() == low);
      CHECK(ops::embedding(table, from_ints({0}, {1})).dtype() == low);
      CHECK(ops::embedding(table, from_ints({0}, {1})).item() == 1);
      // x = ±1: the normalised row is ±1, its product with γ shows γ's digits in f32.
      const Tensor y = ops::layer_norm(from({1, -1}, {1, 2}), gamma, beta, 0);
      CHECK(to_vector(y)[0] == doctest::Approx(keeps ? fine : 1).epsilon(1e-6));
      autograd::backward(
          ops::bce_with_logits(ops::add(ops::linear(wide_x, weight, bias), ops::sum(y)), from({1}, {1, 1})));
      CHECK(bias.leaf().gradient.raw.dtype() == DType::f32);
      CHECK(gamma.leaf().gradient.raw.dtype() == DType::f32);
    }
  }
}

TEST_CASE("presets: a bias seen in 16 bits gets the gradient of the rounded one, unrounded itself") {
  const Tensor x = from({1, 1}, {2, 1}), w = from({0}, {1, 1}).set_requires_grad();
  const Tensor bias = full({1}, 1 + 0x1p-12).set_requires_grad();
  const Tensor loss = [&] {
    const amp::Autocast guard(Policy::load("apex_O2"), DType::f16);
    const Tensor y = ops::linear(x, w, bias);
    CHECK(to_vector(y) == std::vector<double>{1, 1});
    return ops::mse(y, from({0, -0x1p-10}, {2, 1}));
  }();
  CHECK(loss.dtype() == DType::f32);
  autograd::backward(loss);
  // d/db mean((b + t)²) = (2·1 + 2·(1 + 2^-10))/2: each of the two dy is a half, their sum is not.
  CHECK(to_vector(bias.grad())[0] == 2 + 0x1p-10);
}

TEST_CASE("presets: parameters of 16 bits train, with gradients in f32") {
  const Policy policy = Policy::load("apex_O3");
  for (const DType low : {DType::f16, DType::bf16}) {
    const Tensor table = fresh({3, 4}, 1), w = fresh({2, 4}, 2), bias = fresh({2}, 3), gamma = fresh({4}, 4),
                 beta = fresh({4}, 5);
    const NamedTensors all = {{"table.weight", table},
                              {"dense.weight", w},
                              {"dense.bias", bias},
                              {"LayerNorm.weight", gamma},
                              {"LayerNorm.bias", beta}};
    amp::store_parameters(all, policy, low);
    for (const auto& [name, tensor] : all) CHECK(tensor.dtype() == low);
    const Tensor loss = [&] {
      const amp::Autocast guard(policy, low);
      const Tensor x = ops::layer_norm(ops::embedding(table, from_ints({2, 0}, {2})), gamma, beta);
      CHECK(x.dtype() == low);
      const Tensor y = ops::linear(x, w, bias);
      CHECK(y.dtype() == low);
      return ops::cross_entropy(y, from_ints({1, 0}, {2}));
    }();
    CHECK(loss.dtype() == DType::f32);
    autograd::backward(loss);
    for (const NamedTensor& parameter : all) {
      CAPTURE(parameter.name);
      REQUIRE(parameter.tensor.leaf().gradient);
      CHECK(parameter.tensor.leaf().gradient.raw.dtype() == DType::f32);
    }
  }
}

TEST_CASE("presets: storing parameters keeps norms in f32 where the policy says so, and shadows where it keeps them") {
  Policy policy = Policy::load("apex_O3");
  policy.keep_norms_f32 = true;
  const Tensor w = full({2, 2}, 1 + 0x1p-12).set_requires_grad(), alias = w, gamma = fresh({2}, 1);
  const NamedTensors all = {{"dense.weight", w}, {"LayerNorm.weight", gamma}};
  amp::store_parameters(all, policy, DType::bf16);
  CHECK(alias.dtype() == DType::bf16);  // every handle of it
  CHECK(to_vector(alias) == std::vector<double>(4, 1));
  CHECK(gamma.dtype() == DType::f32);
  policy.storage = ParameterStorage::f32;
  amp::store_parameters(all, policy, DType::bf16);
  CHECK(w.dtype() == DType::f32);  // weights of 16 bits are widened
  const amp::Autocast guard(Policy::load("native"), DType::bf16);
  const Tensor y = ops::linear(full({1, 2}, 1), w);
  CHECK_FALSE(w.leaf().shadow.bytes);
  policy.storage = ParameterStorage::f32_with_low_copy;
  amp::store_parameters(all, policy, DType::bf16);
  CHECK(to_vector(ops::linear(full({1, 2}, 1), w)) == to_vector(y));
  CHECK(w.leaf().shadow.bytes);
  CHECK(contains(error_text([&] { amp::store_parameters({{"w", w.detach()}}, policy, DType::bf16); }), "no error"));
  CHECK(contains(error_text([&] { w.detach().store_as(DType::bf16); }), "E-TAPE"));
}

}  // namespace mixtape::tests
