#!/usr/bin/env python3
"""Which lines of device code the tests execute, on the device-on-CPU runner.

  tools/kernel_coverage [--lines] [--least PERCENT] [BUILD]   builds the tests with gcov's counters, runs them, counts
  tools/kernel_coverage --count FOLDER                        counts only, what lies below this folder
  tools/kernel_coverage --self-test                           checks that the count finds what it must

A line counts where g++ made code of it, and is executed when that of any instance of its template is, in any program: the
tests of single kernels, and one pass over the op table by way of the module. Counted are core/kernels/*.cuh and *.cu, the
products of a GPU, optim/*.cuh and ops/*.cu whole; of other files of ops/, of optim/ and of core/maths.h the formulas alone, which
are the functions with MIXTAPE_HD: the rest of them is the program's. What only nvcc compiles (__CUDA_ARCH__) is no code here,
and does not count. --lines lists what was not executed.

exit 0 as much as --least, and every file was seen  1 less, or a test failed  2 usage  5 a file cannot be read
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAILED, USAGE, IO = 1, 2, 5
LEAST = 95.0
WHOLE = re.compile(r"^(core/kernels/[^/]+\.(cuh|cu)|core/kernels/gemm_(cuda|cublaslt)\.cpp|optim/[^/]+\.cuh|ops/[^/]+\.cu)$")
FORMULAS = re.compile(r"^(core/(maths|rng)\.h|optim/[^/]+\.h|ops/(?!optest)[^/]+\.(h|cpp))$")
PROGRAMS = ["mixtape_simt_coverage", "mixtape_simt_coverage_ops"]


def gcov(data):
    """What gcov says of each object's counters, parsed."""
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(data), 16):
            done = subprocess.run(["gcov", "--json-format", "--stdout", *map(str, data[start:start + 16])], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise OSError(0, done.stderr.strip()[-300:], "gcov")
            for line in done.stdout.splitlines():
                if line.strip():
                    yield json.loads(line)


def formula_lines(text):
    """The lines of all functions that are marked MIXTAPE_HD."""
    text = re.sub(r"//[^\n]*", lambda match: " " * len(match[0]), text)
    lines = set()
    for match in re.finditer(r"\bMIXTAPE_HD\b", text):
        start, depth, at = text.find("{", match.end()), 0, 0
        end = text.find(";", match.end())
        if start < 0 or 0 <= end < start:  # a declaration
            continue
        for at in range(start, len(text)):
            depth += (text[at] == "{") - (text[at] == "}")
            if depth == 0:
                break
        lines.update(range(text.count("\n", 0, match.start()) + 1, text.count("\n", 0, at) + 2))
    return lines


def counted_lines(name, root):
    """Which lines of a file count: None for all."""
    if WHOLE.match(name):
        return None
    return formula_lines((pathlib.Path(root) / name).read_text()) if FORMULAS.match(name) else set()


def merged(reports, root):
    """{file: {line: executions}} of the files that count; of each line the most of all objects."""
    found, counted = {}, {}
    for report in reports:
        for file in report["files"]:
            path = os.path.normpath(os.path.join(report.get("current_working_directory", "/"), file["file"]))
            name = os.path.relpath(path, root)
            if name not in counted:
                counted[name] = counted_lines(name, root)
            wanted = counted[name]
            for line in file["lines"]:
                number = line["line_number"]
                if wanted is None or number in wanted:
                    lines = found.setdefault(name, {})
                    lines[number] = max(lines.get(number, 0), line["count"])
    return found


def spans(numbers):
    """[3, 4, 5, 9] -> "3-5 9"."""
    runs = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def report(found, least, with_lines, expected):
    """(lines to print, whether all is well)"""
    rows, missed_files = [], sorted(set(expected) - set(found))
    executed = total = 0
    for name, lines in sorted(found.items()):
        hit = sum(1 for count in lines.values() if count)
        executed, total = executed + hit, total + len(lines)
        missing = spans(number for number, count in lines.items() if not count)
        rows.append(f"{name:<40} {hit:>5} of {len(lines):>5} {100 * hit / max(1, len(lines)):>6.1f} %" + (f"  not: {missing}" if with_lines and missing else ""))
    rows += [f"{name:<40} no line of it was compiled" for name in missed_files]
    share = 100 * executed / max(1, total)
    rows.append(f"kernel coverage: {executed} of {total} lines in {len(found)} files, {share:.2f} %, at least {least:g} % wanted")
    return rows, total > 0 and share >= least and not missed_files


def files_of_kernels():
    """Files that have device code for certain; a formula's header may have none."""
    names = [*ROOT.glob("core/kernels/*.cu*"), *ROOT.glob("optim/*.cuh"), *ROOT.glob("ops/*.cu")]
    text = {str(file.relative_to(ROOT)): file.read_text() for file in names}
    return [name for name, words in text.items() if re.search(r"^[^/#]*\{", words, re.M) and not name.endswith("loops.cuh")]


def build_and_run(build):
    """Builds both programs, and runs them; what they counted before is removed. False when a test failed."""
    subprocess.run(["cmake", "--build", build, "--target", *PROGRAMS], check=True, stdout=sys.stderr)
    for file in (build / "tests/simt").rglob("*.gcda"):
        file.unlink()
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    running = [(name, subprocess.Popen([build / "bin" / name], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
               for name in PROGRAMS]
    well = True
    for name, process in running:
        said, _ = process.communicate()
        print(f"{name}: exit {process.returncode}, {said.strip().splitlines()[-1] if said.strip() else 'nothing said'}", flush=True)
        if process.returncode:
            well = False
            print("\n".join(said.strip().splitlines()[-30:]))
    return well


def of_lines(name, *counts):
    return {"current_working_directory": "/r/build", "files": [{"file": name, "lines": [{"line_number": i + 1, "count": count}
                                                                                         for i, count in enumerate(counts)]}]}


FORMULA = """struct F {
  MIXTAPE_HD float once(float x) const;  // a { declaration }
  MIXTAPE_HD float twice(float x) const {
    if (x > 0) { return x; }
    return 2 * x;
  }
  float host() { return 1; }
};
"""


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "ops").mkdir()
        (pathlib.Path(folder) / "ops/gelu.h").write_text(FORMULA)
        where = {"current_working_directory": f"{folder}/build"}
        found = merged([report | where for report in (
            of_lines("../core/kernels/a.cuh", 1, 0, 0), of_lines(f"{folder}/core/kernels/a.cuh", 0, 0, 5), of_lines("../core/op.h", 0),
            of_lines("/usr/include/c.h", 0), of_lines("../ops/optest.h", 0), of_lines("../ops/gelu.h", 0, 0, 0, 0, 1, 0, 0, 0))], folder)
    gelu = found.pop("ops/gelu.h")
    found["ops/gelu.h"] = {1: 1}
    lines, well = report(found, 75, True, ["core/kernels/a.cuh"])
    checks = [found == {"core/kernels/a.cuh": {1: 1, 2: 0, 3: 5}, "ops/gelu.h": {1: 1}}, well, lines[0].split()[1:] == ["2", "of", "3", "66.7", "%", "not:", "2"],
              lines[-1].startswith("kernel coverage: 3 of 4 lines in 2 files, 75.00 %"),
              report(found, 75.1, False, [])[1] is False, report(found, 75, False, ["optim/b.cuh"])[1] is False, report({}, 0, False, [])[1] is False,
              gelu == {3: 0, 4: 0, 5: 1, 6: 0}, formula_lines(FORMULA) == {3, 4, 5, 6},
              spans([9, 3, 4, 5]) == "3-5 9", "core/kernels/map.cuh" in files_of_kernels()]
    wrong = [i for i, check in enumerate(checks) if not check]
    print("\n".join([f"self-test: check {i} is wrong" for i in wrong] + [f"kernel_coverage self-test: {len(wrong)} wrong"]))
    return FAILED if wrong else 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="tools/kernel_coverage", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", type=pathlib.Path, default=ROOT / "build/release", help="a configured build folder (%(default)s)")
    parser.add_argument("--least", type=float, default=LEAST, metavar="PERCENT", help="fail below it (%(default)s)")
    parser.add_argument("--lines", action="store_true", help="list the lines that were not executed")
    parser.add_argument("--count", type=pathlib.Path, metavar="FOLDER", help="build and run nothing")
    parser.add_argument("--self-test", action="store_true", help="checks the count itself")
    options = parser.parse_args(arguments)
    if options.self_test:
        return self_test()
    try:
        well = options.count is not None or build_and_run(options.build.absolute())
        folder = options.count.absolute() if options.count else options.build.absolute() / "tests/simt"
        data = sorted(folder.rglob("*coverage*/**/*.gcda"))
        if not data:
            print("kernel_coverage: no counters were written", file=sys.stderr)
            return USAGE
        lines, enough = report(merged(gcov(data), str(ROOT)), options.least, options.lines, files_of_kernels())
    except OSError as error:
        print(f"kernel_coverage: {error.filename}: {error.strerror}", file=sys.stderr)
        return IO
    except subprocess.CalledProcessError as error:
        print(f"kernel_coverage: {' '.join(map(str, error.cmd))} ended with {error.returncode}", file=sys.stderr)
        return FAILED
    print("\n".join(lines))
    return 0 if well and enough else FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
