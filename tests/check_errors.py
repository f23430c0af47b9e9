#!/usr/bin/env python3
"""docs/errors.md has every error code that the sources can raise, with its exit code, and no other: check_errors.py"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["core", "autograd", "ops", "nn", "optim", "amp", "data", "models", "tools"]
CODE = r"[EW]-[A-Z][A-Z0-9]*(?:-[A-Z0-9]+)*"
EXITS = {"internal": 1, "config": 2, "data": 3, "model": 4, "io": 5, "memory": 12, "diverged": 20}


def without_comments(text):
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


def raised(text):
    """The codes that stand in string literals, and the exit codes of those beside their kind."""
    codes, exits = set(), {}
    for literal in re.findall(r'"((?:\\.|[^"\\\n])*)"', text):
        codes |= set(re.findall(rf"(?<![\w-]){CODE}(?![\w-])", literal))
    for kind, code in re.findall(rf'ErrorKind::(\w+),\s*"({CODE})"', text):
        exits.setdefault(code, set()).add(EXITS[kind])
    return codes, exits


def listed(text):
    rows = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(rf"\| `({CODE})` \| ([\d, -]+) \| (.+) \| (.+) \|$", line):
            rows.setdefault(match.group(1), []).append((number, set(re.findall(r"\d+", match.group(2)))))
    return rows


def problems(codes, exits, rows):
    for code in sorted(codes - rows.keys()):
        yield f"{code} is raised and not listed"
    for code in sorted(rows.keys() - codes):
        yield f"line {rows[code][0][0]}: {code} is listed and never raised"
    for code, places in rows.items():
        if len(places) > 1:
            yield f"line {places[1][0]}: {code} a second time"
        if missing := {str(e) for e in exits.get(code, ())} - places[0][1]:
            yield f"line {places[0][0]}: {code} also exits with {', '.join(sorted(missing))}"


def self_test():
    codes, exits = raised(without_comments('fail(ErrorKind::io, "E-A-B", "x-E-NO");\n// "E-C"\nnote("error E-D  " + x); "E-2";'))
    assert codes == {"E-A-B", "E-D"} and exits == {"E-A-B": {5}}, (codes, exits)
    found = list(problems(codes, exits, listed("| `E-A-B` | 4 | m | r |\n| `E-X` | 1 | m | r |\n")))
    assert len(found) == 3, found


def main():
    self_test()
    codes, exits = set(), {}
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix in (".h", ".cpp", ".cuh", ".cu"):
                more, kinds = raised(without_comments(file.read_text(encoding="utf-8")))
                codes |= more
                for code, values in kinds.items():
                    exits.setdefault(code, set()).update(values)
    rows = listed((ROOT / "docs" / "errors.md").read_text(encoding="utf-8"))
    found = list(problems(codes, exits, rows))
    for text in found:
        print(f"docs/errors.md: {text}")
    print(f"errors: {len(codes)} codes, {len(found)} wrong")
    return 1 if found or not codes else 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) == 1 else __doc__)
