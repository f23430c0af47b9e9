// The library's functions: objects, attributes, suggestions, calls. The rules stand in cublaslt_rules.cpp.
#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include "tests/simt/cublaslt_fake.h"
#include "tests/simt/runner.h"

namespace mixtape::simt {

void enqueue(cudaStream_t stream, std::function<void()> work);  // of the runner's cuda_runtime.h

namespace {

static_assert(sizeof(LtAlgorithm) <= sizeof(cublasLtMatmulAlgo_t));

struct Fake {
  LtControl control;
  std::string sentence;
  std::set<const void*> handles;
  std::map<const void*, std::unique_ptr<LtLayout>> layouts;
  std::map<const void*, std::unique_ptr<LtDescription>> descriptions;
  std::map<const void*, std::unique_ptr<LtPreference>> preferences;
};
Fake& fake() {
  static Fake instance;
  return instance;
}

cublasStatus_t refuse(cublasStatus_t status, const std::string& sentence) {
  fake().sentence = sentence;
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) fake().control.violations.push_back(sentence);
  return status;
}
cublasStatus_t misuse(const std::string& sentence) { return refuse(CUBLAS_STATUS_INVALID_VALUE, sentence); }

// ---- objects of one kind ----

template <class Object>
using Objects = std::map<const void*, std::unique_ptr<Object>>;

/// The opaque pointers are ours: what they point to is a word, so that no code can look inside.
template <class Pointer, class Object>
cublasStatus_t make(Objects<Object>& all, Pointer* out, const Object& object) {
  *out = reinterpret_cast<Pointer>(::operator new(1));
  all[*out] = std::make_unique<Object>(object);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Object>
cublasStatus_t destroy(Objects<Object>& all, void* pointer, const char* kind) {
  if (all.erase(pointer) == 0) return misuse(std::string("a ") + kind + " is destroyed that does not live");
  ::operator delete(pointer);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Object>
cublasStatus_t set(Objects<Object>& all, const void* pointer, const char* kind,
                   const std::vector<LtAttribute>& attributes, int number, const void* from, size_t bytes) {
  const auto object = all.find(pointer);
  if (object == all.end()) return misuse(std::string("an attribute is set of a ") + kind + " that does not live");
  for (const LtAttribute& attribute : attributes) {
    if (attribute.number != number) continue;
    if (!from) return misuse(std::string(attribute.name) + " is set from a null pointer");
    if (bytes != attribute.bytes) {
      return misuse(std::string(attribute.name) + " has " + std::to_string(attribute.bytes) + " bytes, not " +
                    std::to_string(bytes));
    }
    std::memcpy(reinterpret_cast<char*>(object->second.get()) + attribute.offset, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  return misuse("attribute " + std::to_string(number) + " of a " + kind + " is one that the fake does not know");
}

/// False, with the status to return, when one of the objects does not live.
bool collect(cublasLtHandle_t handle, const void* what, const void* const (&layouts)[4], LtProblem& problem,
             cublasStatus_t& status) {
  Fake& f = fake();
  status = CUBLAS_STATUS_SUCCESS;
  if (f.handles.count(handle) == 0) {
    status = refuse(CUBLAS_STATUS_NOT_INITIALIZED, "the handle does not live");
  } else if (f.descriptions.count(what) == 0) {
    status = misuse("the description of the product does not live");
  }
  LtLayout* into[4] = {&problem.a, &problem.b, &problem.c, &problem.d};
  for (int i = 0; i < 4 && status == CUBLAS_STATUS_SUCCESS; ++i) {
    const auto found = f.layouts.find(layouts[i]);
    if (found == f.layouts.end()) {
      status = misuse(std::string("the layout of ") + "ABCD"[i] + " does not live");
    } else {
      *into[i] = *found->second;
    }
  }
  if (status != CUBLAS_STATUS_SUCCESS) return false;
  problem.what = *f.descriptions.at(what);
  if (const std::string wrong = lt_misuse(problem); !wrong.empty()) status = misuse(wrong);
  return status == CUBLAS_STATUS_SUCCESS;
}

uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  return static_cast<uint32_t>(std::min<uintptr_t>(address == 0 ? 256 : address & (~address + 1), 256));
}

/// Three algorithms: one of vector loads that splits k and needs workspace, one of vector loads, one that takes all.
bool serves(uint64_t id, const LtProblem& problem, const LtPreference& preference) {
  if (id == 2) return true;
  for (const uint32_t alignment : preference.alignment) {
    if (alignment < 16) return false;
  }
  for (const LtLayout* layout : {&problem.a, &problem.b, &problem.d}) {
    if (layout->ld % 8 != 0 || layout->batch_stride % 8 != 0) return false;
  }
  return id == 1 || preference.workspace >= lt_split_workspace;
}

}  // namespace

LtControl& lt_control() { return fake().control; }
size_t lt_objects() {
  return fake().handles.size() + fake().layouts.size() + fake().descriptions.size() + fake().preferences.size();
}

}  // namespace mixtape::simt

using namespace mixtape::simt;

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INVALID_VALUE";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t) { return fake().sentence.c_str(); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = static_cast<cublasLtHandle_t>(::operator new(1));
  fake().handles.insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (fake().handles.erase(handle) == 0) return misuse("a handle is destroyed that does not live");
  ::operator delete(handle);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld) {
  LtLayout made;
  made.type = static_cast<uint32_t>(type);
  made.rows = rows;
  made.columns = columns;
  made.ld = ld;
  return make(fake().layouts, layout, made);
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(fake().layouts, layout, "layout");
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* from,
                                                size_t bytes) {
  return set(fake().layouts, layout, "layout", lt_layout_attributes(), attribute, from, bytes);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* what, cublasComputeType_t compute, cudaDataType_t scale) {
  LtDescription made;
  made.compute = compute;
  made.scale = scale;
  return make(fake().descriptions, what, made);
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t what) {
  return destroy(fake().descriptions, what, "description");
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t what, cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, size_t bytes) {
  return set(fake().descriptions, what, "description", lt_description_attributes(), attribute, from, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return make(fake().preferences, preference, LtPreference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(fake().preferences, preference, "preference");
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* from,
                                                    size_t bytes) {
  return set(fake().preferences, preference, "preference", lt_preference_attributes(), attribute, from, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t what,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int most,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  *count = 0;
  LtProblem problem;
  cublasStatus_t status;
  if (!collect(handle, what, {a, b, c, d}, problem, status)) return status;
  if (fake().preferences.count(wanted) == 0) return misuse("the preference does not live");
  if (most <= 0) return misuse("heuristics are asked for no algorithm");
  ++fake().control.heuristics;
  if (const std::string why = lt_unsupported(problem); !why.empty()) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why);
  const LtPreference& preference = *fake().preferences.at(wanted);
  for (uint64_t id = 0; id < 3 && *count < std::min(most, fake().control.algorithms); ++id) {
    if (!serves(id, problem, preference)) continue;
    LtAlgorithm algorithm{lt_magic, id, problem.fingerprint(), id == 0 ? lt_split_workspace : 0, {}};
    std::copy(preference.alignment, preference.alignment + 4, algorithm.alignment);
    algorithm.alignment[4] = alignment_of(problem.what.bias);
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    std::memcpy(&result.algo, &algorithm, sizeof algorithm);
    result.workspaceSize = algorithm.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t what, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  LtProblem problem;
  cublasStatus_t status;
  if (!collect(handle, what, {a_layout, b_layout, c_layout, d_layout}, problem, status)) return status;
  if (const std::string why = lt_unsupported(problem); !why.empty()) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, why);
  if (!chosen) return misuse("no algorithm: the library would ask its heuristics at every call");
  LtAlgorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  const LtOperands operands{alpha, a, b, beta, c, d, workspace, workspace_bytes};
  if (const std::string wrong = lt_misuse(problem, operands, algorithm); !wrong.empty()) return misuse(wrong);
  LtControl& control = fake().control;
  ++control.products;
  control.ran.push_back(algorithm.id);
  control.epilogues.push_back(problem.what.epilogue);
  control.workspaces.insert(workspace);
  const float by = *static_cast<const float*>(alpha), keeps = *static_cast<const float*>(beta);
  enqueue(stream, [=] {
    // What was freed before the stream came here is an error of the caller's that a GPU may not show.
    if (const std::string wrong = lt_misuse(problem, operands, algorithm); !wrong.empty())
      throw Error("later: " + wrong);
    lt_multiply(problem, operands, by, keeps, algorithm.id);
  });
  return CUBLAS_STATUS_SUCCESS;
}
