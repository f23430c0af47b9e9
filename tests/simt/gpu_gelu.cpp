// Which GELU the epilogue of cublasLt is: on a GPU, against the exact one (erf) and the tanh approximation, both in
// f64. A line for each dtype. `--self-test` judges made-up results instead; `--dry-run` stops before it needs a device.
// exit 0 one of the two, the same in every dtype  1 neither, or a call failed  2 usage  5 there is no device
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace mixtape::simt_tests {
namespace {

constexpr int inner = 16, columns = 16;  // of the product: whole words of 16 bytes in every dtype
constexpr int rows = 16384;
constexpr double widest_x = 8;  // beyond it both are x or 0
constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};

double gelu_erf(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
// Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
double gelu_tanh(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }

/// One rounding to `dtype`, and what tanh.approx is off by (2^-11 of the result: PTX ISA), which 1 + tanh passes on.
double bound(double x, DType dtype) {
  return eps(dtype) * std::abs(gelu_erf(x)) + std::abs(x) * 0.5 * std::ldexp(1.0, -11) + 1e-7;
}

struct Judged {
  double from_erf = 0, from_tanh = 0;    ///< the largest distances
  double worst_erf = 0, worst_tanh = 0;  ///< the same in bounds
  double share = 0;                      ///< how far on the way from erf (0) to tanh (1) the results lie
  std::string verdict() const {
    if (share > 0.75 && worst_tanh <= 1) return "tanh";
    if (share < 0.25 && worst_erf <= 1) return "erf";
    return "neither";
  }
};

Judged judge(const std::vector<double>& x, const std::vector<double>& y, DType dtype) {
  Judged j;
  double along = 0, whole = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double erf = gelu_erf(x[i]), way = gelu_tanh(x[i]) - erf, off = std::isfinite(y[i]) ? y[i] - erf : HUGE_VAL;
    j.from_erf = std::max(j.from_erf, std::abs(off));
    j.from_tanh = std::max(j.from_tanh, std::abs(off - way));
    j.worst_erf = std::max(j.worst_erf, std::abs(off) / bound(x[i], dtype));
    j.worst_tanh = std::max(j.worst_tanh, std::abs(off - way) / bound(x[i], dtype));
    const double noise = bound(x[i], dtype);  // where results are small, 16 bits tell the two apart
    along += off * way / (noise * noise);
    whole += way * way / (noise * noise);
  }
  j.share = along / whole;
  return j;
}

double rounded(double value, DType dtype) {
  double out = 0;
  dispatch_float(dtype, "gelu", [&]<class T>(TypeTag<T>) { out = convert_to<double>(convert_to<T>(value)); });
  return out;
}

std::vector<double> grid(DType dtype) {
  std::vector<double> x;
  for (int i = 0; i < rows; ++i) x.push_back(rounded(widest_x * (2.0 * i / (rows - 1) - 1), dtype));
  return x;
}

bool tell(DType dtype, const Judged& j, std::string& found) {
  std::printf("gelu epilogue %-5s from tanh %.3g, from erf %.3g, share of tanh %.3f: %s\n",
              std::string(name_of(dtype)).c_str(), j.from_tanh, j.from_erf, j.share, j.verdict().c_str());
  found += found.find(j.verdict()) == std::string::npos ? (found.empty() ? "" : " and ") + j.verdict() : "";
  return j.verdict() != "neither";
}

// ---- on a GPU ----

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) fail(ErrorKind::internal, "E-CUDA", message(what, ": ", cudaGetErrorString(status)));
}
void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    fail(ErrorKind::internal, "E-CUDA-GEMM", message(what, ": ", cublasLtGetStatusString(status)));
  }
}

/// Bytes on the device for the time of the process.
void* on_gpu(const std::vector<char>& bytes) {
  void* room = nullptr;
  check(cudaMalloc(&room, bytes.size()), "cudaMalloc");
  check(cudaMemcpy(room, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "copy to the device");
  return room;
}

cublasLtMatrixLayout_t layout(cudaDataType_t type, uint64_t r, uint64_t c) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, r, c, static_cast<int64_t>(r)), "cublasLtMatrixLayoutCreate");
  return made;
}

