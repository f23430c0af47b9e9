#!/usr/bin/env bash
# Attention's graphs, forward and backward, checked by the real cuDNN for an H200: is there an engine that runs each, and
# are wrong ones refused. No GPU is needed. Exit code 77: there is no cuDNN that can be asked without one (9.11).
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
header=$toolkit/include/cudnn_version.h
if [[ ! -e $header || ! -e $toolkit/lib64/libcudnn.so ]]; then
  echo "skipped: no cuDNN beside $nvcc, so no graph was checked"
  exit 77
fi
version=$(awk '$2 ~ /^CUDNN_(MAJOR|MINOR)$/ { v = 100 * v + $3 } END { print v }' "$header")
if ((version < 911)); then
  echo "skipped: this cuDNN cannot check a graph without a GPU (9.11 can)"
  exit 77
fi
out=build/nvcc/cudnn
mkdir -p $out/driver
g++ -std=c++20 -O1 -I. -isystem "$toolkit/include" -Wall -Wextra -Wpedantic -Wshadow -Werror \
  core/kernels/attention_cudnn.cpp tests/simt/cudnn_graphs.cpp core/error.cpp core/dtype.cpp -o $out/graphs \
  -L"$toolkit/lib64" -lcudnn -Wl,-rpath,"$toolkit/lib64"
# The library loads the driver before it says what it supports; where there is none, the toolkit's stub does for that.
if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1 '; then
  ln -sfn "$toolkit/lib64/stubs/libcuda.so" $out/driver/libcuda.so.1
  export LD_LIBRARY_PATH=$PWD/$out/driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
$out/graphs
