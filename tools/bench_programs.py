"""What bench_peer, bench_checks and bench_waterfall share: programs that are run, JSON that they print, how a script ends.

exit 0 done  1 a program failed, or a check did  2 usage  5 network or disk
12 a program was killed, most likely for memory  130 interrupted
"""

import argparse
import contextlib
import json
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAILED, USAGE, IO, MEMORY = 1, 2, 5, 12
BASE, MINILM, TINY = (12, 768, 12, 3072), (6, 384, 12, 1536), (2, 128, 2, 512)  # layers, hidden, heads, intermediate
KEYS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
NO_BF16 = ("this CPU has no avx512_bf16, so PyTorch emulates bf16 and needs over 100 s for a step of BERT-base; --rows with "
           "the whole name measures it all the same")


class Failure(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def say(text):
    print(f"{pathlib.Path(sys.argv[0]).stem}: {text}", file=sys.stderr, flush=True)


def environment(threads, extra):
    """Ours, without what would change threads or allocation in one of the programs."""
    kept = {k: v for k, v in os.environ.items() if not re.match(r"(OMP|GOMP|KMP|MKL|MALLOC|GLIBC|LD_PRELOAD)(_|$)", k)}
    return kept | {"OMP_NUM_THREADS": str(threads)} | extra


def run(command, env=None, stdin=None):
    """What the command prints. It has a process group of its own, which ends when we do."""
    try:
        process = subprocess.Popen(command, env=env, text=True, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE,
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


def bench_words(amp, batch, seq, threads, steps, warmup, shape=BASE, mode="step", more=()):
    """`bench step|infer --json …` of one shape."""
    values = {"amp.dtype": amp, "threads": threads}
    if shape != BASE:
        values |= {f"model.config.{key}": value for key, value in zip(KEYS, shape)}
    return ["bench", mode, "--json", "--batch", str(batch), "--seq", str(seq), "--steps", str(steps), "--warmup", str(warmup),
            *more, *(word for key, value in values.items() for word in ("--set", f"{key}={value}"))]


def cpu():
    """(name, whether it multiplies bf16)"""
    text = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return name.group(1) if name else platform.machine(), bool(re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", text))


def write_json(path, content):
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(json.dumps(content, indent=1) + "\n")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Failure(IO, f"{path}: {error.strerror}") from None


def check_program(options):
    """Before an hour of measuring, not after it. Settles the threads, too."""
    if not options.program.is_file():
        raise Failure(USAGE, f"{options.program} is not there; build it (cmake --preset release && cmake --build --preset release) "
                             "or name it: --program FILE")
    try:
        version = run([options.program, "--version"])
    except Failure as failure:
        raise Failure(USAGE, f"{failure}\nIt is no mixtape; name ours: --program FILE") from None
    if not version.startswith("mixtape "):
        raise Failure(USAGE, f"{options.program} is no mixtape (--version does not say so); name ours: --program FILE")
    if options.json and options.json.is_dir():
        raise Failure(IO, f"{options.json}: a folder; --json takes the name of a file")
    if options.json and not os.access(options.json.parent, os.W_OK):
        raise Failure(IO, f"{options.json.parent}: no folder that can be written to")
    if options.threads is None:
        options.threads = run_json([options.program, "doctor", "--json"], None, "processor")["processor"]["cores"]


def path(word):
    return pathlib.Path(word).absolute()


def count(word):
    if not word.isdecimal() or not 0 < int(word) <= 1000:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 1000, got '{word}'")
    return int(word)


def parser_of(prog, doc):
    """With the options that all these scripts have."""
    parser = argparse.ArgumentParser(prog=prog, description=doc, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=count, metavar="N", help="of each program (the cores that affinity and cgroup allow)")
    parser.add_argument("--json", type=path, metavar="FILE", help="all single figures, versions and the CPU")
    parser.add_argument("--program", type=path, metavar="FILE", default=ROOT / "build/release/bin/mixtape", help="ours (%(default)s)")
    return parser


def end_with(work, options):
    """The exit code of `work(options)`."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unwinds, so that run() ends its group
    try:
        return work(options)
    except Failure as failure:
        say(failure)
        return failure.code
    except OSError as error:
        say(f"{error.filename}: {error.strerror or error}")
        return IO
    except KeyboardInterrupt:
        say("interrupted; nothing is left running")
        return 130
