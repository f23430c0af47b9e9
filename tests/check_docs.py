#!/usr/bin/env python3
"""The documentation is run: every session in it prints what its page says, and all that a page points at is there.

  check_docs.py PROGRAM [PAGE...]          checks these pages, or all; exit 1 if something is wrong
  check_docs.py PROGRAM --write [PAGE...]  writes what the commands print now into the pages, and docs/reference/commands.md

Each page is run in a folder of its own that looks like a fresh clone after its build, with the program on PATH. How a session is
written, and what `…` stands for, is told in docs_pages.py.
"""

import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import docs_links as links
import docs_pages as pages

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = "docs/reference/commands.md"
SECONDS = 300  # for one page; the slowest takes a few


def environment(build):
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("MIXTAPE_", "OMP_", "CMAKE_"))}
    return {**keep, "PATH": f"{build}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}


def run_page(root, build, page, write):
    """The faults of one page; with `write` its outputs are refreshed instead."""
    text = (root / page).read_text(encoding="utf-8")
    lines = text.split("\n")
    try:
        todo = pages.steps(lines, strict=page.startswith("docs/course/"))
    except pages.PageError as error:
        return [f"{page}: {error}"]
    commands = [step for step in todo if isinstance(step, pages.Command)]
    if not commands:
        return []
    with tempfile.TemporaryDirectory(prefix="mixtape-docs-") as folder:
        scratch = pathlib.Path(folder) / "mixtape"
        pages.copy_of_tree(root, build, scratch)
        results = pages.session(todo, scratch, environment(build), SECONDS)
    faults, written = [], lines[:]
    for command, (code, actual) in reversed(list(zip(commands, results))):
        if code != 0:
            faults.append(f"{page}:{command.line}: exit code {code} of\n    $ {command.text}" + "".join(f"\n    {line}" for line in actual[-8:]))
        elif write:
            written[command.first:command.last] = pages.refreshed(command.expected, actual)
        elif not pages.agree(command.expected, actual):
            difference = list(difflib.unified_diff(command.expected, actual, "in the page", "printed", n=1, lineterm=""))
            faults.append(f"{page}:{command.line}: another output of\n    $ {command.text}" + "".join(f"\n    {line}" for line in difference[:40]))
    if written != lines:
        (root / page).write_text("\n".join(written), encoding="utf-8")
    return faults[::-1]


def all_verbs(build):
    """The help of each verb: "" is the program, "inspect ledger" a verb of a group."""
    helps, waiting = {}, [""]
    while waiting:
        verb = waiting.pop(0)
        run = subprocess.run([f"{build}/bin/mixtape", *verb.split(), "--help"], env=environment(build), capture_output=True,
                             text=True, check=True)
        helps[verb] = "\n".join(line.rstrip() for line in run.stdout.rstrip().split("\n"))
        _, _, below = helps[verb].partition("\nSubcommands:\n")
        waiting += [f"{verb} {name}".strip() for name in re.findall(r"^  ([a-z][\w-]*)", below, re.MULTILINE)]
    return helps


def commands_page(helps):
    """docs/reference/commands.md: every verb with its own help, in the order in which the program lists them."""
    out = ["# Every command", "",
           "What each verb says of itself under `--help`. The page is made from the program; after a change of a verb:", "", "```",
           "python3 tests/check_docs.py build/release/bin/mixtape --write docs/reference/commands.md", "```", "",
           "Data goes to stdout, messages to stderr. The exit codes stand in [errors.md](../errors.md)."]

    def add(verb):
        doc, _, rest = helps[verb].partition("\n")
        out.extend(["", f"{'#' * (2 + verb.count(' '))} mixtape {verb}", "", doc[:1].upper() + doc[1:] + ".", "", "```text", rest.strip(), "```"])
        for other in helps:
            if other.startswith(verb + " "):
                add(other)

    for verb in helps:
        if verb and " " not in verb:
            add(verb)
    return "\n".join(out) + "\n"


def tree_of(root):
    """Every file of the clone; the text of those that pages point into."""
    files, folders = {}, set()
    for folder, names, found in os.walk(root):
        names[:] = [name for name in names if not (folder == str(root) and name in pages.APART) and name != "__pycache__"]
        path = pathlib.Path(folder).relative_to(root).as_posix()
        folders.add("" if path == "." else path)
        for name in found:
            file = pathlib.Path(folder) / name
            read = links.SOURCE.search(name) and not file.is_symlink()
            files[file.relative_to(root).as_posix()] = file.read_text(encoding="utf-8", errors="replace") if read else None
    return links.Tree(files, folders)


def pointers(tree, verbs, chosen):
    for page in chosen:
        text = tree.files[page]
        yield from links.link_faults(tree, page, text)
        yield from links.span_faults(tree, page, text)
        yield from links.command_faults(verbs, page, text)
        if page.startswith("docs/course/") and not page.endswith("README.md") and not re.search(r"`[\w./-]+\.\w+:\w+`", text):
            yield f"{page}: names no source file and function"


def check(root, build, chosen, write):
    helps = all_verbs(build)
    verbs = {verb: set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text)) for verb, text in helps.items()}
    faults = []
    if write and COMMANDS in chosen:
        (root / COMMANDS).write_text(commands_page(helps), encoding="utf-8")
    tree = tree_of(root)
    chosen = chosen or sorted(path for path in tree.files if path.endswith(".md"))
    if COMMANDS in chosen and tree.files.get(COMMANDS) != commands_page(helps):
        faults.append(f"{COMMANDS}: stale: python3 tests/check_docs.py build/release/bin/mixtape --write {COMMANDS}")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for found in pool.map(lambda page: run_page(root, build, page, write), chosen):
            faults += found
    tree = tree_of(root) if write else tree
    return chosen, faults + list(pointers(tree, verbs, chosen)) + list(links.lonely(tree))


