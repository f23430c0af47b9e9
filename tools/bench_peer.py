"""Our training steps beside PyTorch's: the same shapes and threads, one after the other, medians and their ratio.

A fixed product is timed before and after each step program. A pair of runs beside which it was more than 15 % slower
than the best of the session shared the machine with somebody: it is dropped and made again. Real tweets, bytes saved for
backward and our own f32 / bf16 are rows of performance.md, section 5, that are not measured here.

exit 0 measured, targets met or not  1 a program failed, or a row has no undisturbed pair  2 usage  5 network or disk
12 a program was killed, most likely for memory  130 interrupted
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import statistics
import subprocess
import sys

from bench_peer_rows import DEFAULT, ROWS, select

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAILED, USAGE, IO, MEMORY = 1, 2, 5, 12
PACKAGES, ENV_BYTES = ["torch", "transformers"], 6e9
TOLERANCE = 0.15    # how far the fixed product may fall under its best
TRIES = 3           # pairs that are made for each one wanted, at most
# glibc gives large blocks back to the system and pays for their first touch again, every step. Told to take them from its
# heap and to keep that, PyTorch is at its fastest, and somewhat larger: the ratio of RSS is that of the fast runs.
PEER_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


class Failure(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def say(text):
    print(f"bench_peer: {text}", file=sys.stderr, flush=True)


def environment(threads, extra):
    """Ours, without what would change threads or allocation in one of the programs."""
    kept = {k: v for k, v in os.environ.items() if not re.match(r"(OMP|GOMP|KMP|MKL|MALLOC|GLIBC|LD_PRELOAD)(_|$)", k)}
    return kept | {"OMP_NUM_THREADS": str(threads)} | extra


def run(command, env=None):
    """What the command prints. It has a process group of its own, which ends when we do."""
    try:
        process = subprocess.Popen(command, env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise Failure(USAGE, f"{command[0]}: {error.strerror}") from None
    try:
        out, err = process.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if process.returncode:
        words = " ".join(map(str, command))
        if process.returncode == -signal.SIGKILL:
            raise Failure(MEMORY, f"{words}\nwas killed, most likely because memory ran out: choose a smaller row")
        last = "\n".join(err.strip().splitlines()[-5:])
        raise Failure(FAILED, f"{words}\nended with {process.returncode}:\n{last}")
    return out


def run_json(command, env, *keys):
    """What its last line says, which has these keys."""
    out = run(command, env)
    with contextlib.suppress(ValueError, IndexError, AttributeError):
        found = json.loads(out.strip().splitlines()[-1])
        if found.keys() >= set(keys):
            return found
    raise Failure(FAILED, f"{' '.join(map(str, command))}\nprinted no line of JSON with {' and '.join(keys)}")


def cpu():
    """(name, whether it multiplies bf16)"""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return name.group(1) if name else platform.machine(), bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", text))


# The peer's environment

def versions(python):
    """The packages' versions; empty when they cannot be imported."""
    names = ", ".join(PACKAGES)
    try:
        out = run([python, "-c", f"import json, {names}; print(json.dumps({{m.__name__: m.__version__ for m in ({names})}}))"])
        return json.loads(out)
    except (Failure, ValueError):
        return {}


def make_environment(folder):
    """The Python of a virtual environment with the peer's packages, and their versions."""
    python = folder / "bin" / "python"
    if python.exists() and (found := versions(python)):
        return python, found
    say(f"installing {' and '.join(PACKAGES)} from PyPI into {folder}; this takes about {ENV_BYTES / 1e9:.0f} GB and some minutes")
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if free < ENV_BYTES:
        raise Failure(IO, f"{folder}: {free / 1e9:.1f} GB are free, {ENV_BYTES / 1e9:.0f} are needed; choose another place with --env DIR")
    try:
        run([sys.executable, "-m", "venv", folder])
    except Failure as failure:
        raise Failure(IO, f"{failure}\nIs python3-venv there? tools/setup --dev installs it") from None
    try:
        run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--disable-pip-version-check", *PACKAGES])
    except Failure as failure:
        raise Failure(IO, f"{failure}\nCheck the network and run this again; an environment made elsewhere is named by --env DIR") from None
    if found := versions(python):
        return python, found
    raise Failure(IO, f"{folder}: {' and '.join(PACKAGES)} are installed but cannot be imported; remove the folder and run this again")


# Measuring

