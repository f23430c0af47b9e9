#!/usr/bin/env bash
# Compiles for sm_90a, so that what tests execute on the CPU is CUDA too: the module of device code, which is linked and
# which build/release/bin/mixtape_tests loads, and every kernel of tests/simt. Nothing is run on a GPU. What the assembler
# says of registers and spills stays in build/nvcc/*.log for tools/kernel_report, which fails if a hot kernel spills.
# Exit code 77: there is no nvcc.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [[ ! -x $nvcc ]]; then
  echo "skipped: no nvcc, so nothing was compiled as CUDA"
  exit 77
fi
mkdir -p build/nvcc
rm -f build/nvcc/*.log
cmake --preset release >build/nvcc/configure.log
cmake --build build/release --target mixtape_cuda mixtape_tests
build/release/bin/mixtape_tests --source-file='*/test_device.cpp'
if command -v python3 >/dev/null; then tools/fatbin_list.py --expect sm_90a,ptx_90a build/release/lib/libmixtape_cuda.so; fi

sources=(tests/simt/test_*.cpp)
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -c \
  'to=build/nvcc/$(basename "$1" .cpp)
   "$0" -x cu -std=c++20 -arch=sm_90a -I. -Xcompiler -fopenmp,-ffp-contract=off -Werror all-warnings -Xptxas -v \
     -c "$1" -o "$to.o" 2>"$to.log" || { cat "$to.log"; echo "nvcc: $1 does not compile for sm_90a"; exit 1; }' \
  "$nvcc" {}
echo "nvcc: the module of device code and ${#sources[@]} files of kernels compile for sm_90a"
if command -v python3 >/dev/null; then tools/kernel_report; fi
