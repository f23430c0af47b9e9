#include "tools/config/build_info.h"

#include "core/error.h"
#include "core/kernels/gemm.h"

namespace mixtape::config {
namespace {

std::string compiled_instructions() {
  std::string out;
#ifdef __AVX2__
  out += " avx2";
#endif
#ifdef __FMA__
  out += " fma";
#endif
#ifdef __F16C__
  out += " f16c";
#endif
#ifdef __AVX512F__
  out += " avx512f";
#endif
#ifdef __AVX512BF16__
  out += " avx512_bf16";
#endif
#ifdef __AMX_BF16__
  out += " amx_bf16";
#endif
  return out.empty() ? "baseline" : out.substr(1);
}

}  // namespace

BuildInfo build_info() {
#ifdef __clang__
  const std::string compiler = message("clang++ ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  const std::string compiler = message("g++ ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
  return {MIXTAPE_VERSION,        compiler,
          MIXTAPE_ARCH_NAME,      compiled_instructions(),
          kernels::gemm_engine(), kernels::gemm_engine_version()};
}

}  // namespace mixtape::config
