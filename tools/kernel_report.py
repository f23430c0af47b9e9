#!/usr/bin/env python3
"""Registers, shared memory and spills of every kernel.

  tools/kernel_report [--all] [LOG...]   from what `nvcc -Xptxas -v` said; a build leaves that in build/release/cuda/*.log
  tools/kernel_report --self-test        checks that the report finds what it must

A row for each kernel, its instances side by side: their number, the fewest and the most registers, static shared memory, stack and
spilled bytes of the worst; with --all a row for each instance. Shared memory that a launch asks for is not known to the compiler.

exit 0 no kernel spills but those with a reason in COLD  1 one does  2 usage  5 a log cannot be read
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAILED, USAGE, IO = 1, 2, 5

# Kernels that may spill, as a pattern for the short name -> why. An entry whose kernels no longer spill is an error.
COLD = {
    r"^key_gradient_kernel<(bf16|half), 128>": "heads of 65 to 128 columns: the sums of dk and dv alone are 128 of 255 registers",
}

ENTRY = re.compile(r"Compiling entry function '([^']+)' for '([^']+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
FIGURES = ("registers", "shared", "stack", "spills")


def kernels(text):
    """{(mangled name, architecture): figures} of one log."""
    found, current, stack = {}, None, (0, 0)
    for line in text.splitlines():
        if match := ENTRY.search(line):
            current, stack = match.groups(), (0, 0)
        elif match := STACK.search(line):
            stack = int(match[1]), int(match[2]) + int(match[3])
        elif current and (match := USED.search(line)):
            shared = SHARED.search(line)
            found[current] = dict(zip(FIGURES, (int(match[1]), int(shared[1]) if shared else 0, *stack)))
            current = None
    return found


def demangled(names):
    try:
        words = subprocess.run(["c++filt"], input="\n".join(names), text=True, capture_output=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return dict(zip(names, names))
    return dict(zip(names, words))


def short(name):
    """`void a::b::kernel<a::T, 32>(int)` -> `kernel<T, 32>`."""
    name = re.sub(r"\(anonymous namespace\)|_GLOBAL__N_\w+|_INTERNAL_\w+", "anonymous", name)
    depth = 0
    for i, character in enumerate(name):
        depth += (character == "<") - (character == ">" and name[i - 1] != "-")
        if character == "(" and depth == 0:
            name = name[:i]
            break
    name = re.sub(r"\([^()<>]*\)(?=-?\d)", "", name)  # (int)32 -> 32
    return re.sub(r"\w+::", "", name).removeprefix("void ").strip()


def table(rows):
    head = ("kernel", "instances", "registers", "shared", "stack", "spills")
    cells = [head, *rows]
    widths = [max(len(str(row[i])) for row in cells) for i in range(len(head))]
    return ["  ".join(str(cell).ljust(w) if i == 0 else str(cell).rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
            for row in cells]


def rows_of(found, every):
    """One row an instance, or one a kernel."""
    groups = {}
    for name, figures in sorted(found.items()):
        groups.setdefault(name if every else name.split("<")[0], []).append(figures)
    for name, of in groups.items():
        least, most = min(f["registers"] for f in of), max(f["registers"] for f in of)
        yield (name, len(of), most if least == most else f"{least}-{most}", *(max(f[key] for f in of) for key in FIGURES[1:]))


def report(texts, every):
    """(lines, whether all is well)"""
    mangled = {}
    for text in texts:
        for key, figures in kernels(text).items():
            before = mangled.setdefault(key, figures)
            mangled[key] = {name: max(before[name], figures[name]) for name in FIGURES}
    words, found = demangled([name for name, _ in mangled]), {}
    several = len({arch for _, arch in mangled}) > 1
    for (name, arch), figures in mangled.items():
        found[short(words[name]) + (f" {arch}" if several else "")] = figures
    spilling = [name for name, figures in found.items() if figures["spills"]]
    wrong = [name for name in spilling if not any(re.search(pattern, name) for pattern in COLD)]
    lines = table(rows_of(found, every)) + [f"{name} spills {found[name]['spills']} bytes" for name in wrong]
    idle = [pattern for pattern in COLD
            if (of := [name for name in found if re.search(pattern, name)]) and not set(of) & set(spilling)]
    lines += [f"tools/kernel_report.py: nothing that matches {pattern} spills now; remove it" for pattern in idle]
    most = max((figures["registers"] for figures in found.values()), default=0)
    lines.append(f"kernels: {len(found)}, registers at most {most}, hot ones that spill: {len(wrong)}")
    return lines, bool(found) and not wrong and not idle


SAMPLE = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN1a1kILi{n}EEEvi' for 'sm_90a'
ptxas info    : Function properties for _ZN1a1kILi{n}EEEvi
    {stack} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, {stack} bytes cumulative stack size, 264 bytes smem
ptxas info    : Compile time = 1.000 ms
"""


def self_test():
    fine = SAMPLE.format(n=32, stack=0, stores=0, loads=0, registers=40)
    spills = SAMPLE.format(n=64, stack=16, stores=8, loads=12, registers=255)
    COLD.clear()
    lines, well = report([fine, fine], True)
    checks = [well, lines[1].split() == ["k<32>", "1", "40", "264", "0", "0"], lines[-1].startswith("kernels: 1, registers at most 40")]
    lines, well = report([fine, spills], False)
    checks += [not well, lines[1].split() == ["k", "2", "40-255", "264", "16", "20"], "k<64> spills 20 bytes" in lines]
    checks += [report([""], False)[1] is False]
    COLD["k<64>"] = "a test"
    checks += [report([fine, spills], False)[1], not report([fine.replace("32E", "64E")], False)[1]]
    checks += [short("void a::b::k<a::(anonymous namespace)::F, (int)4, (bool)1>(a::P<4>, int)") == "k<F, 4, 1>"]
    wrong = [i for i, check in enumerate(checks) if not check]
    print("\n".join([f"self-test: check {i} is wrong" for i in wrong] + [f"kernel_report self-test: {len(wrong)} wrong"]))
    return 1 if wrong else 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="tools/kernel_report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=pathlib.Path, metavar="LOG")
    parser.add_argument("--all", action="store_true", help="a row for each instance")
    parser.add_argument("--self-test", action="store_true", help="checks the report itself")
    options = parser.parse_args(arguments)
    if options.self_test:
        return self_test()
    logs = options.logs or sorted((ROOT / "build/release/cuda").glob("*.log"))
    try:
        texts = [log.read_text() for log in logs]
    except OSError as error:
        print(f"kernel_report: {error.filename}: {error.strerror}", file=sys.stderr)
        return IO
    if not any(map(kernels, texts)):
        print("kernel_report: no log names a kernel; run cmake/nvcc_check.sh, or pass what nvcc -Xptxas -v said", file=sys.stderr)
        return USAGE
    lines, well = report(texts, options.all)
    print("\n".join(lines))
    return 0 if well else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
