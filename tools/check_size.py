#!/usr/bin/env python3
"""A file has at most 400 lines and a function at most 40 (opening to closing brace), or a reason stands below.

  check_size.py              checks the tree; one line for each that is too long, exit 1 if there is one
  check_size.py --self-test  checks that the checker finds what it must
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ["core", "autograd", "ops", "nn", "optim", "amp", "data", "models", "tools", "tests", "docs", "cmake", ".ci"]
CODE = {".h", ".cpp", ".cuh", ".cu"}
SCRIPTS = {".py", ".sh", ".cmake", ""}
FILE_LINES, FUNCTION_LINES = 400, 40

# "path" or "path:function" -> why it is right that it is longer. An entry that is no longer needed is an error.
ALLOWED = {
    "ops/optest_numbers.cpp:check_second_order": "one argument: first gradients, then their gradients, then the differences they are held against",
    "tests/test_bert.cpp:TEST_CASE": "walks one golden file from its first field to its last",
    "tests/test_gather.cpp:TEST_CASE": "one table of cases and what they give",
    "tests/test_half.cpp:TEST_CASE": "one table of conversions and what they give",
}

LITERAL = re.compile(
    r'''//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+(?:')''', re.DOTALL)
TEMPLATE = re.compile(r"template ?<[^{}]*?> (?=\w)")
INITIALIZER = re.compile(r"\) ?(noexcept ?)?: [^;]*[\w>]$")  # the brace of `C() : member{1} {}`
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b[^()=]*(\([^()]*\)[^()=]*)?$")
NAME = re.compile(r"(operator\s*[^\s(]+|operator\s*\(\s*\)|[\w:~]+)\s*\(")


def without_literals(text):
    """The same text, line for line, with comments, strings and preprocessor lines blanked."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    text = LITERAL.sub(lambda m: '""' + blank(m)[2:] if m.group(0)[0] == '"' else blank(m), text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)


def functions(text):
    """Yields (name, line of the opening brace, lines) of each function in C++ source; a lambda is part of its own."""
    # open_braces: None for a namespace or type, (name, line) for a function, a string (what stood before) for others
    open_braces, head, line = [], "", 1
    for character in without_literals(text):
        line += character == "\n"
        if character == "{":
            before = re.sub(r"\s+", " ", head).strip()
            if any(brace is not None for brace in open_braces):
                open_braces.append("")
            elif INITIALIZER.search(before):
                open_braces.append(head)
            elif CONTAINER.search(TEMPLATE.sub("", before)):
                open_braces.append(None)
            else:
                name = NAME.search(re.sub(r"\[\[[^\]]*\]\]", "", before))
                open_braces.append((name.group(1), line) if name else "")
            head = ""
        elif character == "}":
            brace = open_braces.pop() if open_braces else None
            if isinstance(brace, tuple):
                yield brace[0], brace[1], line - brace[1] + 1
            head = brace + "}" if isinstance(brace, str) else ""
        else:
            head = "" if character == ";" else head + character


def source_files():
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            script = file.suffix in SCRIPTS and "data" not in file.relative_to(ROOT).parts[1:]
            if file.is_file() and (file.suffix in CODE or script) and "__pycache__" not in file.parts:
                yield file


def too_long(path, text):
    """Yields (key of ALLOWED, place, message) for everything in the file that is over the limit."""
    lines = text.count("\n")
    if lines > FILE_LINES:
        yield path, path, f"{lines} lines, at most {FILE_LINES}"
    if pathlib.PurePath(path).suffix in CODE:
        for name, line, length in functions(text):
            if length > FUNCTION_LINES:
                yield f"{path}:{name}", f"{path}:{line}", f"{name} has {length} lines, at most {FUNCTION_LINES}"


def check_tree():
    wrong, used, files = 0, set(), 0
    for file in source_files():
        files += 1
        for key, place, message in too_long(file.relative_to(ROOT).as_posix(), file.read_text()):
            if key in ALLOWED:
                used.add(key)
            else:
                wrong += 1
                print(f"{place}: {message}; split it, or give a reason in tools/check_size.py")
    for key in sorted(set(ALLOWED) - used):
        wrong += 1
        print(f"tools/check_size.py: {key} is within the limit now; remove its entry")
    print(f"size: {files} files, {len(used)} allowed for a reason, {wrong} too long")
    return 1 if wrong else 0


def self_test():
    body = "  x();\n" * 39
    cases = [  # (source, names of the functions that are too long)
        ("void f() {\n" + body + "}\n", ["f"]),
        ("void f() {\n" + body[:-7] + "}\n", []),
        ("namespace a::b {\nclass C : public D<int> {\n  int f(int) const noexcept {\n" + body + "  }\n};\n}\n", ["f"]),
        ("namespace a {\nstruct S {\n  int i = 0;\n" + "  int g() { return 1; }\n" * 60 + "};\n}\n", []),
        ("template <class T, class = void>\nstruct S {\n" + "  int a;\n" * 60 + "};\n", []),
        ("template <class T>\nauto f(T t) -> int\n{\n" + body + "}\n", ["f"]),
        ("C::C(int a) : b(a) {\n" + body + "}\n", ["C::C"]),
        ("C::C(int a) : b{a}, c{\n  1} {\n" + body + "}\n", ["C::C"]),
        ("bool operator==(A a, A b) {\n" + body + "}\n", ["operator=="]),
        ('TEST_CASE("a { brace") {\n' + body + "}\n", ["TEST_CASE"]),
        ("const int table[] = {\n" + "  1,\n" * 60 + "};\n", []),
        ("void f() {\n  auto g = [](int i) {\n" + body + "  };\n}\n", ["f"]),
        ("// void f() {\n" + body + 'const char* s = "}{";\n', []),
        ("#define M(x) \\\n  {\n" + "int i = 1'000;\n" * 60, []),
        ('const char* s = R"(\n' + "{\n" * 60 + ')";\n', []),
    ]
    failed = 0
    for source, expected in cases:
        found = [name for name, _, length in functions(source) if length > FUNCTION_LINES]
        if found != expected:
            failed += 1
            print(f"self-test: expected {expected}, found {found} in:\n{source[:200]}")
    if len(list(too_long("core/a.h", "\n" * 401))) != 1 or list(too_long("core/a.h", "\n" * 400)):
        failed += 1
        print("self-test: the limit of a file is not 400 lines")
    print(f"size self-test: {len(cases) + 1 - failed} of {len(cases) + 1} cases right")
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if sys.argv[1:]:
        sys.exit(__doc__)
    sys.exit(check_tree())
