"""Our training steps beside PyTorch's: the same shapes and threads, one after the other, medians and their ratio.

A fixed product is timed before, between and after the two programs of a pair (`mixtape bench machine`). Where its three rates
differ by more than 15 %, the machine changed under the pair: it is dropped and made again. So is one at a rate more than 35 %
from the session's median. Slow drift of a machine's clock drops nothing, since both programs saw the same clock.

exit 0 measured, targets met or not  1 a program failed, or a row has no undisturbed pair  2 usage  5 network or disk
12 a program was killed, most likely for memory  130 interrupted
"""

import json
import os
import pathlib
import platform
import shutil
import statistics
import sys
import tempfile

from bench_peer_rows import DEFAULT, LONGEST, Texts, select
from bench_programs import FAILED, IO, NO_BF16, ROOT, USAGE, Failure, check_program, count, cpu, end_with, environment, \
    parser_of, path, run, run_json, say, write_json

PACKAGES, ENV_BYTES = ["torch", "transformers"], 6e9
TOLERANCE, FAR = 0.15, 0.35  # how much the fixed product may change within a pair, and be off the session's median
TRIES = 3                    # pairs that are made for each one wanted, at most
# glibc gives large blocks back to the system and pays for their first touch again, every step. Told to take them from its
# heap and to keep that, PyTorch is at its fastest, and somewhat larger: the ratio of RSS is that of the fast runs.
PEER_MALLOC = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


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

def tweet_lengths(options):
    """Tokens of each training tweet, as our tokenizer cuts them; the tweets themselves go nowhere."""
    texts, vocab = options.data / "tweet_eval/offensive/train_text.txt", options.data / "bert/vocab.txt"
    for file in (texts, vocab):
        if not file.is_file():
            raise Failure(USAGE, f"{file} is not there, the rows tweets-... need it; name the folder of bert and tweet_eval: --data DIR")
    ids = run([options.program, "tokenize", "--vocab", vocab, "--max-length", str(LONGEST), "--no-match-special-tokens", texts])
    return [len(line.split()) for line in ids.splitlines()]


