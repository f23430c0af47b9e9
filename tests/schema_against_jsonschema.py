#!/usr/bin/env python3
"""`mixtape config schema` against a validator that is not ours (PyPI: jsonschema), with the configurations of the tests.

  schema_against_jsonschema.py [PROGRAM]     PROGRAM: build/release/bin/mixtape

Good ones: configs/*.json, `config init`, the effective file of the defaults: the schema must accept them. Faulty ones: the
tables of test_config_faults.cpp: it must refuse them, but for those of BEYOND, which no schema can see. Ends in
`N passed, N failed`, exit 1 if one failed.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/bin/mixtape")

# Code or path of a case -> why a schema accepts it.
BEYOND = {
    "E-CONFIG-CONFLICT": "a rule between two keys",
    "too large": "Python reads 1e999 as infinity, which has no upper bound here; in JSON text it is no double",
    "too small": "Python reads 1e-999 as 0; where 0 is allowed a schema cannot tell",
}
LITERAL = r'"((?:\\.|[^"\\])*)"'
CASE = re.compile(r'\{\s*(with\(\s*)?' + LITERAL + r'\)?,\s*(\w+|"[\w-]+"),\s*"(\d+:\d+)[^"]*",\s*\{(.*?)\}\}', re.DOTALL)
TABLES = ["unknown_keys", "wrong_types", "out_of_range", "unusable"]
GOOD_START = '{"task": {"data_dir": "d"}, "tokenizer": {"vocab": "v"},\n'


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True).stdout


def without_comments(text):
    keep = r'"(?:\\.|[^"\\])*"'
    return re.sub(rf'({keep})|//[^\n]*|/\*.*?\*/', lambda m: m.group(1) or "", text, flags=re.DOTALL)


def cpp_string(text):
    return text.encode("latin-1", "backslashreplace").decode("unicode_escape").encode("latin-1", "replace").decode("utf-8", "replace")


def faulty_cases():
    source = (ROOT / "tests/test_config_faults.cpp").read_text()
    names = dict(re.findall(r'const std::string (\w+) = "(E-[\w-]+)"', source))
    for table in TABLES:
        body = re.search(rf"const std::vector<Fault> {table} = \{{(.*?)\n\}};", source, re.DOTALL).group(1)
        for with_, text, code, _, words in CASE.findall(body):
            text = cpp_string(text)
            yield (GOOD_START + text + "}" if with_ else text), names.get(code, code.strip('"')), words


def good_cases():
    for path in sorted((ROOT / "configs").glob("*.json")):
        yield path.name, path.read_text()
    yield "config init", run("config", "init")
    minimal = {"task": {"data_dir": "/d"}, "tokenizer": {"vocab": "/v"}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(minimal, file)
        file.flush()
        yield "effective defaults", json.dumps(json.loads(run("config", "show", "--json", file.name))["config"])
        yield "minimal", json.dumps(minimal)
    yield "pretrained alone", json.dumps({"task": {"data_dir": "d"}, "model": {"pretrained": "m"}})
    yield "a policy of one's own", GOOD_START + '"amp": {"policy": "p.json", "loss_scale": 8, "overrides": {"gelu": "full"}}}'


def beyond(code, words):
    return next((reason for key, reason in BEYOND.items() if key == code or key in words), None)


def main():
    schema = json.loads(run("config", "schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    passed = failed = refused = unseen = 0

    def count(good, what):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        if not good:
            print("FAILED", what)

    for name, text in good_cases():
        errors = [error.message for error in validator.iter_errors(json.loads(without_comments(text)))]
        count(not errors, f"{name}: refused: {errors[:2]}")
    total = 0
    for text, code, words in faulty_cases():
        total += 1
        is_refused = not validator.is_valid(json.loads(without_comments(text)))
        reason = beyond(code, words)
        if not is_refused and reason:
            unseen += 1
            print(f"not seen: {text.splitlines()[-1][:60]}  ({reason})")
        refused += is_refused
        count(is_refused or reason is not None, f"accepted: {text}")
    count(total >= 60, f"only {total} faulty configurations found in the tests")
    print(f"{total} faulty configurations: {refused} refused by the schema, {unseen} beyond it")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
