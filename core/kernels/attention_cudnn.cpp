#include "core/kernels/attention_cudnn.h"

#include <cudnn.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"

namespace mixtape::kernels::device {
namespace {

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 1024> words{};
  cudnnGetLastErrorString(words.data(), words.size());
  fail(ErrorKind::internal, "E-CUDA-SDPA",
       message("attention: ", call, ": ", cudnnGetErrorString(status), ": ", words.data()));
}

struct Destroy {
  void operator()(void* descriptor) const { cudnnBackendDestroyDescriptor(descriptor); }
};
using Descriptor = std::unique_ptr<void, Destroy>;

Descriptor made(cudnnBackendDescriptorType_t type, const char* name) {
  cudnnBackendDescriptor_t raw = nullptr;
  check(cudnnBackendCreateDescriptor(type, &raw), name);
  return Descriptor(raw);
}

void set(const Descriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
         const void* values, const char* what) {
  check(cudnnBackendSetAttribute(d.get(), name, type, count, values), what);
}

void set_descriptor(const Descriptor& d, cudnnBackendAttributeName_t name, void* value, const char* what) {
  if (value != nullptr) set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value, what);
}

void finalize(const Descriptor& d, const char* what) { check(cudnnBackendFinalize(d.get()), what); }

cudnnDataType_t type_of(DType dtype) {
  // In f32 the library has an engine for forward alone, so that a run would fail in its first backward.
  if (!is_low(dtype)) {
    fail(ErrorKind::internal, "E-CUDA-SDPA", message("attention: cuDNN runs f16 and bf16, not ", name_of(dtype)));
  }
  return dtype == DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

using Dims = std::array<int64_t, 4>;

Dims packed(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }
Dims flipped(const Dims& d) { return {d[0], d[1], d[3], d[2]}; }

/// A tensor of a graph under construction, with what the next operation asks of it.
struct Node {
  void* raw = nullptr;
  Dims dims{}, strides{};
};

/// What a tensor has beside its shape. Without a name it is virtual: it lies in no memory.
struct Kind {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int64_t uid = 0;
  bool in_memory = false, by_value = false;
  void* offsets = nullptr;
};

/// Builds operations one after the other and owns all descriptors.
class Builder {
 public:
  Node tensor(const Dims& dims, const Dims& strides, const Kind& kind) {
    Descriptor d = made(CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
    const int64_t uid = kind.in_memory ? kind.uid : next_virtual_++, alignment = 16;
    const bool is_virtual = !kind.in_memory;
    set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &kind.type, "a tensor's type");
    set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.data(), "a tensor's dimensions");
    set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.data(), "a tensor's strides");
    set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid, "a tensor's number");
    set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment, "a tensor's alignment");
    set(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual, "a virtual tensor");
    set(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &kind.by_value, "a tensor by value");
    set_descriptor(d, CUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, kind.offsets, "a tensor's ragged offsets");
    finalize(d, "a tensor");
    return {keep(std::move(d)), dims, strides};
  }
  Node between(const Dims& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(dims, packed(dims), {.type = type});
  }
  /// A number that a call passes from the host.
  Node scalar(float value) {
    const int64_t uid = static_cast<int64_t>(SdpaTensor::first_scalar) + static_cast<int64_t>(scalars_.size());
    scalars_.push_back(value);
    return tensor({1, 1, 1, 1}, {1, 1, 1, 1}, {.uid = uid, .in_memory = true, .by_value = true});
  }

  struct Lengths {
    void *m = nullptr, *n = nullptr, *k = nullptr;
  };
  void multiply(const Node& a, const Node& b, const Node& c, const Lengths& lengths) {
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    Descriptor how = made(CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul");
    set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums, "matmul's type");
    finalize(how, "matmul");
    Descriptor op = made(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "a product");
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.raw, "a product's a");
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.raw, "a product's b");
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.raw, "a product's c");
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(how)), "a product's way");
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC, lengths.m, "a product's rows");
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC, lengths.n, "a product's columns");
    set_descriptor(op, CUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC, lengths.k, "a product's depth");
    add(std::move(op), "a product");
  }

  struct Operands {
    void *x, *b = nullptr, *t = nullptr, *y = nullptr;
  };
  void pointwise(cudnnPointwiseMode_t mode, const Operands& on, cudnnDataType_t type = CUDNN_DATA_FLOAT,
                 std::optional<int64_t> axis = {}) {
    Descriptor how = made(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise");
    set(how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode, "pointwise's mode");
    set(how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type, "pointwise's type");
    if (axis) set(how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &*axis, "pointwise's axis");
    finalize(how, "pointwise");
    Descriptor op = made(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "a pointwise operation");
    set_descriptor(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(how)), "a pointwise way");
    set_descriptor(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, on.x, "a pointwise x");
    set_descriptor(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, on.b, "a pointwise b");
    set_descriptor(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, on.t, "a pointwise t");
    set_descriptor(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, on.y, "a pointwise y");
    add(std::move(op), "a pointwise operation");
  }
  Node of(cudnnPointwiseMode_t mode, const Node& x, const Node& b = {}) {
    const Node y = between(x.dims);
    pointwise(mode, {x.raw, b.raw, nullptr, y.raw});
    return y;
  }

  void reduce(cudnnReduceTensorOp_t by, const Node& x, const Node& y) {
    const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
    Descriptor how = made(CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction");
    set(how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &by, "reduction's operator");
    set(how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums, "reduction's type");
    finalize(how, "reduction");
    Descriptor op = made(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "a sum");
    set_descriptor(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, keep(std::move(how)), "a sum's way");
    set_descriptor(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.raw, "a sum's x");
    set_descriptor(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.raw, "a sum's y");
    add(std::move(op), "a sum");
  }
  void reshape(const Node& x, const Node& y) {
    Descriptor op = made(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "a transposition");
    set_descriptor(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.raw, "a transposition's x");
    set_descriptor(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.raw, "a transposition's y");
    add(std::move(op), "a transposition");
  }
  void draw(const Node& y, const Node& seed, const Node& offset, double keep_rate) {
    const cudnnRngDistribution_t distribution = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
    Descriptor how = made(CUDNN_BACKEND_RNG_DESCRIPTOR, "random numbers");
    set(how, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &distribution, "their distribution");
    set(how, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &keep_rate, "their probability");
    finalize(how, "random numbers");
    Descriptor op = made(CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, "a mask");
    set_descriptor(op, CUDNN_ATTR_OPERATION_RNG_YDESC, y.raw, "a mask's y");
    set_descriptor(op, CUDNN_ATTR_OPERATION_RNG_DESC, keep(std::move(how)), "a mask's way");
    set_descriptor(op, CUDNN_ATTR_OPERATION_RNG_SEED, seed.raw, "a mask's seed");
    set_descriptor(op, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset.raw, "a mask's offset");
    add(std::move(op), "a mask");
  }

  const std::vector<float>& scalars() const { return scalars_; }
  Descriptor graph() const {
    Descriptor d = made(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "a graph");
    set(d, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(operations_.size()),
        operations_.data(), "a graph's operations");
    finalize(d, "a graph");
    return d;
  }

 private:
  void* keep(Descriptor d) {
    kept_.push_back(std::move(d));
    return kept_.back().get();
  }
  void add(Descriptor d, const char* what) {
    finalize(d, what);
    operations_.push_back(keep(std::move(d)));
  }

  std::vector<Descriptor> kept_;
  std::vector<void*> operations_;
  std::vector<float> scalars_;
  int64_t next_virtual_ = 1000;
};

