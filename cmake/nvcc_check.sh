#!/usr/bin/env bash
# Compiles the first three rows as CUDA for sm_90a, so that the signatures stay honest; nothing is linked or run.
# Exit code 77: there is no nvcc.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
if [[ ! -x $nvcc ]]; then
  echo "skipped: no nvcc, so no row was compiled as CUDA"
  exit 77
fi
mkdir -p build/nvcc
for op in gelu layer_norm linear; do
  "$nvcc" -x cu -std=c++20 -arch=sm_90a -I. -Xcompiler -fopenmp,-ffp-contract=off -Werror all-warnings \
    -c "ops/$op.cpp" -o "build/nvcc/$op.o"
done
echo "nvcc: gelu, layer_norm and linear compile for sm_90a"
