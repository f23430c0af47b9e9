"""The parts of tools/gpu_check.sh that judge what kernels compute: parity, kernels, sanitizer, gelu; and what is there to be run.

A part returns a Result. Its dry run does all that needs no device, and fails when the tree lacks something; what only a
machine with a GPU has (a driver, compute-sanitizer, PyTorch) is noted.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from fatbin_list import Damaged, listed
from gpu_check_places import is_elf

TABLE = re.compile(r"^\w+ ops: (\d+) rows, \d+ kernels, (\d+) cases, without a device function: (.*); (\d+) passed, (\d+) failed$", re.M)
DOCTEST = re.compile(r"^\[doctest\] test cases: +(\d+) \| +(\d+) passed \| +(\d+) failed", re.M)
SANITIZER = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards? displayed \((\d+) errors?, \d+ warnings?\))")
GELU = re.compile(r"^gelu epilogue: (.+)$", re.M)
# What a sanitizer slows 10 to 100 times: one row for each kind of kernel.
MEMCHECK = ["tensors", "gelu", "sum", "softmax", "embedding", "gather", "attention", "linear"]
RACECHECK = ["sum", "softmax", "layer_norm", "attention"]


@dataclass
class Result:
    name: str
    well: bool = True
    lines: list = field(default_factory=list)  # of the short table
    figures: dict = field(default_factory=dict)

    def fail(self, why):
        self.well = False
        self.lines.append(why)
        return self


class Session:
    """One call of gpu_check.sh: where things are, where logs go, how much time is left."""

    def __init__(self, options, places):
        self.options, self.places, self.out = options, places, options.out
        self.deadline = time.monotonic() + options.minutes * 60
        self.running = set()

    def left(self):
        return max(0.0, self.deadline - time.monotonic())

    def call(self, words, log, limit, env=None):
        """(exit code, what it said); -9 when it ran past its limit. Everything goes to the log too."""
        limit = max(1.0, min(limit, self.left()))
        start = time.monotonic()
        try:
            process = subprocess.Popen([str(word) for word in words], env=env or self.places.environment(), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        except OSError as error:
            return 127, f"{words[0]}: {error.strerror}"
        self.running.add(process)
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            end(process)
            said, _ = process.communicate()
            said += f"\nended: it ran past its {limit:.0f} s"
        except BaseException:
            self.end()
            raise
        finally:
            self.running.discard(process)
        self.log(log, f"$ {' '.join(map(str, words))}\n{said.rstrip()}\n# exit {process.returncode}, {time.monotonic() - start:.1f} s\n")
        return process.returncode, said

    def end(self):
        """Ends all that runs, when we are ended."""
        for process in list(self.running):
            end(process)
            process.wait()

    def log(self, name, text):
        if self.out:
            with open(self.out / name, "a") as file:
                file.write(text)


def end(process):
    """A process has a group of its own, whose processes end with it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def last_lines(said, count=3):
    return " / ".join(line.strip() for line in said.strip().splitlines()[-count:])[-400:]


# What is there

def check_build(session, dry):
    """The programs, their libraries, and whether the module has code for this machine's device."""
    result, places = Result("build"), session.places
    for words in places.missing():
        result.fail(words)
    for file, library, at in places.libraries():
        session.log("build.log", f"{file}: {library} => {at}\n")
        if not at:
            result.fail(f"{file} needs {library}, which is nowhere: pack it, or put its folder into LD_LIBRARY_PATH")
    if not result.well:
        return result
    codes = architectures(places)
    doctor = places.doctor()
    session.log("build.log", json.dumps(doctor, indent=1) + "\n")
    result.figures = {"carried": places.carried, "architectures": codes, "doctor": doctor}
    result.lines.append(f"{'carried' if places.carried else 'of ' + str(places.folder)}; module for {' '.join(codes) or 'no GPU'}")
    if not doctor["built"]:
        return result.fail(doctor["reason"] or "the program does not load its module")
    devices = [device["name"] for device in doctor["devices"]]
    if dry:
        result.lines.append(f"driver: {doctor['error'] or ', '.join(devices) or 'no device'}")
    elif not doctor["usable"]:
        result.fail(doctor["reason"])
    elif codes and not doctor["devices"][0]["has_code"]:
        result.fail(f"no code for {devices[0]}, compute capability {doctor['devices'][0]['compute_capability']}")
    else:
        result.lines.append(f"device: {devices[0]}, CUDA {doctor['driver_cuda']}")
    return result


def architectures(places):
    try:
        return sorted(listed(places.module.read_bytes())) if is_elf(places.module) else []
    except Damaged:
        return []


# Parity

def table_rows(session):
    """The names of all rows of the op table."""
    status, said = session.call([session.places.program("mixtape"), "ops", "--json"], "parity.log", 20)
    try:
        return [row["name"] for row in json.loads(said)] if status == 0 else []
    except ValueError:
        return []


