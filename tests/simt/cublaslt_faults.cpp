// Calls of cublasLt with a fault each, and the words in which the fake must tell of it.
#include <cublasLt.h>
#include <doctest/doctest.h>

#include <cstring>
#include <utility>

#include "tests/simt/cublaslt_fake.h"
#include "tests/simt/faults.h"
#include "tests/simt/memory.h"
#include "tests/simt/runner.h"

namespace mixtape::simt {
void synchronize(cudaStream_t stream);  // of the runner's cuda_runtime.h
}

namespace mixtape::simt_tests {
namespace {

using simt::LtLayout;

constexpr size_t m = 16, n = 8, k = 24;

struct Trial;
using Change = void (*)(Trial& trial);

/// A call that is right until something is changed: D = A·B of [16, 24] and [24, 8], by columns, f32.
struct Trial {
  std::vector<char*> rooms;
  char* room(size_t floats) {
    rooms.push_back(static_cast<char*>(simt::device_allocate(floats * sizeof(float))));
    return rooms.back();
  }

  LtLayout layouts[4] = {
      {CUDA_R_32F, 0, m, k, m}, {CUDA_R_32F, 0, k, n, k}, {CUDA_R_32F, 0, m, n, m}, {CUDA_R_32F, 0, m, n, m}};
  simt::LtDescription what{.compute = CUBLAS_COMPUTE_32F, .scale = CUDA_R_32F};
  uint64_t workspace_wanted = 1 << 20;
  uint32_t alignments[4] = {16, 16, 16, 16};
  int asked = 3;
  float alpha = 1, beta = 0;
  char *a = room(m * k), *b = room(k * n), *d = room(m * n), *bias = room(m), *workspace = room(1 << 14);
  const void *alpha_at = &alpha, *c = d;
  size_t workspace_bytes = 1 << 16;
  Change before_call = [](Trial&) {};

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t layout[4] = {};
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulHeuristicResult_t results[3] = {};
  const cublasLtMatmulAlgo_t* algorithm = &results[0].algo;

  Trial() { what.bias = bias; }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    for (char* memory : rooms) simt::device_free(memory);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(description);
    for (cublasLtMatrixLayout_t one : layout) cublasLtMatrixLayoutDestroy(one);
    cublasLtDestroy(handle);
  }

  cublasStatus_t describe();
  cublasStatus_t run();
};

template <class Value>
cublasStatus_t set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  return cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value);
}

cublasStatus_t Trial::describe() {
  cublasLtCreate(&handle);
  cublasLtMatmulDescCreate(&description, static_cast<cublasComputeType_t>(what.compute),
                           static_cast<cudaDataType_t>(what.scale));
  set(description, CUBLASLT_MATMUL_DESC_POINTER_MODE, what.pointer_mode);
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, what.transposes_a);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, what.transposes_b);
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, what.epilogue);
  set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, what.bias);
  set(description, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, what.bias_type);
  for (size_t i = 0; i < 4; ++i) {
    const LtLayout& l = layouts[i];
    cublasLtMatrixLayoutCreate(&layout[i], static_cast<cudaDataType_t>(l.type), l.rows, l.columns, l.ld);
    cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_ORDER, &l.order, sizeof l.order);
    cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &l.batch, sizeof l.batch);
    cublasLtMatrixLayoutSetAttribute(layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &l.batch_stride,
                                     sizeof l.batch_stride);
  }
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_wanted,
                                       sizeof workspace_wanted);
  const cublasLtMatmulPreferenceAttributes_t attributes[4] = {
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
      CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
  for (size_t i = 0; i < 4; ++i) {
    cublasLtMatmulPreferenceSetAttribute(preference, attributes[i], &alignments[i], sizeof alignments[i]);
  }
  int count = 0;
  return cublasLtMatmulAlgoGetHeuristic(handle, description, layout[0], layout[1], layout[2], layout[3], preference,
                                        asked, results, &count);
}

