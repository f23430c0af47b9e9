"""What tools/bench_peer can measure: ../shared/performance.md, section 5, a row a line."""

import random
from dataclasses import dataclass

from bench_programs import BASE, MINILM, TINY, bench_words

BUCKET = 50  # batches that are sorted by length together, as in ../shared/peers/torch_finetune.py
LONGEST, PADDED = 128, 512


@dataclass(frozen=True)
class Criterion:
    what: str
    must: float  # None: nobody asked
    goal: float
    at_most: bool = False  # else: at least

    def meets(self, ratio, target):
        return ratio <= target if self.at_most else ratio >= target


@dataclass(frozen=True)
class Row:
    """Ours beside PyTorch's step of the same shape: how many times as fast, and its share of the peer's memory."""
    name: str
    amp: str
    batch: int
    seq: int
    must: float
    goal: float
    shape: tuple = BASE
    steps: int = 5  # of small models more: one step is too short to be judged
    mode: str = "step"
    peer: str = "torch"  # or "own": the other program is ours too
    tweets = False

    def criteria(self):
        rss = (0.75, 0.70) if self.seq <= 128 else (0.42, 0.36)
        return [Criterion("time, s", self.must, self.goal), Criterion("RSS, GB", *rss, at_most=True)]

    def ours(self, threads, steps, warmup, texts):
        return bench_words(self.amp, self.batch, self.seq, threads, steps, warmup, self.shape, self.mode, more=["--no-floor"])

    def theirs(self, threads, steps, warmup, texts):
        return torch_words(self.amp, self.batch, self.seq, threads, steps, warmup, self.shape, self.mode)

    def figures(self, pair):
        """For each criterion what it compares: (ours, theirs, ratio)."""
        ours, theirs = pair["ours"], pair["theirs"]
        seconds, bytes_ = (ours["median_s"], theirs["median_s"]), (ours["peak_rss_bytes"], theirs["peak_rss_bytes"])
        return [(*seconds, seconds[1] / seconds[0]), (bytes_[0] / 1e9, bytes_[1] / 1e9, bytes_[0] / bytes_[1])]


@dataclass(frozen=True)
class OwnRow(Row):
    """Our bf16 beside our f32."""
    peer: str = "own"

    def criteria(self):
        return [Criterion("time, s", self.must, self.goal), Criterion("saved, GB", 0.55, 0.52, at_most=True)]

    def theirs(self, threads, steps, warmup, texts):
        return bench_words("off", self.batch, self.seq, threads, steps, warmup, self.shape, more=["--no-floor"])

    def figures(self, pair):
        ours, theirs = pair["ours"], pair["theirs"]
        seconds, saved = (ours["median_s"], theirs["median_s"]), (ours["saved_bytes"], theirs["saved_bytes"])
        return [(*seconds, seconds[1] / seconds[0]), (saved[0] / 1e9, saved[1] / 1e9, saved[0] / saved[1])]


@dataclass(frozen=True)
class TweetRow(Row):
    """Real tweets, packed, beside PyTorch's buckets of like length: real tokens a second."""
    tweets = True

    def criteria(self):
        return [Criterion("real tokens/s", self.must, self.goal)]

    def ours(self, threads, steps, warmup, texts):
        more = ["--no-floor", "--lengths", str(texts.shuffled), "--set", "data.padding=packed"]
        return bench_words(self.amp, self.batch, self.seq, threads, steps, warmup, more=more)

    def theirs(self, threads, steps, warmup, texts):
        return [*torch_words(self.amp, self.batch, self.seq, threads, steps, warmup), "--lengths", str(texts.bucketed)]

    def figures(self, pair):
        ours, theirs = pair["ours"]["tokens_per_s"], pair["theirs"]["tokens_per_s"]
        return [(ours, theirs, ours / theirs)]