/// The nodes that forward and backward have in common: inputs in memory, scores behind the ends set to the lowest.
class Attention {
 public:
  explicit Attention(const SdpaShape& shape) : s_(shape), low_(type_of(shape.dtype)) {
    const Dims each{s_.sequences, 1, 1, 1}, edges{s_.sequences + 1, 1, 1, 1};
    lengths_ = memory(SdpaTensor::lengths, each, {1, 1, 1, 1}, CUDNN_DATA_INT32);
    if (s_.ragged) {
      q_offsets_ = memory(SdpaTensor::q_offsets, edges, {1, 1, 1, 1}, CUDNN_DATA_INT64);
      out_offsets_ = memory(SdpaTensor::out_offsets, edges, {1, 1, 1, 1}, CUDNN_DATA_INT64);
    }
    if (s_.p > 0) {
      mask_ = builder_.between(square());
      const Node seed = memory(SdpaTensor::seed, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT64);
      const Node at = memory(SdpaTensor::draw, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT64);
      builder_.draw(mask_, seed, at, 1 - s_.p);
    }
  }

  void forward() {
    const Node q = rows(SdpaTensor::q), kt = rows(SdpaTensor::k, true), v = rows(SdpaTensor::v);
    const Node scores = masked_scores(q, kt);
    const Node highest = builder_.between(column());
    builder_.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, highest);
    const Node odds = builder_.of(CUDNN_POINTWISE_EXP, builder_.of(CUDNN_POINTWISE_SUB, scores, highest));
    const Node total = builder_.between(column());
    builder_.reduce(CUDNN_REDUCE_TENSOR_ADD, odds, total);
    const Node stats = statistics();
    const Node log = builder_.of(CUDNN_POINTWISE_LOG, total);
    builder_.pointwise(CUDNN_POINTWISE_ADD, {highest.raw, log.raw, nullptr, stats.raw});
    const Node weights = builder_.between(square(), s_.p > 0 ? CUDNN_DATA_FLOAT : low_);
    builder_.pointwise(CUDNN_POINTWISE_DIV, {odds.raw, total.raw, nullptr, weights.raw});
    const Node kept = s_.p > 0 ? dropped(weights, builder_.between(square(), low_)) : weights;
    builder_.multiply(kept, v, outcome(SdpaTensor::out), {lengths_.raw, nullptr, lengths_.raw});
  }

  void backward() {
    const Node q = rows(SdpaTensor::q), kt = rows(SdpaTensor::k, true), vt = rows(SdpaTensor::v, true);
    const Node out = outcome(SdpaTensor::out), dy = outcome(SdpaTensor::dy);
    const Node slope_sums = sums_of(dy, out);
    const Node weights = builder_.of(CUDNN_POINTWISE_EXP, masked_scores(q, kt, statistics()));
    const Node kept = s_.p > 0 ? dropped(weights, builder_.between(square())) : scaled(weights, 1.0F);
    builder_.multiply(transposed(kept), dy, rows(SdpaTensor::dv), {lengths_.raw, nullptr, lengths_.raw});

    Node slopes = builder_.between(square());
    builder_.multiply(dy, vt, slopes, {lengths_.raw, lengths_.raw, nullptr});
    if (s_.p > 0) slopes = builder_.of(CUDNN_POINTWISE_MUL, slopes, mask_);
    slopes = builder_.of(CUDNN_POINTWISE_MUL, builder_.of(CUDNN_POINTWISE_SUB, slopes, slope_sums), weights);
    if (s_.p > 0) slopes = scaled(slopes, dropout_scale());
    slopes = scaled(slopes, s_.scale);
    builder_.multiply(transposed(slopes), q, rows(SdpaTensor::dk), {lengths_.raw, nullptr, lengths_.raw});

    const Node k = builder_.tensor(flipped(kt.dims), flipped(kt.strides), {.type = low_, .offsets = q_offsets_.raw});
    builder_.reshape(kt, k);
    const Dims room = outer();
    const Node wide = memory(SdpaTensor::dq_sums, room, packed(room), CUDNN_DATA_FLOAT);
    builder_.multiply(slopes, k, wide, {lengths_.raw, nullptr, lengths_.raw});
    builder_.pointwise(CUDNN_POINTWISE_IDENTITY, {wide.raw, nullptr, nullptr, rows(SdpaTensor::dq).raw});
  }

  Builder&& take() { return std::move(builder_); }

 private:
  Dims outer() const { return {s_.sequences, s_.heads, s_.longest, s_.columns}; }
  Dims square() const { return {s_.sequences, s_.heads, s_.longest, s_.longest}; }
  Dims column() const { return {s_.sequences, s_.heads, s_.longest, 1}; }
  float dropout_scale() const { return static_cast<float>(1 / (1 - s_.p)); }

  Node memory(SdpaTensor name, const Dims& dims, const Dims& strides, cudnnDataType_t type, void* offsets = nullptr) {
    return builder_.tensor(dims, strides,
                           {.type = type, .uid = static_cast<int64_t>(name), .in_memory = true, .offsets = offsets});
  }
  Node placed(SdpaTensor name, int64_t row, const Node& offsets, bool turned) {
    const Dims dims = outer(), strides{s_.longest * row, s_.columns, row, 1};
    return memory(name, turned ? flipped(dims) : dims, turned ? flipped(strides) : strides, low_, offsets.raw);
  }
  Node rows(SdpaTensor name, bool turned = false) { return placed(name, s_.row_stride, q_offsets_, turned); }
  Node outcome(SdpaTensor name) { return placed(name, s_.heads * s_.columns, out_offsets_, false); }
  Node statistics() { return memory(SdpaTensor::stats, column(), packed(column()), CUDNN_DATA_FLOAT); }

  Node scaled(const Node& x, float by) { return builder_.of(CUDNN_POINTWISE_MUL, x, builder_.scalar(by)); }
  Node dropped(const Node& weights, const Node& y) {
    const Node kept = builder_.of(CUDNN_POINTWISE_MUL, weights, mask_), by = builder_.scalar(dropout_scale());
    builder_.pointwise(CUDNN_POINTWISE_MUL, {kept.raw, by.raw, nullptr, y.raw});
    return y;
  }
  Node transposed(const Node& x) {
    const Dims d = flipped(x.dims), strides = flipped(packed(x.dims));
    const Node y = builder_.tensor(d, strides, {.type = low_});
    builder_.reshape(x, y);
    return y;
  }
  /// Σ dy·out of each row, without the factor that dropout has put into out.
  Node sums_of(const Node& dy, const Node& out) {
    const Dims dims = outer(), by_token{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[1] * dims[3], 1};
    const Node products = builder_.tensor(dims, by_token, {});
    builder_.pointwise(CUDNN_POINTWISE_MUL, {dy.raw, out.raw, nullptr, products.raw});
    const Node sums = builder_.between(column()), one = builder_.scalar(static_cast<float>(1 - s_.p));
    builder_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
    const Node kept = memory(SdpaTensor::slope_sums, column(), packed(column()), CUDNN_DATA_FLOAT);
    builder_.pointwise(CUDNN_POINTWISE_MUL, {sums.raw, one.raw, nullptr, kept.raw});
    return kept;
  }
  Node compared(int64_t axis, const Node& scores) {
    const Node index = builder_.between(square(), CUDNN_DATA_INT32),
               less = builder_.between(square(), CUDNN_DATA_BOOLEAN);
    builder_.pointwise(CUDNN_POINTWISE_GEN_INDEX, {scores.raw, nullptr, nullptr, index.raw}, CUDNN_DATA_INT32, axis);
    builder_.pointwise(CUDNN_POINTWISE_CMP_LT, {index.raw, lengths_.raw, nullptr, less.raw}, CUDNN_DATA_BOOLEAN);
    return less;
  }
  /// scale·q·kᵀ, less the statistics of a row if given, with what lies behind the end of a sequence set to the lowest.
  Node masked_scores(const Node& q, const Node& kt, const Node& stats = {}) {
    Node scores = builder_.between(square());
    builder_.multiply(q, kt, scores, {lengths_.raw, lengths_.raw, nullptr});
    scores = scaled(scores, s_.scale);
    if (stats.raw != nullptr) scores = builder_.of(CUDNN_POINTWISE_SUB, scores, stats);
    const Node row = compared(2, scores), column = compared(3, scores);
    const Node seen = builder_.between(square(), CUDNN_DATA_BOOLEAN);
    builder_.pointwise(CUDNN_POINTWISE_LOGICAL_AND, {row.raw, column.raw, nullptr, seen.raw}, CUDNN_DATA_BOOLEAN);
    const Node lowest = builder_.scalar(std::numeric_limits<float>::lowest()), masked = builder_.between(square());
    builder_.pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scores.raw, lowest.raw, seen.raw, masked.raw});
    return masked;
  }

  SdpaShape s_;
  cudnnDataType_t low_;
  Builder builder_;
  Node lengths_, q_offsets_, out_offsets_, mask_;
};

