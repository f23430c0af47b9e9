#!/usr/bin/env bash
# Scores, schema and token ids against the Python packages that others use: tests/against_python.sh BUILD_DIR
# They come from PyPI into build/pyenv. Without Python or PyPI this says so and exits 77.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

build=${1:?usage: tests/against_python.sh BUILD_DIR}
packages=$PWD/build/pyenv
if [[ ! -x $packages/bin/python ]] || ! "$packages/bin/python" -c 'import jsonschema, sklearn, tokenizers' 2>/dev/null; then
  if ! { python3 -m venv "$packages" && "$packages/bin/pip" install -q --disable-pip-version-check scikit-learn jsonschema tokenizers; } then
    echo "skipped: scikit-learn, jsonschema and tokenizers cannot be installed from PyPI"
    exit 77
  fi
fi

"$packages/bin/python" tests/metrics_against_sklearn.py "$build"
"$packages/bin/python" tests/schema_against_jsonschema.py "$build/bin/mixtape"
vocabulary=../shared/data/bert/vocab.txt
if [[ -e $vocabulary ]]; then
  "$packages/bin/python" tests/tokenizer_against_tokenizers.py "$build" "$vocabulary" 20000
else
  echo "skipped: no ../shared, so no vocabulary for tokenizer_against_tokenizers.py"
fi
