#!/usr/bin/env bash
# Builds and tests the op of this folder against an installed package: docs/extending/check.sh PREFIX
set -euo pipefail
prefix=${1:?usage: docs/extending/check.sh PREFIX (of cmake --install)}
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S "$here" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$build" >/dev/null
LD_LIBRARY_PATH="$prefix/lib:$prefix/lib/x86_64-linux-gnu" "$build/softplus" --op softplus
