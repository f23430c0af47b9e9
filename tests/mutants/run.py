#!/usr/bin/env python3
"""Plants one fault at a time and demands that the tests see it: tests/mutants/run.py BUILD [NAME...]

mutants.json lists them: a file, the text that is replaced (it must stand there once), and the tests that must fail
("op:gelu" is a row of the op table, "unit:backward" the cases of test_backward.cpp, "faults:torn" a group of tools/faults). Of a header, "in" names the file whose unit is to see it. Only the unit
with the mutated file is compiled, with the build's own command, and linked with the other objects. A mutant that survives, or no longer applies, is a failure.
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent


def unit_of(database, source):
    """The translation unit that holds this file (alone, or one that includes it among others), and the build's command."""
    for entry in database:
        if "mixtape_objects" not in entry["command"] and "mixtape_text" not in entry["command"]:
            continue
        unit = pathlib.Path(entry["file"])
        if unit == source or ("Unity" in unit.parts and f'"{source}"' in unit.read_text()):
            return unit, shlex.split(entry["command"]), pathlib.Path(entry["directory"])
    raise SystemExit(f"{source}: not in the build")


def link_command(build, program):
    """The build's own link line, from ninja."""
    lines = subprocess.run(["ninja", "-t", "commands", program], cwd=build, capture_output=True, text=True, check=True).stdout
    return lines.strip().splitlines()[-1]


def killed(build, database, mutant, folder):
    source = ROOT / mutant["file"]
    text = source.read_text()
    if text.count(mutant["old"]) != 1:
        return None, f"'{mutant['old']}' stands {text.count(mutant['old'])} times in {mutant['file']}, not once"
    mutated = folder / mutant["file"]
    mutated.parent.mkdir(parents=True)
    mutated.write_text(text.replace(mutant["old"], mutant["new"]))
    unit, command, directory = unit_of(database, ROOT / mutant.get("in", mutant["file"]))
    mutant_unit = mutated
    if "in" in mutant:  # a header: found before the tree's own
        mutant_unit = unit
        command.insert(command.index(f"-I{ROOT}"), f"-I{folder}")
    elif unit != source:
        mutant_unit = folder / unit.name
        mutant_unit.write_text(unit.read_text().replace(f'"{source}"', f'"{mutated}"'))
    old_object = command[command.index("-o") + 1]
    new_object = str(folder / "mutant.o")
    command = [str(mutant_unit) if part == str(unit) else new_object if part == old_object else part for part in command]
    command.append("-Wno-error")  # a fault may leave a name unused
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        return None, "does not compile:\n" + done.stderr[:2000]
    kind, name = mutant["test"].split(":")
    program = {"op": "mixtape_optest", "unit": "mixtape_tests", "faults": "mixtape"}[kind]
    line = link_command(build, f"bin/{program}")
    if old_object not in line:
        return None, f"{old_object} is not linked into {program}"
    mutant_program = folder / "program"
    line = line.replace(old_object, new_object).replace(f"-o bin/{program}", f"-o {mutant_program}")
    linked = subprocess.run(line, shell=True, cwd=directory, capture_output=True, text=True)
    if linked.returncode:
        return None, "does not link (is the build up to date?):\n" + linked.stderr[-500:]
    if kind == "faults":
        command = [str(ROOT / "tools" / "faults"), "--build", str(build), "--program", str(mutant_program), "--seed", "1", name]
    else:
        command = [str(mutant_program), *(["--op", name] if kind == "op" else [f"--source-file=*test_{name}.cpp"])]
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return None, "its tests do not end: a test that bounds its loop would say what is wrong"
    return run.returncode != 0, run.stdout[-300:]


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    build = pathlib.Path(sys.argv[1]).resolve()
    database = json.loads((build / "compile_commands.json").read_text())
    mutants = json.loads((HERE / "mutants.json").read_text())
    chosen = sys.argv[2:]
    mutants = [mutant for mutant in mutants if not chosen or mutant["name"] in chosen]

    def plant(mutant):
        with tempfile.TemporaryDirectory() as folder:
            return killed(build, database, mutant, pathlib.Path(folder))

    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)))) as pool:
        for mutant, (dead, why) in zip(mutants, pool.map(plant, mutants)):
            if dead:
                passed += 1
                print(f"killed    {mutant['name']}", flush=True)
            else:
                failed += 1
                print(f"{'SURVIVED' if dead is False else 'BROKEN  '}  {mutant['name']}: {why}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
