#!/usr/bin/env bash
# Matrix products for the real cublasLt: compiled by nvcc and g++ for sm_90a, linked into a shared object; and the
# attributes that the checking fake of tests/simt knows, held against the library. No GPU is needed. Exit code 77: there
# is no CUDA toolkit.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
if [[ ! -x $nvcc || ! -e $toolkit/lib64/libcublasLt.so ]]; then
  echo "skipped: no nvcc or no cublasLt, so no matrix product was linked with it"
  exit 77
fi
out=build/nvcc/cublaslt
mkdir -p $out
host=(-std=c++20 -O1 -fPIC -I. -isystem "$toolkit/include" -Wall -Wextra -Wpedantic -Wshadow -Werror)
"$nvcc" -x cu -std=c++20 -arch=sm_90a -I. -Xcompiler -fPIC,-fopenmp,-ffp-contract=off -Werror all-warnings \
  -c core/kernels/gemm_cuda.cpp -o $out/gemm_cuda.o
g++ "${host[@]}" -c core/kernels/gemm_cublaslt.cpp -o $out/gemm_cublaslt.o
"$nvcc" -shared $out/gemm_cuda.o $out/gemm_cublaslt.o -o $out/libproducts.so -lcublasLt
readelf -d $out/libproducts.so | grep -q 'NEEDED.*libcublasLt' || { echo "libproducts.so does not need cublasLt"; exit 1; }
if missing=$(nm -D --undefined-only $out/libproducts.so | awk '{ print $NF }' | grep '^cublasLt' |
  sed 's/@.*//' | sort -u | comm -23 - <(nm -D --defined-only "$toolkit/lib64/libcublasLt.so" | awk '{ print $NF }' | sed 's/@.*//' | sort -u)) && [[ -n $missing ]]; then
  echo "cublasLt does not have: $missing"
  exit 1
fi
if command -v python3 >/dev/null; then tools/fatbin_list.py $out/libproducts.so; fi
g++ "${host[@]}" tests/simt/cublaslt_sizes.cpp tests/simt/cublaslt_attributes.cpp -o $out/sizes \
  -L"$toolkit/lib64" -lcublasLt -Wl,-rpath,"$toolkit/lib64"
$out/sizes