class Session:
    def __init__(self, options, python, rows):
        self.options, self.rows = options, rows
        script = options.peers / "torch_step.py"
        self.ours, self.theirs = [options.program], [python, script]
        self.our_env = environment(options.threads, {})
        self.their_env = environment(options.threads, PEER_MALLOC)
        self.best = self.rate = 0.0
        self.pairs = {row.name: [] for row in rows}

    def probe(self):
        """GFLOP/s of the fixed products: BERT-base's linear layers on 256 tokens, in f32."""
        found = run_json([*self.ours, "bench", "ops", "--batch", "4", "--seq", "64", "--json"], self.our_env, "ops")
        flops = seconds = 0.0
        for op in found["ops"]:
            if op["op"] == "linear":
                (m, k), (n, _) = (map(int, part.split(",")) for part in re.findall(r"\[(.*?)\]", op["shape"]))
                flops, seconds = flops + 2 * m * k * n, seconds + op["f32_forward_s"]
        self.rate = flops / seconds / 1e9
        self.best = max(self.best, self.rate)
        return self.rate

    def measure(self, row):
        steps, warmup = (max(2, row.steps // 5), 1) if self.options.quick else (row.steps, 2)
        size = self.options.threads, steps, warmup
        rates = [self.rate or self.probe()]  # the probe after one pair is the one before the next
        ours = run_json([*self.ours, *row.ours(*size)], self.our_env, "median_s", "peak_rss_bytes")
        rates.append(self.probe())
        theirs = run_json([*self.theirs, *row.theirs(*size)], self.their_env, "median_s", "peak_rss_bytes")
        rates.append(self.probe())
        pair = {"ours": ours, "theirs": theirs, "gflops_beside": rates}
        self.pairs[row.name].append(pair)
        say(f"{row.name}: ours {ours['median_s']:.4f} s, theirs {theirs['median_s']:.4f} s"
            + ("" if self.clean(pair) else f"; disturbed: products at {min(rates):.0f} of {self.best:.0f} GFLOP/s"))

    def clean(self, pair):
        """A later probe may be the best one, so this is asked anew each time."""
        return min(pair["gflops_beside"]) >= (1 - TOLERANCE) * self.best

    def wants(self, row):
        pairs, runs = self.pairs[row.name], self.options.runs
        return len(pairs) < TRIES * runs and sum(map(self.clean, pairs)) < runs

    def run(self):
        while wanting := [row for row in self.rows if self.wants(row)]:
            for row in wanting:  # in turns: a machine that drifts does so for every row
                self.measure(row)

    def result(self, row):
        pairs = self.pairs[row.name]
        for pair in pairs:
            pair["clean"] = self.clean(pair)
        clean = [pair for pair in pairs if pair["clean"]]
        result = {"name": row.name, "must": row.must, "goal": row.goal, "rss_must": row.rss[0], "rss_goal": row.rss[1],
                  "pairs": pairs, "dropped": len(pairs) - len(clean)}
        if clean:
            median = lambda side, key: statistics.median(pair[side][key] for pair in clean)
            ours, theirs = median("ours", "median_s"), median("theirs", "median_s")
            result |= {"ours_s": ours, "theirs_s": theirs, "ratio": theirs / ours,
                       "rss_ratio": median("ours", "peak_rss_bytes") / median("theirs", "peak_rss_bytes")}
        return result


# Reporting

def verdict(reaches_must, reaches_goal):
    return "goal met" if reaches_goal else "must met" if reaches_must else "not met"


def table(results):
    line = "{:<17} {:>9} {:>9} {:>6} {:>5} {:>5}  {:<8} {:>6} {:>5} {:>5}  {:<8}".format
    lines = [line("row", "ours, s", "theirs, s", "ratio", "must", "goal", "", "RSS", "must", "goal", "")]
    for r in results:
        targets, rss = (f"{r['must']:.2f}", f"{r['goal']:.2f}"), (f"{r['rss_must']:.2f}", f"{r['rss_goal']:.2f}")
        if "ratio" not in r:
            lines.append(line(r["name"], "-", "-", "-", *targets, "no data", "-", *rss, "no data"))
            continue
        lines.append(line(r["name"], f"{r['ours_s']:.4f}", f"{r['theirs_s']:.4f}", f"{r['ratio']:.2f}", *targets,
                          verdict(r["ratio"] >= r["must"], r["ratio"] >= r["goal"]), f"{r['rss_ratio']:.2f}", *rss,
                          verdict(r["rss_ratio"] <= r["rss_must"], r["rss_ratio"] <= r["rss_goal"])))
    return "\n".join(text.rstrip() for text in lines)


def runnable(rows, named, has_bf16):
    """(rows, what is skipped and why)"""
    kept, skipped = [], []
    for row in rows:
        if row.amp == "bf16" and not has_bf16 and row.name not in named:
            skipped.append({"name": row.name, "why": "this CPU has no avx512_bf16, so PyTorch emulates bf16 and needs over 100 s "
                                                     "for a step of BERT-base; --rows with the whole name measures it all the same"})
        else:
            kept.append(row)
    return kept, skipped


def write_json(path, content):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def parse(words):
    def count(word):
        if not word.isdecimal() or not 0 < int(word) <= 1000:
            raise argparse.ArgumentTypeError(f"expected a number from 1 to 1000, got '{word}'")
        return int(word)

    parser = argparse.ArgumentParser(prog="tools/bench_peer", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    path = lambda word: pathlib.Path(word).absolute()
    default_env = os.environ.get("MIXTAPE_TORCH_ENV") or ROOT / "downloads" / "torch"
    parser.add_argument("--rows", metavar="A,B", help="names, or their first parts (tiny), instead of: " + ", ".join(DEFAULT))
    parser.add_argument("--list", action="store_true", help="only list the rows and their targets")
    parser.add_argument("--quick", action="store_true", help="one pair a row, a fifth of the steps (two at least)")
    parser.add_argument("--runs", type=count, metavar="N", help="undisturbed pairs a row (3; 1 with --quick)")
    parser.add_argument("--threads", type=count, metavar="N", default=len(os.sched_getaffinity(0)), help="of both (the usable cores)")
    parser.add_argument("--json", type=path, metavar="FILE", help="all single figures, versions and the CPU")
    parser.add_argument("--program", type=path, metavar="FILE", default=ROOT / "build/release/bin/mixtape", help="ours (%(default)s)")
    parser.add_argument("--peers", type=path, metavar="DIR", default=ROOT.parent / "shared/peers", help="where torch_step.py is (%(default)s)")
    parser.add_argument("--env", type=path, metavar="DIR", default=path(default_env),
                        help="virtual environment of the peer, made when it is missing (MIXTAPE_TORCH_ENV, else %(default)s)")
    options = parser.parse_args(words)
    options.runs = options.runs or (1 if options.quick else 3)
    return options


def compare(options):
    if options.list:
        print("\n".join(f"{row.name:<17} must {row.must:.2f}  goal {row.goal:.2f}" for row in ROWS))
        return 0
    named = [word for word in options.rows.split(",") if word] if options.rows is not None else DEFAULT
    try:
        rows = select(named)
    except ValueError as error:
        raise Failure(USAGE, str(error)) from None
    if not options.program.is_file():
        raise Failure(USAGE, f"{options.program} is not there; build it (cmake --preset release && cmake --build --preset release) "
                             "or name it: --program FILE")
    if not (options.peers / "torch_step.py").is_file():
        raise Failure(USAGE, f"{options.peers / 'torch_step.py'} is not there; name its folder: --peers DIR")
    if options.json and not os.access(options.json.parent, os.W_OK):  # before an hour of measuring, not after it
        raise Failure(IO, f"{options.json.parent}: no folder that can be written to")
    name, has_bf16 = cpu()
    rows, skipped = runnable(rows, named if options.rows else [], has_bf16)
    for row in skipped:
        say(f"{row['name']} is skipped: {row['why']}")
    if not rows:
        raise Failure(USAGE, "no row is left to measure")
    python, found = make_environment(options.env)
    found = {"mixtape": run([options.program, "--version"]).strip(), **found, "python": platform.python_version()}

    session = Session(options, python, rows)
    session.run()
    results = [session.result(row) for row in rows]
    print(table(results))
    dropped, made = sum(r["dropped"] for r in results), sum(len(r["pairs"]) for r in results)
    print(f"{dropped} of {made} pairs dropped as disturbed; fixed products at {session.best:.0f} GFLOP/s at best, {options.threads} threads")
    if options.json:
        write_json(options.json, {"cpu": name, "bf16": has_bf16, "threads": options.threads, "runs": options.runs, "quick": options.quick,
                                  "versions": found, "peer_malloc": PEER_MALLOC, "tolerance": TOLERANCE,
                                  "best_gflops": session.best, "rows": results, "skipped": skipped})
    if empty := [r["name"] for r in results if "ratio" not in r]:
        raise Failure(FAILED, f"no undisturbed pair of {', '.join(empty)}: end what else runs on this machine and try again")
    return 0


def main(words):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so that run() ends its group
    options = parse(words)
    try:
        return compare(options)
    except Failure as failure:
        say(failure)
        return failure.code
    except OSError as error:
        say(f"{error.filename}: {error.strerror or error}")
        return IO
    except KeyboardInterrupt:
        say("interrupted; nothing is left running")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