/// d = gelu(b·a), by columns: a [inner, columns] is 1 in its first row, b [rows, inner] holds x in its first column.
void multiply(cudaDataType_t type, void* b, void* a, void* d) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  cublasLtMatmulDesc_t what = nullptr;
  check(cublasLtMatmulDescCreate(&what, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_GELU;
  check(cublasLtMatmulDescSetAttribute(what, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue), "epilogue");
  const cublasLtMatrixLayout_t bl = layout(type, rows, inner), al = layout(type, inner, columns),
                               dl = layout(type, rows, columns);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(handle, what, &one, b, bl, a, al, &zero, d, dl, d, dl, nullptr, nullptr, 0, nullptr),
        "cublasLtMatmul with the epilogue GELU");
  check(cudaDeviceSynchronize(), "waiting for the device");
}

Judged measure(DType dtype) {
  const std::vector<double> x = grid(dtype);
  const auto size = static_cast<size_t>(size_of(dtype));
  std::vector<char> b(rows * inner * size), a(inner * columns * size), d(rows * columns * size);
  std::vector<double> y(rows);
  dispatch_float(dtype, "gelu", [&]<class T>(TypeTag<T>) {
    const auto put = [](std::vector<char>& to, size_t at, double value) {
      const T bits = convert_to<T>(value);
      std::memcpy(to.data() + at * sizeof(T), &bits, sizeof bits);
    };
    for (size_t i = 0; i < x.size(); ++i) put(b, i, x[i]);
    for (size_t column = 0; column < columns; ++column) put(a, column * inner, 1);
    void* const result = on_gpu(d);
    const cudaDataType_t type = dtype == DType::f16 ? CUDA_R_16F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
    multiply(type, on_gpu(b), on_gpu(a), result);
    check(cudaMemcpy(d.data(), result, d.size(), cudaMemcpyDeviceToHost), "copy from the device");
    for (size_t i = 0; i < y.size(); ++i) {
      T bits;
      std::memcpy(&bits, d.data() + i * sizeof(T), sizeof bits);
      y[i] = convert_to<double>(bits);
    }
  });
  return judge(x, y, dtype);
}

int run(bool dry) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (dry || status != cudaSuccess || count == 0) {
    std::printf("gelu epilogue: cublasLt %zu; devices: %s\n", cublasLtGetVersion(),
                status == cudaSuccess ? std::to_string(count).c_str() : cudaGetErrorString(status));
    return dry ? 0 : 5;
  }
  std::string found;
  bool well = true;
  for (const DType dtype : dtypes) well = tell(dtype, measure(dtype), found) && well;
  std::printf("gelu epilogue: %s\n", found.c_str());
  return well && found.find(' ') == std::string::npos ? 0 : 1;
}

/// Results of a GELU that is known, as the hardware might make them; the last kinds are wrong ones.
int self_test() {
  using Formula = double (*)(double);
  const struct {
    const char* name;
    Formula f;
    const char* verdict;
  } cases[] = {{"erf", gelu_erf, "erf"},
               {"tanh", gelu_tanh, "tanh"},
               {"tanh.approx", [](double x) { return gelu_tanh(x) + x * std::ldexp(std::sin(9 * x), -13); }, "tanh"},
               {"x * sigmoid(1.702 x)", [](double x) { return x / (1 + std::exp(-1.702 * x)); }, "neither"},
               {"half-way", [](double x) { return 0.5 * (gelu_erf(x) + gelu_tanh(x)); }, "neither"},
               {"no GELU", [](double x) { return x; }, "neither"},
               {"one NaN", [](double x) { return x > 7.999 ? NAN : gelu_tanh(x); }, "neither"}};
  int wrong = 0;
  for (const auto& [name, f, verdict] : cases) {
    for (const DType dtype : dtypes) {
      std::vector<double> x = grid(dtype), y;
      for (const double at : x) y.push_back(rounded(f(at), dtype));
      const std::string got = judge(x, y, dtype).verdict();
      if (got == verdict) continue;
      ++wrong;
      std::printf("self-test: %s in %s is judged as %s\n", name, std::string(name_of(dtype)).c_str(), got.c_str());
    }
  }
  std::printf("gpu_gelu self-test: %d wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace mixtape::simt_tests

int main(int count, char** words) try {
  const std::string word = count > 1 ? words[1] : "";
  if (count > 2 || (count == 2 && word != "--self-test" && word != "--dry-run")) {
    std::fprintf(stderr, "usage: %s [--dry-run|--self-test]\n", words[0]);
    return 2;
  }
  if (word == "--self-test") return mixtape::simt_tests::self_test();
  return mixtape::simt_tests::run(word == "--dry-run");
} catch (const mixtape::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
