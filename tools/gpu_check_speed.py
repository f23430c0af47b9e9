"""The part of tools/gpu_check.sh that measures: our training steps beside PyTorch's, eager and compiled, on the same device.

BERT-base, a batch of 32, three dtypes, texts of 128, of 384 and of real lengths. Of fixed lengths the median step counts, of
real ones real tokens a second: ours packed, PyTorch's in batches of like length, each padded to its longest.
"""

import json
import math
import sys

from bench_programs import ROOT, bench_words
from gpu_check_parts import Result, last_lines
from gpu_check_places import peer_python

# What is worth most first: compiling takes half a minute a case, and time may run out.
CASES = [f"{dtype}:{shape}" for dtype in ("bf16", "fp16", "f32") for shape in ("32x128", "32x384", "32xmix")]
WHO = ("ours", "eager", "compile")
AMP = {"bf16": "bf16", "fp16": "fp16", "f32": "off"}
REFUSED = ("E-DEVICE", "E-CONFIG-DEVICE")  # what bench step says where there is no device
STEPS, WARMUP = 30, 10
FOR_OTHERS = 130  # seconds that compiling leaves
LONGEST = 128  # of a real text, as its tokenizer cuts it
TINY = (2, 128, 2, 512)
PEER = ROOT / "tools" / "gpu_peer.py"


def our_words(case, lengths, device, steps, warmup, shape=None):
    dtype, _, size = case.partition(":")
    batch, _, seq = size.partition("x")
    more = ["--no-floor", "--set", f"device={device}"]
    if seq == "mix":
        seq, more = str(LONGEST), [*more, "--lengths", str(lengths[0]), "--set", "data.padding=packed"]
    shape = {"shape": shape} if shape else {}
    return bench_words(AMP[dtype], int(batch), int(seq), 0, steps, warmup, more=more, **shape)


def peer_words(cases, lengths, more):
    words = [str(PEER), "--cases", ",".join(cases), "--steps", str(STEPS), "--warmup", str(WARMUP), *more]
    return words + (["--lengths", str(lengths[1])] if lengths else [])


def json_lines(said):
    for line in said.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def figure(case, found):
    """Seconds of a step, or real tokens a second; None when it is no such figure."""
    value = found.get("tokens_per_s" if case.endswith("mix") else "median_s")
    finite = isinstance(value, (int, float)) and math.isfinite(value) and value > 0
    loss = found.get("loss", 0.0)
    return value if finite and isinstance(loss, (int, float)) and math.isfinite(loss) else None


def ratio(case, ours, theirs):
    """How many times as fast ours is."""
    if ours is None or theirs is None:
        return None
    return ours / theirs if case.endswith("mix") else theirs / ours


class Speed:
    def __init__(self, session):
        self.session, self.result = session, Result("speed")
        self.lengths = session.places.lengths
        wanted = session.options.cases.split(",") if session.options.cases else CASES
        self.cases = [case for case in wanted if self.lengths or not case.endswith("mix")]
        self.found = {case: dict.fromkeys(WHO) for case in wanted}

    def take(self, who, case, found):
        self.session.log("speed.log", json.dumps({"who": who, "case": case} | found) + "\n")
        if case in self.found:
            self.found[case][who] = figure(case, found)
        if self.found.get(case, {}).get(who) is None:
            self.result.fail(f"{who} {case}: {found.get('error') or 'no finite figure'}")

    def measure_ours(self):
        for case in self.cases:
            words = [self.session.places.program("mixtape"), *our_words(case, self.lengths, "cuda", STEPS, WARMUP)]
            status, said = self.session.call(words, "speed.log", 60)
            lines = list(json_lines(said))
            self.take("ours", case, lines[-1] if status == 0 and lines else {"error": f"ended with {status}: {last_lines(said)}"})

    def measure_theirs(self, python, who, limit):
        """All cases in one process; those that were not begun in time stay without a figure, and fail nothing."""
        more = ["--compile", "--until", str(int(limit * 0.8))] if who == "compile" else []
        status, said = self.session.call([python, *peer_words(self.cases, self.lengths, more)], "speed.log", limit)
        lines = [found for found in json_lines(said) if "case" in found]
        for found in lines:
            self.take(who, found.pop("case"), found)
        if not lines or (status != 0 and who == "eager"):
            self.result.fail(f"{who}: ended with {status}: {last_lines(said)}")

    def run(self):
        python, versions = peer_python(self.session.options)
        if not self.lengths:
            self.result.fail("no real lengths: gpu_check.sh pack takes them along")
        self.measure_ours()
        if python:
            self.measure_theirs(python, "eager", 90)
            self.measure_theirs(python, "compile", max(30, self.session.left() - FOR_OTHERS))
            self.result.lines.append(f"torch {versions['torch']}, transformers {versions['transformers']}")
        else:
            self.result.fail(versions)
        self.result.figures = {case: by | {"eager/ours": ratio(case, by["ours"], by["eager"]),
                                           "compile/ours": ratio(case, by["ours"], by["compile"])} for case, by in self.found.items()}
        return self.result

    def dry_run(self):
        """Ours on the CPU, tiny, then on a device that is not there; PyTorch's words and files, and where it is its imports."""
        program = self.session.places.program("mixtape")
        status, said = self.session.call([program, *our_words("bf16:2x8", None, "cpu", 1, 0, TINY)], "speed.log", 60)
        if status != 0 or not any("median_s" in found for found in json_lines(said)):
            self.result.fail(f"bench step on the CPU: {last_lines(said)}")
        status, said = self.session.call([program, *our_words("bf16:2x8", None, "cuda", 1, 0, TINY)], "speed.log", 60)
        if status == 0:
            self.result.lines.append("bench step ran on a device")
        elif any(code in said for code in REFUSED):
            self.result.lines.append(f"bench step on a device: {last_lines(said, 2)}")
        else:
            self.result.fail(f"bench step on a device: {last_lines(said)}")
        status, said = self.session.call([sys.executable, *peer_words(self.cases, self.lengths, ["--dry-run"])], "speed.log", 60)
        if status != 0 or len(list(json_lines(said))) != len(self.cases):
            self.result.fail(f"{PEER.name} --dry-run: {last_lines(said)}")
        if not self.lengths:
            self.result.lines.append("real lengths are not packed here")
        python, versions = peer_python(self.session.options)
        self.result.lines.append(f"torch {versions['torch']} of {python}" if python else f"{versions}: expected on the machine with the GPU")
        self.result.figures = {case: dict.fromkeys((*WHO, "eager/ours", "compile/ours")) for case in self.found}
        return self.result


def check_speed(session, dry):
    """Our steps beside PyTorch's."""
    speed = Speed(session)
    return speed.dry_run() if dry else speed.run()


def table(figures):
    """Lines of the short table: milliseconds, or for real lengths thousands of real tokens a second."""
    line = "{:<14} {:>9} {:>9} {:>9} {:>11} {:>13}".format
    lines = [line("case", *WHO, "eager/ours", "compile/ours")]
    for case, by in figures.items():
        scale, unit = (1e-3, "k") if case.endswith("mix") else (1e3, "ms")
        cells = ["-" if by[who] is None else f"{by[who] * scale:.2f} {unit}" for who in WHO]
        ratios = ["-" if by[key] is None else f"{by[key]:.2f}" for key in ("eager/ours", "compile/ours")]
        lines.append(line(case, *cells, *ratios))
    return lines