cublasStatus_t Trial::run() {
  if (const cublasStatus_t status = describe(); status != CUBLAS_STATUS_SUCCESS) return status;
  before_call(*this);
  return cublasLtMatmul(handle, description, alpha_at, a, layout[0], b, layout[1], &beta, c, layout[2], d, layout[3],
                        algorithm, workspace, workspace_bytes, nullptr);
}

struct Fault {
  const char* words;
  Change change;
};

void make_batch(Trial& t, int64_t d_stride) {
  t.layouts[0].batch = t.layouts[1].batch = t.layouts[2].batch = t.layouts[3].batch = 2;
  t.layouts[2].batch_stride = t.layouts[3].batch_stride = d_stride;
}
void make_16_bits(Trial& t) {
  for (LtLayout& layout : t.layouts) layout.type = CUDA_R_16BF;
}

// Each changes one thing of the right call.
const Fault layout_faults[] = {
    {"A has leading dimension 15, less than its 16 rows", [](Trial& t) { t.layouts[0].ld = 15; }},
    {"B has leading dimension 7, less than its 8 columns",
     [](Trial& t) {
       t.layouts[1] = {CUDA_R_32F, 1, k, n, 7};
     }},
    {"A is empty: 16 x 0", [](Trial& t) { t.layouts[0].columns = 0; }},
    {"A has a type that the fake does not know", [](Trial& t) { t.layouts[0].type = CUDA_R_8I; }},
    {"A has an order of tiles", [](Trial& t) { t.layouts[0].order = CUBLASLT_ORDER_COL32; }},
    {"D has a batch of 0", [](Trial& t) { t.layouts[3].batch = 0; }},
    {"A has batch stride -1", [](Trial& t) { make_batch(t, 0), t.layouts[0].batch_stride = -1; }},
    {"op(A) has 24 rows, D has 16", [](Trial& t) { t.what.transposes_a = CUBLAS_OP_T; }},
    {"op(B) has 3 columns, D has 8", [](Trial& t) { t.layouts[1].columns = 3; }},
    {"op(A) has 24 columns, op(B) has 5 rows", [](Trial& t) { t.layouts[1].rows = 5; }},
    {"C and D differ in more than their strides", [](Trial& t) { t.layouts[2].columns = 3; }},
    {"a batch of 3 beside one of 2", [](Trial& t) { make_batch(t, m * n), t.layouts[1].batch = 3; }},
    {"batches of D share elements: batch stride 16", [](Trial& t) { make_batch(t, m); }},
};

const Fault type_faults[] = {
    {"no products of f32 x bf16 -> f32", [](Trial& t) { t.layouts[1].type = CUDA_R_16BF; }},
    {"no products of f32 x f32 -> f16", [](Trial& t) { t.layouts[2].type = t.layouts[3].type = CUDA_R_16F; }},
    {"alpha and beta have another type", [](Trial& t) { t.what.scale = CUDA_R_64F; }},
    {"a fast compute type for f32 beside bf16",
     [](Trial& t) { make_16_bits(t), t.what.compute = CUBLAS_COMPUTE_32F_FAST_TF32; }},
    {"compute type 64 beside f32", [](Trial& t) { t.what.compute = CUBLAS_COMPUTE_16F; }},
    {"epilogue 32, which the fake does not know", [](Trial& t) { t.what.epilogue = CUBLASLT_EPILOGUE_GELU; }},
    {"a bias of f32 beside bf16 x bf16 -> bf16: it must have the type of D",
     [](Trial& t) { make_16_bits(t), t.what.epilogue = CUBLASLT_EPILOGUE_BIAS, t.what.bias_type = CUDA_R_32F; }},
    {"a bias beside a D in rows",
     [](Trial& t) {
       t.what.epilogue = CUBLASLT_EPILOGUE_BIAS;
       t.layouts[2] = t.layouts[3] = {CUDA_R_32F, 1, m, n, n};
     }},
    {"batches write the same sums", [](Trial& t) { make_batch(t, m * n), t.what.epilogue = CUBLASLT_EPILOGUE_BGRADA; }},
    {"alpha and beta in host memory alone", [](Trial& t) { t.what.pointer_mode = CUBLASLT_POINTER_MODE_DEVICE; }},
};

