#!/usr/bin/env bash
# The event files of a run, read by the real TensorBoard and compared with its log: tests/tensorboard_reads.sh BUILD_DIR
# It comes from PyPI into build/tensorboard. Without Python or PyPI this says so and exits 77.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

build=${1:?usage: tests/tensorboard_reads.sh BUILD_DIR}
packages=$PWD/build/tensorboard
if [[ ! -x $packages/bin/python ]] || ! "$packages/bin/python" -c 'import tensorboard.backend.event_processing' 2>/dev/null; then
  if ! { python3 -m venv "$packages" && "$packages/bin/pip" install -q --disable-pip-version-check tensorboard 'setuptools<81'; } then
    echo "skipped: tensorboard cannot be installed from PyPI"
    exit 77
  fi
fi
"$packages/bin/python" tests/tensorboard_reads.py "$build/bin/mixtape"