def check_parity(session, dry):
    """Every row of the op table, values and gradients, three dtypes, three layouts, against f64 on the CPU."""
    result, program = Result("parity"), session.places.program("mixtape_gpu_ops")
    rows = table_rows(session)
    if not rows:
        return result.fail("mixtape ops --json lists no rows")
    wanted = session.options.rows.split(",") if session.options.rows else ["tensors", *rows]
    if dry:
        status, said = session.call([program, "--dry-run"], "parity.log", 60)
        found = TABLE.search(said)
        if status != 0 or not found or int(found[1]) != len(rows):
            return result.fail(f"{program.name} --dry-run: {last_lines(said)}")
        result.lines.append(f"{len(rows)} rows have a device function")
        return result
    workers = max(1, min(8, (os.cpu_count() or 2) // 2, len(wanted)))
    shares = [wanted[i::workers] for i in range(workers)]
    env = session.places.environment(OMP_NUM_THREADS=str(max(1, (os.cpu_count() or 1) // workers)))
    with ThreadPoolExecutor(workers) as pool:
        try:
            parts = list(pool.map(lambda share: session.call([program, *options_of(share)], "parity.log", session.options.limit, env), shares))
        except BaseException:
            session.end()  # else the pool waits for them
            raise
    return judge_parity(result, parts, len([row for row in wanted if row != "tensors"]))


def options_of(rows):
    return [word for row in rows for word in ("--op", row)]


def judge_parity(result, parts, rows):
    """All rows were run, none failed, every process ended well."""
    sums = {"rows": 0, "cases": 0, "passed": 0, "failed": 0}
    for status, said in parts:
        found = TABLE.search(said)
        if not found:
            result.fail(f"a process ended with {status} and no counts: {last_lines(said)}")
            continue
        for key, group in zip(sums, (1, 2, 4, 5)):
            sums[key] += int(found[group])
        bad = [line.split()[0] for line in said.splitlines() if re.search(r"passed +[1-9]\d* failed$", line)]
        if bad:
            result.fail("wrong: " + ", ".join(bad))
        elif status != 0:
            result.fail(f"a process ended with {status}: {last_lines(said)}")
    if sums["rows"] != rows:
        result.fail(f"{sums['rows']} rows were run, of {rows}")
    if sums["failed"] or not sums["cases"]:
        result.well = False
    result.figures = sums
    result.lines.insert(0, f"{sums['rows']} rows, {sums['cases']} cases, {sums['passed']} passed, {sums['failed']} failed")
    return result


# Kernels one by one

def check_kernels(session, dry):
    """The tests of single kernels, at sizes and layouts of their own, products by the real cublasLt."""
    result, program = Result("kernels"), session.places.program("mixtape_gpu_kernels")
    status, said = session.call([program, "--list-test-cases", "--no-colors"] if dry else [program, "--no-colors"], "kernels.log", 120)
    if dry:
        count = re.search(r"unskipped test cases passing the current filters: (\d+)", said)
        if status != 0 or not count or int(count[1]) == 0:
            return result.fail(f"{program.name}: {last_lines(said)}")
        result.lines.append(f"{count[1]} test cases")
        return result
    found = DOCTEST.search(said)
    result.figures = dict(zip(("cases", "passed", "failed"), map(int, found.groups()))) if found else {}
    if not found or status != 0 or found[3] != "0" or found[1] == "0":
        wrong = sorted(set(re.findall(r"^TEST CASE:\s+(.*)$", said, re.M)))
        return result.fail(f"exit {status}: {'; '.join(wrong[:4]) or last_lines(said)}")
    result.lines.append(f"{found[2]} of {found[1]} test cases passed")
    return result


# Sanitizer

def check_sanitizer(session, dry):
    """Wrong addresses (memcheck) and races in shared memory (racecheck), on a few rows."""
    result, tool = Result("sanitizer"), shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
    if not tool:
        result.lines.append("compute-sanitizer is not here" + (": expected on the machine with the GPU" if dry else ""))
        result.well = dry
        return result
    program = session.places.program("mixtape_gpu_ops")
    for name, rows in (("memcheck", MEMCHECK), ("racecheck", RACECHECK)):
        if dry:
            status, said = session.call([tool, "--version"], "sanitizer.log", 30)
            result.lines.append(last_lines(said, 1))
            return result if status == 0 else result.fail(f"compute-sanitizer --version ended with {status}")
        if session.options.rows:
            rows = session.options.rows.split(",")
        words = [tool, "--tool", name, "--error-exitcode", "9", "--print-limit", "20", program, *options_of(rows)]
        status, said = session.call(words, "sanitizer.log", session.options.limit / 2)
        found, table = SANITIZER.search(said), TABLE.search(said)
        count = int(found[2] or found[1]) if found else None
        result.figures[name] = count
        result.lines.append(f"{name}: {'no summary' if count is None else f'{count} errors'}, {table[2] if table else 'no'} cases")
        if status != 0 or count != 0 or not table:
            result.fail(f"{name} ended with {status}: {last_lines(said)}")
    return result


# GELU

def check_gelu(session, dry):
    """Which GELU cublasLt's epilogue is. That it is one of the two must hold; docs/device.md says tanh."""
    result, program = Result("gelu"), session.places.program("mixtape_gpu_gelu")
    status, said = session.call([program, "--self-test"], "gelu.log", 30)
    if status != 0:
        return result.fail(f"{program.name} --self-test: {last_lines(said)}")
    status, said = session.call([program, "--dry-run"] if dry else [program], "gelu.log", 60)
    found = GELU.search(said)
    if status != 0 or not found:
        return result.fail(f"{program.name} ended with {status}: {last_lines(said)}")
    result.lines += said.strip().splitlines()
    result.figures = {"is": found[1]}
    if not dry and found[1] not in ("tanh", "erf"):
        result.fail("it is neither")
    return result