const Fault operand_faults[] = {
    {"A is a null pointer", [](Trial& t) { t.a = nullptr; }},
    {"B is not in device memory", [](Trial& t) { t.b = reinterpret_cast<char*>(&t.alpha); }},
    {"A is not aligned to its 4 bytes an element", [](Trial& t) { t.a += 2; }},
    {"A is not aligned to the 16 bytes that the heuristics were told", [](Trial& t) { t.a += 4; }},
    {"A reaches over 1536 bytes, which do not lie in one allocation", [](Trial& t) { t.a += 16; }},
    {"B reaches over 768 bytes", [](Trial& t) { t.b = t.bias; }},
    {"D reaches over 1024 bytes", [](Trial& t) { make_batch(t, m * n), t.c = t.room(2 * m * n); }},
    {"D lies over A", [](Trial& t) { t.d = t.a, t.c = t.a; }},
    {"C lies over D with another layout", [](Trial& t) { t.layouts[2].ld = 2 * m, t.c = t.d = t.room(4 * m * n); }},
    {"C lies over D with another layout", [](Trial& t) { t.d = t.room(4 * m * n), t.c = t.d + 16; }},
    {"alpha and beta must be in host memory", [](Trial& t) { t.alpha_at = t.bias; }},
    {"the bias is a null pointer", [](Trial& t) { t.what.epilogue = CUBLASLT_EPILOGUE_BIAS, t.what.bias = nullptr; }},
    {"the bias reaches over 64 bytes",
     [](Trial& t) { t.what.epilogue = CUBLASLT_EPILOGUE_BIAS, t.what.bias = t.room(m - 1); }},
    {"the bias is not aligned to the 256 bytes that the heuristics were told",
     [](Trial& t) {
       t.what.epilogue = CUBLASLT_EPILOGUE_BIAS;
       t.before_call = [](Trial& u) { set(u.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, u.room(2 * m) + 32); };
     }},
    {"the bias lies over D", [](Trial& t) { t.what.epilogue = CUBLASLT_EPILOGUE_BGRADB, t.what.bias = t.d; }},
    {"the algorithm needs a workspace of 65536 bytes, not 1024", [](Trial& t) { t.workspace_bytes = 1024; }},
    {"the workspace reaches over 131072 bytes", [](Trial& t) { t.workspace_bytes = 1 << 17; }},
    {"the workspace is not in device memory", [](Trial& t) { t.workspace = reinterpret_cast<char*>(&t.alpha); }},
    {"the workspace is not aligned to the 256 bytes", [](Trial& t) { t.workspace = t.room(1 << 15) + 16; }},
    {"the workspace lies over A", [](Trial& t) { t.a = t.workspace; }},
};

const Fault object_faults[] = {
    {"the handle does not live", [](Trial& t) { t.before_call = [](Trial& u) { cublasLtDestroy(u.handle); }; }},
    {"the description of the product does not live",
     [](Trial& t) { t.before_call = [](Trial& u) { cublasLtMatmulDescDestroy(u.description); }; }},
    {"the layout of B does not live",
     [](Trial& t) { t.before_call = [](Trial& u) { cublasLtMatrixLayoutDestroy(u.layout[1]); }; }},
    {"no algorithm", [](Trial& t) { t.algorithm = nullptr; }},
    {"the algorithm is none that heuristics suggested",
     [](Trial& t) { t.before_call = [](Trial& u) { u.results[0] = {}; }; }},
    {"the algorithm was suggested for another problem",
     [](Trial& t) {
       t.what.epilogue = CUBLASLT_EPILOGUE_BIAS;
       t.before_call = [](Trial& u) { set(u.description, CUBLASLT_MATMUL_DESC_EPILOGUE, uint32_t{512}); };
     }},
    {"heuristics are asked for no algorithm", [](Trial& t) { t.asked = 0; }},
    {"CUBLASLT_MATMUL_DESC_TRANSA has 4 bytes, not 8",
     [](Trial& t) { t.before_call = [](Trial& u) { set(u.description, CUBLASLT_MATMUL_DESC_TRANSA, int64_t{0}); }; }},
    {"attribute 6 of a description is one that the fake does not know",
     [](Trial& t) { t.before_call = [](Trial& u) { set(u.description, CUBLASLT_MATMUL_DESC_FILL_MODE, 0); }; }},
    {"CUBLASLT_MATMUL_DESC_TRANSB is set from a null pointer",
     [](Trial& t) {
       t.before_call = [](Trial& u) {
         cublasLtMatmulDescSetAttribute(u.description, CUBLASLT_MATMUL_DESC_TRANSB, nullptr, 4);
       };
     }},
};

