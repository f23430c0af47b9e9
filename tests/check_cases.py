#!/usr/bin/env python3
"""Every case of ../shared/cases stands in CASES.md, and every test named there exists: check_cases.py TESTS_PROGRAM

Without ../shared the list is checked against the tests alone.
"""

import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CASES = ROOT.parent / "shared" / "cases"
REASONS = ("does not apply:", "not yet:", "pending:")


def listed(text):
    """Yields (file, case, cell, line) for each row of the tables."""
    section = None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            section = line[3:].strip()
        match = re.match(r"\| (B?\d+) \| (.*) \|$", line)
        if match:
            yield section, match.group(1), match.group(2), number


def cases_of(path):
    """The ids that a file of cases lists: **B1 …**, **1. …** or the first column of a table."""
    text = path.read_text(encoding="utf-8")
    return set(re.findall(r"^\*\*(B\d+|\d+)[. ]", text, re.MULTILINE)) | set(re.findall(r"^\| (\d+) \|", text, re.MULTILINE))


def existing_tests(program):
    """The names that the test program lists, and how a row may name something else."""
    output = subprocess.run([program, "--list-test-cases"], capture_output=True, text=True, check=True).stdout
    names = {line for line in output.splitlines() if not line.startswith(("[doctest]", "==="))}
    names |= {f"op:{path.stem}" for path in (ROOT / "ops").glob("*.cpp")}
    names |= {f"check:{name}" for name in re.findall(r"NAME check\.(\w+)", (HERE / "CMakeLists.txt").read_text())}
    return names


def problems(rows, tests, expected):
    seen = set()
    for section, case, cell, line in rows:
        if (section, case) in seen:
            yield f"{line}: {section} {case} a second time"
        seen.add((section, case))
        named = re.findall(r"`([^`]+)`", cell)
        for name in named:
            if name not in tests:
                yield f"{line}: case {case}: there is no test '{name}'"
        if not named and not cell.startswith(REASONS):
            yield f"{line}: case {case}: neither a test nor one of {', '.join(REASONS)}"
    for section, cases in expected.items():
        for case in sorted(cases - {c for s, c in seen if s == section}):
            yield f"1: {section}: case {case} is not listed"
        for case in sorted({c for s, c in seen if s == section} - cases):
            yield f"1: {section}: there is no case {case}"


def self_test():
    rows = list(listed("## a.md\n| 1 | `x: y, z` |\n| B2 | not yet: no |\n| 3 | `gone` |\n| 3 | words |\n"))
    found = list(problems(rows, {"x: y, z"}, {"a.md": {"1", "B2", "3", "4"}}))
    assert len(rows) == 4 and len(found) == 4, found


def main(program):
    self_test()
    rows = list(listed((HERE / "CASES.md").read_text(encoding="utf-8")))
    expected = {path.name: cases_of(path) for path in sorted(CASES.glob("*.md"))}
    found = list(problems(rows, existing_tests(program), expected))
    for text in found:
        print(f"tests/CASES.md:{text}")
    without = sum("`" not in cell for _, _, cell, _ in rows)
    pending = sum("pending:" in cell for _, _, cell, _ in rows)
    if not expected:
        print("skipped: no ../shared, so nothing says which cases there are")
    print(f"cases: {len(rows)} listed, {without} without a test, {pending} with a part pending, {len(found)} wrong")
    return 1 if found or not rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