class Session:
    def __init__(self, options, python, rows, texts):
        self.options, self.rows, self.texts = options, rows, texts
        self.ours, self.theirs = [options.program], [python, options.peers / "torch_step.py"]
        self.our_env = environment(options.threads, {})
        self.their_env = environment(options.threads, PEER_MALLOC)
        self.rates = []
        self.pairs = {row.name: [] for row in rows}

    def probe(self):
        """GFLOP/s of the fixed product, in f32."""
        found = run_json([*self.ours, "bench", "machine", "--json"], self.our_env, "gemm_f32_gflops")
        self.rates.append(found["gemm_f32_gflops"])
        return self.rates[-1]

    def measure(self, row):
        steps, warmup = (max(2, row.steps // 5), 1) if self.options.quick else (row.steps, 2)
        size = self.options.threads, steps, warmup, self.texts
        beside = [self.rates[-1] if self.rates else self.probe()]  # the probe after one pair is the one before the next
        ours = run_json([*self.ours, *row.ours(*size)], self.our_env, "median_s", "peak_rss_bytes")
        beside.append(self.probe())
        program, env = (self.ours, self.our_env) if row.peer == "own" else (self.theirs, self.their_env)
        theirs = run_json([*program, *row.theirs(*size)], env, "median_s", "peak_rss_bytes")
        beside.append(self.probe())
        pair = {"ours": ours, "theirs": theirs, "gflops_beside": beside}
        if row.tweets:
            pair["mean_length"] = self.texts.mean
        self.pairs[row.name].append(pair)
        ratio = row.figures(pair)[0][2]
        say(f"{row.name}: ours {ours['median_s']:.4f} s, theirs {theirs['median_s']:.4f} s, {row.criteria()[0].what.split(',')[0]} {ratio:.2f}"
            + ("" if self.clean(pair) else f"; disturbed: products at {', '.join(f'{rate:.0f}' for rate in beside)} GFLOP/s"))

    def clean(self, pair):
        """The session's median moves, so this is asked anew each time."""
        beside, usual = pair["gflops_beside"], statistics.median(self.rates)
        return min(beside) >= (1 - TOLERANCE) * max(beside) and all(abs(rate / usual - 1) <= FAR for rate in beside)

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
        clean = [row.figures(pair) for pair in pairs if pair["clean"]]
        criteria = []
        for i, criterion in enumerate(row.criteria()):
            found = {"what": criterion.what, "must": criterion.must, "goal": criterion.goal, "at_most": criterion.at_most}
            if clean:
                ours, theirs, ratio = (statistics.median(figures[i][k] for figures in clean) for k in range(3))
                found |= {"ours": ours, "theirs": theirs, "ratio": ratio}
                found |= {f"{name}_met": criterion.meets(ratio, target) for name, target in (("must", criterion.must), ("goal", criterion.goal))
                          if target is not None}
            criteria.append(found)
        return {"name": row.name, "criteria": criteria, "pairs": pairs, "dropped": len(pairs) - len(clean)}


# Reporting

def table(results):
    line = "{:<20} {:<14} {:>9} {:>9} {:>6}  {:<7} {:<7} {:<7} {:<7}".format
    lines = [line("row", "what", "ours", "theirs", "ratio", "must", "", "goal", "")]
    for result in results:
        for c in result["criteria"]:
            measured = [f"{c['ours']:.4f}", f"{c['theirs']:.4f}", f"{c['ratio']:.2f}"] if "ratio" in c else ["-", "-", "-"]
            verdicts = []
            for target in ("must", "goal"):
                wanted = "-" if c[target] is None else f"{'<=' if c['at_most'] else '>='}{c[target]:g}"
                met = c.get(f"{target}_met")
                verdicts += [wanted, "" if c[target] is None else "no data" if met is None else "ok" if met else "missed"]
            lines.append(line(result["name"], c["what"], *measured, *verdicts))
    return "\n".join(text.rstrip() for text in lines)


def runnable(rows, named, has_bf16):
    """(rows, what is skipped and why)"""
    kept, skipped = [], []
    for row in rows:
        if row.amp == "bf16" and not has_bf16 and row.name not in named:
            skipped.append({"name": row.name, "why": NO_BF16})
        else:
            kept.append(row)
    return kept, skipped


def list_rows(rows):
    for row in rows:
        for c in row.criteria():
            targets = "no target" if c.must is None else f"must {'<=' if c.at_most else '>='} {c.must:<5g} goal {c.goal:g}"
            print(f"{row.name:<20} {c.what:<14} {targets}")


def parse(words):
    parser = parser_of("tools/bench_peer", __doc__)
    default_env = os.environ.get("MIXTAPE_TORCH_ENV") or ROOT / "downloads" / "torch"
    parser.add_argument("--rows", metavar="A,B", help="names, or their first parts (tiny, own, tweets), or all, instead of: " + ", ".join(DEFAULT))
    parser.add_argument("--list", action="store_true", help="only list the rows (those of --rows, else all) and their targets")
    parser.add_argument("--quick", action="store_true", help="one pair a row, a fifth of the steps (two at least)")
    parser.add_argument("--runs", type=count, metavar="N", help="undisturbed pairs a row (3; 1 with --quick)")
    parser.add_argument("--peers", type=path, metavar="DIR", default=ROOT.parent / "shared/peers", help="where torch_step.py is (%(default)s)")
    parser.add_argument("--data", type=path, metavar="DIR", default=ROOT.parent / "shared/data", help="where bert and tweet_eval are (%(default)s)")
    parser.add_argument("--env", type=path, metavar="DIR", default=path(default_env),
                        help="virtual environment of the peer, made when it is missing (MIXTAPE_TORCH_ENV, else %(default)s)")
    options = parser.parse_args(words)
    options.runs = options.runs or (1 if options.quick else 3)
    return options


def named_rows(options, otherwise):
    """(the words of --rows, their rows)"""
    named = [word for word in options.rows.split(",") if word] if options.rows is not None else otherwise
    try:
        return named, select(named)
    except ValueError as error:
        raise Failure(USAGE, str(error)) from None


def chosen_rows(options, has_bf16):
    """(rows, what is skipped and why)"""
    named, rows = named_rows(options, DEFAULT)
    check_program(options)
    if any(row.peer == "torch" for row in rows) and not (options.peers / "torch_step.py").is_file():
        raise Failure(USAGE, f"{options.peers / 'torch_step.py'} is not there; name its folder: --peers DIR")
    rows, skipped = runnable(rows, named if options.rows else [], has_bf16)
    for row in skipped:
        say(f"{row['name']} is skipped: {row['why']}")
    if not rows:
        raise Failure(USAGE, "no row is left to measure")
    return rows, skipped


def measure(options, rows, folder):
    """(session, versions)"""
    needs_tweets, needs_peer = any(row.tweets for row in rows), any(row.peer == "torch" for row in rows)
    texts = Texts(tweet_lengths(options), 16, folder) if needs_tweets else None
    python, found = make_environment(options.env) if needs_peer else (None, {})
    session = Session(options, python, rows, texts)
    session.run()
    return session, {"mixtape": run([options.program, "--version"]).strip(), **found, "python": platform.python_version()}


def compare(options):
    if options.list:
        list_rows(named_rows(options, ["all"])[1])
        return 0
    name, has_bf16 = cpu()
    rows, skipped = chosen_rows(options, has_bf16)
    with tempfile.TemporaryDirectory() as folder:
        session, found = measure(options, rows, pathlib.Path(folder))
    results = [session.result(row) for row in rows]
    print(table(results))
    dropped, made = sum(r["dropped"] for r in results), sum(len(r["pairs"]) for r in results)
    print(f"{dropped} of {made} pairs dropped as disturbed; the fixed product at {min(session.rates):.0f} to {max(session.rates):.0f} GFLOP/s, "
          f"{options.threads} threads")
    if options.json:
        write_json(options.json, {"cpu": name, "bf16": has_bf16, "threads": options.threads, "runs": options.runs, "quick": options.quick,
                                  "versions": found, "peer_malloc": PEER_MALLOC, "tolerance": TOLERANCE, "far": FAR,
                                  "gflops": session.rates, "rows": results, "skipped": skipped})
    if empty := [r["name"] for r in results if r["dropped"] == len(r["pairs"])]:
        raise Failure(FAILED, f"no undisturbed pair of {', '.join(empty)}: end what else runs on this machine and try again")
    return 0


def main(words):
    return end_with(compare, parse(words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