/// Everything that the fake says about a call, its objects' ends left out.
std::string said_about(const Fault& fault) {
  simt::lt_control() = {};
  Trial trial;
  fault.change(trial);
  const cublasStatus_t status = trial.run();
  std::string all;
  for (const std::string& violation : simt::lt_control().violations) all += violation + "\n";
  if (status != CUBLAS_STATUS_SUCCESS) all += cublasLtGetStatusString(status);
  return all;
}

template <size_t count>
void check_faults(const Fault (&faults)[count]) {
  for (const Fault& fault : faults) {
    ++faults_planted;
    const std::string said = said_about(fault);
    const bool found = said.find(fault.words) != std::string::npos;
    CHECK_MESSAGE(found, "expected '", std::string(fault.words), "', but it says '", said, "'");
    faults_found += found;
  }
}

}  // namespace

TEST_CASE("the right call of cublasLt is right") {
  simt::lt_control() = {};
  {
    Trial trial;
    CHECK(trial.run() == CUBLAS_STATUS_SUCCESS);
  }
  CHECK(simt::lt_control().violations.empty());
  CHECK(simt::lt_objects() == 0);
}

TEST_CASE("every misuse of cublasLt is found, in words") {
  check_faults(layout_faults);
  check_faults(type_faults);
  check_faults(operand_faults);
  check_faults(object_faults);
  simt::lt_control() = {};
}

TEST_CASE("objects of cublasLt that live too long, or are destroyed twice") {
  cublasLtMatrixLayout_t layout = nullptr;
  cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 2, 2, 2);
  CHECK(simt::lt_objects() == 1);
  CHECK(cublasLtMatrixLayoutDestroy(layout) == CUBLAS_STATUS_SUCCESS);
  CHECK(simt::lt_objects() == 0);
  CHECK(cublasLtMatrixLayoutDestroy(layout) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(std::string(cublasLtGetStatusString(CUBLAS_STATUS_INVALID_VALUE)) ==
        "a layout is destroyed that does not live");
  simt::lt_control() = {};
}

TEST_CASE("a product of cublasLt that waits in its stream: what is freed meanwhile, what is read too early") {
  simt::lt_control() = {};
  const simt::OptionsGuard guard({.deferred = true});
  Trial trial;
  std::memset(trial.a, 0, m * k * sizeof(float));
  std::memset(trial.b, 0, k * n * sizeof(float));
  CHECK(trial.run() == CUBLAS_STATUS_SUCCESS);
  float first = 0;
  std::memcpy(&first, trial.d, sizeof first);
  CHECK(first != first);
  simt::synchronize(nullptr);
  std::memcpy(&first, trial.d, sizeof first);
  CHECK(first == 0.0f);
  Trial late;
  CHECK(late.run() == CUBLAS_STATUS_SUCCESS);
  simt::device_free(std::exchange(late.rooms[1], nullptr));
  CHECK_THROWS_WITH_AS(simt::synchronize(nullptr), doctest::Contains("later: B reaches over 768 bytes"), simt::Error);
}

}  // namespace mixtape::simt_tests
