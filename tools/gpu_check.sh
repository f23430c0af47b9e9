#!/usr/bin/env bash
# What only a GPU can show, in one go and under 9 minutes; tools/gpu_check.sh --help says what. The work is in gpu_check.py.
set -euo pipefail
if ! command -v python3 >/dev/null; then
  echo "gpu_check: python3 is missing" >&2
  exit 5
fi
exec python3 "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/gpu_check.py" "$@"
