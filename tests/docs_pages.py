"""Pages whose blocks are run: what stands in a fence, what a session prints, and whether the two agree.

A fence ```console holds a session: lines of `$ command` (a backslash at the end continues it), each followed by what it prints, stdout
and stderr as a terminal mixes them. A fence with a second word, ```json mine.json, is a file that the reader saves under that name.
`…` stands for what was left out: alone on a line any number of lines, within a line any characters of it.
"""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess

ELISION = "…"
APART = {"build", "downloads", "runs", ".git", "__pycache__"}  # what a clone does not hold
FENCE = re.compile(r"^```(\S*)(?: +(\S+))?\s*$")


@dataclasses.dataclass
class Command:
    line: int  # counted from 1, of `$ `
    text: str
    first: int  # the output stands in the lines [first, last), counted from 0
    last: int
    expected: list


@dataclasses.dataclass
class File:
    line: int
    name: str
    text: str


class PageError(Exception):
    """A page that cannot be run as it is written."""


def fences(lines):
    """(number of the opening line from 0, language, name, number of the closing line) of each fence."""
    opened = None
    for number, line in enumerate(lines):
        match = FENCE.match(line)
        if opened is None:
            if match:
                opened = (number, match.group(1), match.group(2) or "")
            elif line.startswith("```"):
                raise PageError(f"line {number + 1}: a fence has a language and at most a file name behind it")
        elif line.rstrip() == "```":
            yield *opened, number
            opened = None
    if opened is not None:
        raise PageError(f"line {opened[0] + 1}: a fence that never ends")


def commands(lines, start, end):
    """The commands of a session that stands in lines[start:end]."""
    found, number = [], start
    while number < end:
        line = lines[number]
        if not line.startswith("$ "):
            if not found:
                raise PageError(f"line {number + 1}: a session begins with `$ command`")
            found[-1].expected.append(line.rstrip())
            found[-1].last = number + 1 if line.strip() else found[-1].last
            number += 1
            continue
        text, first = [line[2:]], number
        while text[-1].endswith("\\") and number + 1 < end:
            number += 1
            text.append(lines[number])
        number += 1
        found.append(Command(first + 1, "\n".join(text), number, number, []))
    for command in found:  # an empty line before the next command is no output
        command.expected = command.expected[:command.last - command.first]
    return found


def steps(lines, strict):
    """Files and commands of a page in their order. `strict`: every fence must be one of the two."""
    out = []
    for start, language, name, end in fences(lines):
        if language == "console":
            out += commands(lines, start + 1, end)
        elif name:
            if pathlib.PurePath(name).is_absolute() or ".." in pathlib.PurePath(name).parts:
                raise PageError(f"line {start + 1}: {name} lies outside of the clone")
            out.append(File(start + 1, name, "\n".join(lines[start + 1:end]) + "\n"))
        elif strict:
            raise PageError(f"line {start + 1}: nothing runs this block; make it ```console or give it a file name")
    return out


def pattern(line):
    return re.compile(".*".join(re.escape(part) for part in line.split(ELISION)) + r"\Z", re.DOTALL)


def agree(expected, actual):
    """Whether the lines of a page stand for the lines that were printed."""
    reach = {0}  # how many printed lines the page may have used up so far
    for line in expected:
        if line == ELISION:
            reach = set(range(min(reach), len(actual) + 1)) if reach else reach
        else:
            fits = pattern(line)
            reach = {place + 1 for place in reach if place < len(actual) and fits.match(actual[place])}
    return len(actual) in reach


def refreshed(expected, actual):
    """What the page should say: the printed lines, with the elisions of the page where their surroundings still fit."""
    if agree(expected, actual):
        return expected
    patterns = [None if line == ELISION else pattern(line) for line in expected]
    rows, columns = len(expected), len(actual)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]  # the longest common subsequence of what follows
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            fits = patterns[i] is not None and patterns[i].match(actual[j])
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + 1 if fits else 0)
    out, i, j = [], 0, 0
    while i < rows or j < columns:
        elided, skipped, more = False, [], []
        while i < rows or j < columns:  # up to the next line that both have
            if i < rows and j < columns and patterns[i] is not None and patterns[i].match(actual[j]) \
                    and best[i][j] == best[i + 1][j + 1] + 1:
                break
            if i < rows and (j == columns or best[i + 1][j] >= best[i][j + 1]):
                elided = elided or patterns[i] is None
                skipped.append(i)
                i += 1
            else:
                more.append(actual[j])
                j += 1
        out += [ELISION] if elided and len(skipped) == 1 else more
        if i < rows and j < columns:
            out.append(expected[i])
            i, j = i + 1, j + 1
    return out if agree(out, actual) else actual


def copy_of_tree(root, build, scratch):
    """What a clone holds after its build: the files of the tree, and build/release."""
    shutil.copytree(root, scratch, symlinks=True,
                    ignore=lambda folder, names: APART & set(names) if folder == str(root) else {"__pycache__"})
    (scratch / "build").mkdir()
    (scratch / "build" / "release").symlink_to(build)


def script_of(todo, notes):
    """The lines of one shell that runs all steps; what a command prints and its exit code go to files in `notes`."""
    for number, step in enumerate(todo):
        text = notes / f"{number}.text"
        text.write_text(step.text if isinstance(step, File) else step.text + "\n", encoding="utf-8")
        if isinstance(step, File):
            yield f"mkdir -p \"$(dirname '{step.name}')\" && cat '{text}' >'{step.name}'"
        else:
            yield f"source '{text}' </dev/null >'{notes}/{number}.out' 2>&1; echo $? >'{notes}/{number}.code'"


def session(todo, scratch, environment, seconds):
    """Runs the steps in one shell, so that what one sets the next one sees. [(exit code, printed lines)] of the commands."""
    notes = scratch.parent / "session"
    notes.mkdir()
    late = ""
    with subprocess.Popen(["bash", "-c", "\n".join(script_of(todo, notes))], cwd=scratch, env=environment,
                          stdin=subprocess.DEVNULL, start_new_session=True) as shell:
        try:
            shell.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            late = f" after {seconds} s"
    results = []
    for number in (number for number, step in enumerate(todo) if isinstance(step, Command)):
        if not (notes / f"{number}.code").exists():
            results.append((f"none{late}", []))
            continue
        text = (notes / f"{number}.out").read_text(encoding="utf-8", errors="replace").rstrip()
        results.append((int((notes / f"{number}.code").read_text(encoding="ascii")),
                        [line.rstrip() for line in text.split("\n")] if text else []))
    return results
