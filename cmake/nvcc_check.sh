#!/usr/bin/env bash
# Compiles for sm_90a, so that what tests execute on the CPU is CUDA too: the module of device code, which is linked and
# which build/release/bin/mixtape_tests and doctor load, and every kernel of tests/simt, linked into what
# tools/gpu_check.sh runs on a GPU. Nothing is run on one. What the assembler says of registers and spills stays in
# build/release/cuda/*.log for tools/kernel_report, which fails if a hot kernel spills. Exit code 77: there is no nvcc.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [[ ! -x $nvcc ]]; then
  echo "skipped: no nvcc, so nothing was compiled as CUDA"
  exit 77
fi
mkdir -p build/nvcc
cmake --preset release >build/nvcc/configure.log
cmake --build build/release --target mixtape_gpu_tests mixtape_tests
build/release/bin/mixtape_tests --source-file='*/test_device.cpp,*/test_doctor.cpp'
doctor=$(build/release/bin/mixtape doctor | sed -n '/^cuda/,$p')
printf '%s\n' "$doctor"
if [[ $doctor != *"module $PWD/build/release/lib/libmixtape_cuda.so, compiled for sm_90a ptx_90a"* ]]; then
  echo "doctor does not tell what was built"
  exit 1
fi
sources=(tests/simt/test_*.cpp)
echo "nvcc: the module of device code and ${#sources[@]} files of kernels compile for sm_90a"
if command -v python3 >/dev/null; then
  tools/fatbin_list.py --expect sm_90a,ptx_90a build/release/lib/libmixtape_cuda.so
  tools/kernel_report
fi
