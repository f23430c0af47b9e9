#!/usr/bin/env bash
# Builds the fuzz targets and runs each: tests/fuzz/run.sh [SECONDS [NAME...]], 5 seconds unless told otherwise.
# Ends in `N passed, N failed`. What a target found lies in build/fuzz/found. Exit code 77: no clang 14 with its runtime.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
export LC_ALL=C OMP_NUM_THREADS=1

seconds=${1:-5}
if [[ ! $seconds =~ ^[0-9]+$ ]]; then
  echo "usage: tests/fuzz/run.sh [SECONDS [NAME...]]   (names: the .cpp files beside it)" >&2
  exit 2
fi
runtime=$(clang++-14 -print-resource-dir 2>/dev/null || true)/lib/linux/libclang_rt.fuzzer-$(uname -m).a
if [[ ! -e $runtime ]]; then
  echo "skipped: no clang 14 with its fuzzer runtime (tools/setup --dev installs them)"
  exit 77
fi

names=("${@:2}")
if ((${#names[@]} == 0)); then
  for file in tests/fuzz/*.cpp; do
    name=$(basename "$file" .cpp)
    [[ $name == driver ]] || names+=("$name")
  done
fi
build=build/fuzz
mkdir -p "$build"
echo "fuzz: building ${names[*]}"
cmake --preset fuzz >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
ninja -C "$build" --quiet "${names[@]/#/bin/fuzz_}"
python3 tests/fuzz/seeds.py "$build/seeds"

passed=0 failed=0
mkdir -p "$build/found"
for name in "${names[@]}"; do
  corpus=$build/corpus/$name log=$build/$name.log options=()
  mkdir -p "$corpus"
  [[ -e $build/seeds/$name.dict ]] && options+=("-dict=$build/seeds/$name.dict")
  if "$build/bin/fuzz_$name" -max_total_time="$seconds" -timeout=1 -rss_limit_mb=512 -print_final_stats=1 "${options[@]}" \
    -artifact_prefix="$build/found/$name-" "$corpus" "$build/seeds/$name" >"$log" 2>&1; then
    passed=$((passed + 1)) word=ok
  else
    failed=$((failed + 1)) word=FAILED
    tail -n 40 "$log"
  fi
  runs=$(sed -nE 's/^stat::number_of_executed_units: *([0-9]+)$/\1/p' "$log")
  rss=$(sed -nE 's/^stat::peak_rss_mb: *([0-9]+)$/\1/p' "$log")
  echo "fuzz: $name: $word, ${runs:-?} runs in $seconds s, ${rss:-?} MB"
done
echo "$passed passed, $failed failed"
((failed == 0))