Descriptor device_of(const std::string& properties) {
  Descriptor d = made(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, "a device's properties");
  set(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, static_cast<int64_t>(properties.size()) + 1,
      properties.c_str(), "a device's properties");
  finalize(d, "a device's properties");
  return d;
}

/// The engine configuration that the library's heuristics put first.
Descriptor best_of(const Descriptor& graph, const Descriptor& device) {
  Descriptor heuristics = made(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristics");
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get(), "heuristics' graph");
  set(heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode, "heuristics' mode");
  set_descriptor(heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device.get(), "heuristics' device");
  finalize(heuristics, "heuristics");
  Descriptor best = made(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "an engine");
  void* raw = best.get();
  int64_t found = 0;
  check(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                 &found, &raw),
        "heuristics' results");
  if (found < 1) {
    std::array<char, 1024> words{};
    cudnnGetLastErrorString(words.data(), words.size());
    fail(ErrorKind::internal, "E-CUDA-SDPA", message("attention: cuDNN has no engine for this graph: ", words.data()));
  }
  return best;
}

}  // namespace

struct SdpaGraph::Parts {
  std::optional<Builder> builder;
  Descriptor device, graph, engine;
};

SdpaGraph::SdpaGraph(const SdpaShape& shape, bool backward, const std::string& properties)
    : parts_(std::make_unique<Parts>()) {
  Attention attention(shape);
  if (backward) {
    attention.backward();
  } else {
    attention.forward();
  }
  parts_->builder.emplace(attention.take());
  parts_->device = device_of(properties);
  parts_->graph = parts_->builder->graph();
  parts_->engine = best_of(parts_->graph, parts_->device);
}
SdpaGraph::~SdpaGraph() = default;

const std::vector<float>& SdpaGraph::scalars() const { return parts_->builder->scalars(); }

int64_t SdpaGraph::workspace() const {
  int64_t bytes = 0, count = 0;
  check(cudnnBackendGetAttribute(parts_->engine.get(), CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                 &bytes),
        "an engine's workspace");
  return bytes;
}

}  // namespace mixtape::kernels::device
