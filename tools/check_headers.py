#!/usr/bin/env python3
"""Each header compiles alone, with the warnings of the build, and none pulls in a heavy library.

  check_headers.py [--compiler g++]  checks the tree; says what is wrong with each bad header, exit 1 if there is one
  check_headers.py --self-test       checks that the checker finds what it must
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["core", "autograd", "ops", "nn", "optim", "amp", "data", "models", "tools", "tests"]
FLAGS = ["-std=c++20", "-O0", "-march=native", "-fopenmp", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic",
         "-Wshadow", "-Werror", "-fsyntax-only",
         '-DMIXTAPE_SHARED_DIR="-"', '-DMIXTAPE_SOURCE_DIR="-"', '-DMIXTAPE_PROGRAM="-"']
# Seconds for every file that includes them: they belong into .cpp files. (json_fwd.hpp only names the type.)
HEAVY = re.compile(r"/(nlohmann/(?!json_fwd|detail/abi_macros)|fmt/|CLI/|eigen3/|oneapi/dnnl|dnnl)[^\s]*")
# path -> why it may include a heavy one, or only together with another.
ALLOWED = {
    "tests/tiny_run.h": "reads logs back for the few tests of the trainer that include it",
    "tests/recorder.h": "runs of tests/tiny_run.h, step by step, for the tests of checkpoints",
    "core/kernels/gemm_eigen.h": "the Eigen product that gemm_eigen.cpp and gemm_f64.cpp share; no other file does",
}


def complaint(compiler, root, header):
    """What is wrong with the header (relative to root), or None. It is included twice: it must guard itself, too."""
    with tempfile.NamedTemporaryFile(suffix=".d") as dependencies:
        done = subprocess.run(
            [compiler, *FLAGS, f"-I{root}", "-MD", "-MF", dependencies.name, "-MT", "x", "-x", "c++", "-"],
            input=f'#include "{header}"\n#include "{header}"\n', capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{header} does not compile alone:\n" + "\n".join(done.stderr.splitlines()[:20])
        heavy = HEAVY.search(pathlib.Path(dependencies.name).read_text())
        return f"{header} includes {heavy.group(0)[1:]}: include it in a .cpp file" if heavy else None


def check(compiler, root):
    """Prints each complaint; returns their number."""
    files = [header for folder in FOLDERS for header in sorted((root / folder).rglob("*.h"))]
    headers = [header.relative_to(root).as_posix() for header in files]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(headers, pool.map(lambda header: complaint(compiler, root, header), headers)))
    wrong = [text for header, text in found.items() if text and header not in ALLOWED]
    wrong += [f"tools/check_headers.py: {path} is fine now; remove it" for path in ALLOWED if not found.get(path)]
    print("\n".join(wrong + [f"headers: {len(headers)} compiled alone, {len(wrong)} wrong"]))
    return len(wrong)


def self_test():
    bad = {
        "needs.h": '#pragma once\ninline std::string f() { return ""; }\n',
        "unguarded.h": "struct S {};\n",
        "warns.h": "#pragma once\ninline int f(int i) { return 0; }\n",
        "heavy.h": "#pragma once\n#include <nlohmann/json.hpp>\n",
    }
    good = {"fine.h": "#pragma once\n#include <string>\ninline std::string f() { return {}; }\n",
            "forward.h": "#pragma once\n#include <nlohmann/json_fwd.hpp>\n"}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, text in {**bad, **good}.items():
            (root / name).write_text(text)
        wrong = [name for name in bad if not complaint("g++", root, name)]
        wrong += [f"{name}: {text}" for name in good if (text := complaint("g++", root, name))]
    print("\n".join([f"self-test: wrong about {name}" for name in wrong] + [f"headers self-test: {len(wrong)} wrong"]))
    return len(wrong)


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if arguments and (len(arguments) != 2 or arguments[0] != "--compiler"):
        sys.exit(__doc__)
    return check(arguments[1] if arguments else "g++", ROOT)


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
