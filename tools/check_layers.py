#!/usr/bin/env python3
"""Dependencies point down: no #include of a folder that stands above.

  check_layers.py              checks the tree; one line file:line for each wrong include, exit 1 if there is one
  check_layers.py --self-test  checks that the checker finds what it must
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cpp", ".cuh", ".cu", ".inc"}

LIBRARY = {"core", "autograd", "ops", "nn", "optim", "amp", "data", "models"}
TOOLS = {"tools/config", "tools/trainer", "tools/teach", "tools/inspect", "tools/draw", "tools/report"}
# Each layer, lowest first, and the layers it may include beside itself. A file belongs to the longest that its path
# starts with. Of the library, nobody includes amp: core owns the pointer to a cast rule, amp the rule.
LAYERS = {
    "core": set(),
    "autograd": {"core"},
    "ops": {"autograd", "core"},
    "nn": {"ops", "autograd", "core"},
    "optim": {"ops", "autograd", "core"},
    "amp": {"optim", "ops", "autograd", "core"},
    "data": {"core"},
    "models": {"nn", "ops", "autograd", "data", "core"},
    "tools/config": LIBRARY,
    "tools/trainer": LIBRARY | {"tools/config"},
    "tools/teach": LIBRARY | {"tools/config", "tools/trainer"},
    "tools/inspect": LIBRARY | {"tools/config", "tools/trainer"},
    "tools/draw": {"core", "tools/config"},
    "tools/report": LIBRARY | {"tools/config", "tools/trainer", "tools/inspect", "tools/draw"},
    "tools": LIBRARY | TOOLS,
    "tests": LIBRARY | TOOLS | {"tools"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def layer_of(path):
    folders = path.split("/")
    return next((layer for layer in ("/".join(folders[:2]), folders[0]) if layer in LAYERS), None)


def wrong_includes(path, text, exists):
    """Yields (line, message) for the file `path`, relative to the root; exists(path) says whether a file is there."""
    layer = layer_of(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        included = match.group(1)
        target = layer_of(included)
        if target is None or not exists(included):
            yield number, f'"{included}" is no file of the tree (write "folder/file.h", and <...> for libraries)'
        elif target != layer and target not in LAYERS[layer]:
            below = ", ".join(sorted(LAYERS[layer])) or "nothing"
            yield number, f'{layer} must not include {target} ("{included}"); it may include {below}'


def check_tree():
    wrong = files = 0
    for folder in sorted({layer.split("/")[0] for layer in LAYERS}):
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix not in SUFFIXES:
                continue
            files += 1
            path = file.relative_to(ROOT).as_posix()
            for line, message in wrong_includes(path, file.read_text(), lambda name: (ROOT / name).is_file()):
                wrong += 1
                print(f"{path}:{line}: {message}")
    print(f"layers: {files} files, {wrong} wrong includes")
    return 1 if wrong else 0


def self_test():
    """(including file, included file, allowed?)"""
    cases = [
        ("core/tensor.h", "core/kernels/gemm.h", True), ("core/tensor.h", "autograd/node.h", False),
        ("autograd/call.cpp", "core/tensor.h", True), ("autograd/call.cpp", "ops/ops.h", False),
        ("autograd/call.cpp", "amp/policy.h", False), ("ops/add.cpp", "amp/autocast.h", False),
        ("nn/module.h", "amp/autocast.h", False), ("optim/adamw.cpp", "amp/grad_scaler.h", False),
        ("models/bert.h", "amp/autocast.h", False), ("models/bert.h", "nn/module.h", True),
        ("models/bert.h", "tools/config/fields.h", False), ("amp/grad_scaler.h", "optim/optimizer.h", True),
        ("data/vocab.h", "core/error.h", True), ("data/vocab.h", "ops/ops.h", False),
        ("tools/config/fields.h", "tools/trainer/trainer.h", False),
        ("tools/trainer/trainer.h", "tools/config/fields.h", True),
        ("tools/trainer/trainer.h", "tools/verbs.h", False), ("tools/train.cpp", "tools/trainer/trainer.h", True),
        ("tools/train.cpp", "tests/shared.h", False), ("tests/test_half.cpp", "tools/trainer/trainer.h", True),
        ("tools/teach/bits.h", "tools/trainer/json.h", True), ("tools/trainer/json.h", "tools/teach/bits.h", False),
        ("tools/teach/bits.h", "tools/svg.h", False), ("tools/cmd_teach.cpp", "tools/teach/bits.h", True),
        ("tools/report/chart.h", "tools/draw/axis.h", True), ("tools/draw/axis.h", "tools/report/chart.h", False),
        ("core/tensor.h", "tensor.h", False),
    ]
    failed = 0
    for including, included, allowed in cases:
        found = list(wrong_includes(including, f'// why\n#  include "{included}"\n', lambda name: True))
        if (not found) != allowed or any(line != 2 for line, _ in found):
            failed += 1
            print(f"self-test: {including} including {included}: allowed is {allowed}, found {found}")
    if not list(wrong_includes("core/a.h", '#include "core/gone.h"', lambda name: False)):
        failed += 1
        print("self-test: an include of a file that is not there was not found")
    print(f"layers self-test: {len(cases) + 1 - failed} of {len(cases) + 1} cases right")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(check_tree())