PROGRAM = """#!/bin/sh
case "$*" in
  --help) printf 'a program\\n  --version\\n\\nSubcommands:\\n  say    says\\n' ;;
  "say --help") printf 'says a word\\n  --loud\\n' ;;
  "say --loud") printf 'A\\nB 1.5 s\\nC\\n' ;;
  say) echo word ;;
  *) echo "error: $*" >&2; exit 2 ;;
esac
"""
GOOD = """# A page
[to a heading](#a-page), `tools/a.cpp:work`, `a.cpp`, `mixtape say --loud`, and the program mixtape itself.
```console
$ mixtape say --loud
A
…
C
$ mixtape say --loud | tail -n 2; \\
  x=1
B … s
C

$ cat note.txt; echo "$x"; mixtape none; echo "exit $?"
cat: note.txt: No such file or directory
1
error: none
exit 2
```
```text note.txt
hello
```
```console
$ cat note.txt
hello
```
"""
# What is planted into the page, and a word of the fault that must be found; "" for none.
PLANTED = [
    ("", "", ""),
    ("B … s", "B … h", "another output"),
    ("A\n…\nC", "A\nC", "another output"),
    ("exit 2", "exit 2\nmore", "another output"),
    ('; echo "exit $?"', "", "exit code 2"),
    ("$ cat note.txt\nhello", "$ exit 3", "exit code none"),
    ("$ cat note.txt\nhello", "$ cat note.txt", "another output"),
    ("```text note.txt", "```text ../note.txt", "outside of the clone"),
    ("```text note.txt", "```text", "nothing runs this block"),
    ("$ mixtape say --loud\nA", "mixtape say --loud\nA", "begins with"),
    ("(#a-page)", "(#no-page)", "no heading #no-page"),
    ("(#a-page)", "(b.md)", "a link to b.md"),
    ("`a.cpp`", "`b.cpp`", "`b.cpp` is no file"),
    ("a.cpp:work", "a.cpp:play", "has no `play`"),
    ("`tools/a.cpp:work`", "`tools/a.cpp`", "names no source file and function"),
    ("`mixtape say --loud`", "`mixtape say --quiet`", "no option --quiet"),
    ("`mixtape say --loud`", "[mixtape](mixtape.md)", "a link to mixtape.md"),
]


def self_test():
    """Every fault that is planted into a good page is found, and --write mends the outputs."""
    with tempfile.TemporaryDirectory(prefix="mixtape-docs-") as folder:
        root, build = pathlib.Path(folder) / "clone", pathlib.Path(folder) / "build"
        page = root / "docs" / "course" / "1.md"
        files = {page: "", root / "tools" / "a.cpp": "void work() {}", build / "bin" / "mixtape": PROGRAM, root / COMMANDS: "",
                 root / "docs" / "errors.md": "", root / "docs" / "README.md": "`course/1.md`, `reference/commands.md`, `errors.md`"}
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (build / "bin" / "mixtape").chmod(0o755)
        page.write_text(GOOD, encoding="utf-8")
        assert any("stale" in fault for fault in check(root, build, [], write=False)[1])
        (root / COMMANDS).write_text(commands_page(all_verbs(build)), encoding="utf-8")
        for old, new, word in PLANTED:
            assert old in GOOD, old
            page.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
            faults = check(root, build, [], write=False)[1]
            assert len(faults) == bool(word) and all(word in fault for fault in faults), (old, new, faults)
            assert not faults or faults[0].startswith("docs/course/1.md:"), faults
        page.write_text(GOOD.replace("B … s", "X … s").replace("\nexit 2", "\nexit 4"), encoding="utf-8")
        check(root, build, [], write=True)
        assert page.read_text(encoding="utf-8") == GOOD.replace("B … s", "B 1.5 s"), page.read_text(encoding="utf-8")
        (root / "docs" / "alone.md").write_text("", encoding="utf-8")
        assert check(root, build, [], write=False)[1] == ["docs/alone.md: no other page of docs names it"]


def main(arguments):
    write = "--write" in arguments
    words = [word for word in arguments if word != "--write"]
    if not words or words[0].startswith("-"):
        sys.exit(__doc__)
    begin = time.monotonic()
    self_test()
    build = pathlib.Path(words[0]).resolve().parent.parent
    chosen, faults = check(ROOT, build, [pathlib.Path(page).resolve().relative_to(ROOT).as_posix() for page in words[1:]], write)
    for fault in faults:
        print(fault)
    print(f"docs: {len(chosen)} pages, {len(faults)} faults, {time.monotonic() - begin:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
