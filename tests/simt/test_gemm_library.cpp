// What products ask of the library: sums out of the same pass, workspaces, suggestions that are kept, and its refusals.
#include <doctest/doctest.h>

#include "core/context.h"
#include "core/error.h"
#include "tests/simt/gemm_both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::transposed;

/// The error of a call, in words; empty when it succeeded.
template <class F>
std::string gemm_error(const F& f) {
  try {
    f();
  } catch (const mixtape::Error& error) {
    return error.code() + " " + error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("the gradient of a bias comes with the gradient of its weight") {
  for (const bool refused : {false, true}) {
    const GemmSession session;
    CAPTURE(refused);
#if defined(MIXTAPE_SIMT)
    simt::lt_control().refuses_sums = refused;
#endif
    for (const DType dtype : float_types) {
      constexpr int64_t rows = 37, in = 9, out = 14;
      const Pair dy(numbers({rows, out}, dtype, 1)), x(numbers({rows, in}, dtype, 2)), dw({out, in}, DType::f32),
          db({out}, DType::f32), along_x({in}, DType::f32), low({out, in}, dtype);
      check_both("linear", {&dw, &db}, rows,
                 [&](const auto& on) { multiply(on, transposed(on(dy)), on(x), on(dw), {}, {.a_sums = on(db)}); });
      check_both("linear", {&dw, &along_x}, rows,
                 [&](const auto& on) { multiply(on, transposed(on(dy)), on(x), on(dw), {}, {.b_sums = on(along_x)}); });
      check_both("linear", {&low, &db, &along_x}, rows, [&](const auto& on) {
        multiply(on, transposed(on(dy)), on(x), on(low), {.alpha = 0.5}, {.a_sums = on(db), .b_sums = on(along_x)});
      });
      const Pair sum(numbers({out, in}, DType::f32, 3));
      check_both("linear", {&sum, &db}, rows + 1, [&](const auto& on) {
        multiply(on, transposed(on(dy)), on(x), on(sum), {.accumulate = true}, {.a_sums = on(db)});
      });
    }
  }
}

TEST_CASE("errors of products name who asked") {
  const GemmSession session;
  const Pair a(numbers({3, 4}, DType::f32, 1)), b(numbers({4, 5}, DType::f32, 2)), c({3, 5}, DType::f32),
      sums({5}, DType::f32);
  using kernels::device::library_gemm;
  CHECK(gemm_error([&] { library_gemm(a.device(), a.device(), c.device(), {}, {.op = "linear"}); }) ==
        "E-GEMM linear: [3, 4] x [3, 4] does not give [3, 5]");
  CHECK(gemm_error([&] { library_gemm(a.host(), b.device(), c.device(), {}, {.op = "linear"}); }) ==
        "E-DEVICE linear: a product on a GPU has an operand on the CPU");
  CHECK(gemm_error(
            [&] { library_gemm(a.device(), b.device(), c.device(), {}, {.op = "linear", .a_sums = sums.device()}); }) ==
        "E-GEMM linear: sums of a product's operand are f32 vectors [m] and [n], without batch axes, for [3, 4] x [4, "
        "5]");
#if defined(MIXTAPE_SIMT)
  simt::lt_control().algorithms = 0;
  const Scope scope("encoder");
  CHECK(gemm_error([&] { library_gemm(a.device(), b.device(), c.device(), {}, {.op = "linear"}); }) ==
        "E-CUDA-GEMM linear: the product of f32 [1, 3, 4] x [1, 4, 5] -> f32: cublasLt has no algorithm for "
        "it (in encoder)");
#endif
}

#if defined(MIXTAPE_SIMT)

namespace {

/// A product that runs `times` times.
void gemm_times(int times, int64_t m, DType dtype = DType::f32, const Pair* bias = nullptr) {
  const Pair a(numbers({m, 16}, dtype, 1)), b(numbers({16, 8}, dtype, 2)), c({m, 8}, dtype);
  for (int i = 0; i < times; ++i) {
    kernels::device::library_gemm(a.device(), b.device(), c.device(),
                                  bias ? GemmOptions{.bias = bias->device()} : GemmOptions{});
  }
}

}  // namespace

TEST_CASE("the library is asked once for each kind of product") {
  const GemmSession session;
  simt::LtControl& control = simt::lt_control();
  gemm_times(3, 24);
  CHECK(control.heuristics == 1);
  gemm_times(2, 24);  // other memory, the same kind
  CHECK(control.heuristics == 1);
  gemm_times(1, 32);
  gemm_times(1, 24, DType::bf16);
  CHECK(control.heuristics == 3);
  const Pair bias(numbers({8}, DType::f32, 3)), other(numbers({8}, DType::f32, 4));
  gemm_times(1, 24, DType::f32, &bias);
  gemm_times(1, 24, DType::f32, &other);
  CHECK(control.heuristics == 4);
  CHECK(control.products == 9);
  const Pair a(numbers({24, 17}, DType::f32, 1)), b(numbers({16, 8}, DType::f32, 2)), c({24, 8}, DType::f32);
  for (const int64_t start : {0, 1, 1}) {  // the same numbers, from an address that is less aligned: another kind
    kernels::device::library_gemm(kernels::section(a.device(), 1, start, 16), b.device(), c.device());
  }
  CHECK(control.heuristics == 6);
}

TEST_CASE("a bias that is not f32's own goes through f32, unless it may be rounded") {
  const GemmSession session;
  const simt::LtControl& control = simt::lt_control();
  const Pair a(numbers({24, 16}, DType::bf16, 1)), b(numbers({16, 8}, DType::bf16, 2)),
      bias(numbers({8}, DType::f32, 3)), c({24, 8}, DType::bf16);
  const int64_t before = simt::counts().launches;
  kernels::device::library_gemm(a.device(), b.device(), c.device(), {.bias = bias.device()});
  CHECK(simt::counts().launches == before + 1);  // the rounding of the whole output
  kernels::device::library_gemm(a.device(), b.device(), c.device(), {.bias = bias.device()}, {.low_bias = true});
  CHECK(simt::counts().launches == before + 2);             // the rounding of the bias
  CHECK(control.epilogues == std::vector<uint32_t>{4, 4});  // CUBLASLT_EPILOGUE_BIAS
}

TEST_CASE("the fastest suggestion is found at the first call, and changes nothing else") {
  const GemmSession session;
  simt::LtControl& control = simt::lt_control();
  int timed = 0;
  const auto second_is_fastest = [&](kernels::device::Stream, const std::function<void()>& run) {
    run();
    return timed++ == 1 ? 1.0 : 2.0;
  };
  kernels::device::tune_gemm(second_is_fastest, 3);
  const Pair a(numbers({16, 16}, DType::f32, 1)), b(numbers({16, 8}, DType::f32, 2)),
      c(numbers({16, 8}, DType::f32, 3)), bias(numbers({8}, DType::f32, 4));
  for (int i = 0; i < 3; ++i) {
    kernels::device::library_gemm(a.device(), b.device(), c.device(), {.bias = bias.device(), .accumulate = true});
  }
  CHECK(timed == 3);
  CHECK(control.ran == std::vector<uint64_t>{0, 1, 2, 1, 1, 1});
  for (int i = 0; i < 3; ++i) {
    kernels::gemm(a.host(), b.host(), c.host(), {.bias = bias.host(), .accumulate = true});
  }
  check_near(c.host_values(), c.device_values(), DType::f32, 3 * 18);
  CHECK(control.heuristics == 1);
}

TEST_CASE("products of two streams do not share a workspace") {
  const GemmSession session;
  const Pair a(numbers({32, 16}, DType::f32, 1)), b(numbers({16, 8}, DType::f32, 2)), c({32, 8}, DType::f32),
      d({32, 8}, DType::f32);
  const simt::OptionsGuard guard({.deferred = true});
  cudaStream_t streams[2] = {};
  for (cudaStream_t& stream : streams) check_cuda(cudaStreamCreate(&stream), "stream");
  kernels::device::library_gemm(a.device(), b.device(), c.device(), {}, {.stream = streams[0]});
  kernels::device::library_gemm(a.device(), b.device(), d.device(), {}, {.stream = streams[1]});
  check_cuda(cudaStreamSynchronize(streams[1]), "synchronise");
  CHECK(std::isnan(c.device_values()[0]));  // still waits
  check_cuda(cudaStreamSynchronize(streams[0]), "synchronise");
  CHECK(c.device_values() == d.device_values());
  CHECK(simt::lt_control().workspaces.size() == 2);
  for (cudaStream_t stream : streams) check_cuda(cudaStreamDestroy(stream), "stream");
}

#endif

}  // namespace mixtape::simt_tests
