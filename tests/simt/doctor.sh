#!/usr/bin/env bash
# doctor on a machine with a device, which is the device-on-CPU runner, and on one whose driver refuses: the program, with
# the runner's module as libmixtape_cuda.so. Usage: doctor.sh PROGRAM MODULE RUNNER
set -euo pipefail
program=$1 module=$2 runner=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/lib"
cp "$program" "$folder/bin/mixtape"
cp "$module" "$folder/lib/libmixtape_cuda.so"

# expect WORDS TEXT: what doctor said holds these words.
expect() {
  if [[ $2 != *"$1"* ]]; then
    printf 'doctor does not say "%s", but:\n%s\n' "$1" "$2"
    exit 1
  fi
}
there=$(LD_PRELOAD=$runner "$folder/bin/mixtape" doctor)
expect "cuda              module $folder/lib/libmixtape_cuda.so" "$there"
expect "CUDA 13.0 in the module, the driver knows CUDA up to 13.0" "$there"
expect "cuda:0 device-on-CPU runner, compute capability 9.0, 0.3 GiB" "$there"
there=$(LD_PRELOAD=$runner "$folder/bin/mixtape" doctor --json)
expect '"built":true,"usable":true,"reason":null' "$there"
expect '"devices":[{"name":"device-on-CPU runner","compute_capability":"9.0","memory_bytes":268435456' "$there"
refused=$(MIXTAPE_SIMT_NO_DEVICE=1 LD_PRELOAD=$runner "$folder/bin/mixtape" doctor)
expect "cuda              everything runs on the CPU: CUDA driver version is insufficient for CUDA runtime version (cudaGetDeviceCount: 35)" "$refused"
expect "CUDA 13.0 in the module, no driver that it could ask" "$refused"
refused=$(MIXTAPE_SIMT_NO_DEVICE=1 LD_PRELOAD=$runner "$folder/bin/mixtape" doctor --json)
expect '"built":true,"usable":false,"reason":"everything runs on the CPU: CUDA driver' "$refused"
expect '"error":"CUDA driver version is insufficient' "$refused"
broken=$("$folder/bin/mixtape" doctor)  # without the runner the module lacks what it is linked against
expect "cannot be loaded: $folder/lib/libmixtape_cuda.so: undefined symbol" "$broken"
echo "doctor: three machines as they are"