@dataclass(frozen=True)
class PaddedRow(TweetRow):
    """The same beside the seed's way, each tweet padded to 512. What stands in the padding changes no time, so the peer runs
    full texts and its tokens are counted as tweets; half a batch at a time, a whole one needs 17 GB, and few of them."""

    def theirs(self, threads, steps, warmup, texts):
        return torch_words(self.amp, self.batch // 2, PADDED, threads, max(2, steps // 10), 1)

    def figures(self, pair):
        ours, theirs = pair["ours"]["tokens_per_s"], pair["theirs"]["tokens_per_s"] * pair["mean_length"] / PADDED
        return [(ours, theirs, ours / theirs)]


def torch_words(amp, batch, seq, threads, steps, warmup, shape=BASE, mode="step"):
    return ["--batch", str(batch), "--seq", str(seq), "--steps", str(steps), "--warmup", str(warmup), "--amp", amp, "--mode",
            "infer" if mode == "infer" else "train", "--threads", str(threads), "--shape", ",".join(map(str, shape))]


ROWS = [
    Row("f32-16x32", "off", 16, 32, 1.28, 1.37),
    Row("f32-16x64", "off", 16, 64, 1.28, 1.37),
    Row("f32-16x128", "off", 16, 128, 1.28, 1.37),
    Row("f32-8x512", "off", 8, 512, 1.42, 1.55),
    Row("bf16-16x32", "bf16", 16, 32, 1.32, 1.45),
    Row("bf16-16x64", "bf16", 16, 64, 1.40, 1.50),
    Row("bf16-16x128", "bf16", 16, 128, 1.42, 1.52),
    Row("bf16-8x512", "bf16", 8, 512, 1.75, 1.95),
    OwnRow("own-16x64", "bf16", 16, 64, 1.8, 1.93),
    OwnRow("own-8x512", "bf16", 8, 512, 1.85, 1.93),
    TweetRow("tweets-bf16-buckets", "bf16", 16, LONGEST, 1.5, 1.65, steps=25),
    PaddedRow("tweets-bf16-512", "bf16", 16, LONGEST, 30, 35, steps=25),
    TweetRow("tweets-f32-buckets", "off", 16, LONGEST, None, None, steps=25),
    PaddedRow("tweets-f32-512", "off", 16, LONGEST, None, None, steps=25),
    Row("minilm-f32", "off", 16, 64, 1.5, 1.8, MINILM, steps=10),
    Row("minilm-bf16", "bf16", 16, 64, 1.8, 2.2, MINILM, steps=10),
    Row("tiny-f32", "off", 16, 32, 3, 4, TINY, steps=50),
    Row("tiny-bf16", "bf16", 16, 32, 4, 6, TINY, steps=50),
    Row("infer-bf16-32x64", "bf16", 32, 64, 1.3, 1.4, steps=10, mode="infer"),
    Row("infer-bf16-1x32", "bf16", 1, 32, 2.2, 3, steps=50, mode="infer"),
]
DEFAULT = ["f32-16x32", "bf16-16x64", "minilm-f32", "minilm-bf16", "tiny-f32", "tiny-bf16"]


def select(words):
    """The rows that have these names or first parts of names ("all": every row); ValueError for a word that fits none."""
    rows = []
    for word in words:
        found = [row for row in ROWS if row.name == word] or [row for row in ROWS if word == "all" or row.name.startswith(word + "-")]
        if not found:
            raise ValueError(f"no row is called '{word}'; --list shows their names")
        rows += [row for row in found if row not in rows]
    return rows


class Texts:
    """Lengths of real texts, in two files: as a shuffle leaves them, and the same texts in batches of like length."""

    def __init__(self, lengths, batch, folder):
        chosen = random.Random(42).sample(lengths, min(BUCKET * batch, len(lengths)) // batch * batch)
        self.mean = sum(chosen) / len(chosen)
        self.shuffled, self.bucketed = folder / "shuffled", folder / "bucketed"
        batches = [sorted(chosen)[i:i + batch] for i in range(0, len(chosen), batch)]
        random.Random(43).shuffle(batches)
        self.shuffled.write_text("".join(f"{n}\n" for n in chosen))
        self.bucketed.write_text("".join(f"{n}\n" for group in batches for n in group))
