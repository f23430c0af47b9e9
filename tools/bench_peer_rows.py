"""What tools/bench_peer can measure: ../shared/performance.md, section 5, a row a line."""

from dataclasses import dataclass

BASE, MINILM, TINY = (12, 768, 12, 3072), (6, 384, 12, 1536), (2, 128, 2, 512)  # layers, hidden, heads, intermediate
KEYS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True)
class Row:
    name: str
    amp: str
    batch: int
    seq: int
    must: float  # how many times as fast as the peer
    goal: float
    shape: tuple = BASE
    steps: int = 5  # of small models more: one step is too short to be judged
    mode: str = "train"

    @property
    def rss(self):
        """(must, goal): peak memory as a share of the peer's."""
        return (0.75, 0.70) if self.seq <= 128 else (0.42, 0.36)

    def ours(self, threads, steps, warmup):
        words = ["bench", "infer" if self.mode == "infer" else "step", "--json", *self.size(steps, warmup)]
        values = {"amp.dtype": self.amp, "threads": threads}
        if self.shape != BASE:
            values |= {f"model.config.{key}": value for key, value in zip(KEYS, self.shape)}
        return words + [word for key, value in values.items() for word in ("--set", f"{key}={value}")]

    def theirs(self, threads, steps, warmup):
        return [*self.size(steps, warmup), "--amp", self.amp, "--mode", self.mode, "--threads", str(threads),
                "--shape", ",".join(map(str, self.shape))]

    def size(self, steps, warmup):
        return ["--batch", str(self.batch), "--seq", str(self.seq), "--steps", str(steps), "--warmup", str(warmup)]


ROWS = [
    Row("f32-16x32", "off", 16, 32, 1.28, 1.37),
    Row("f32-16x64", "off", 16, 64, 1.28, 1.37),
    Row("f32-16x128", "off", 16, 128, 1.28, 1.37),
    Row("f32-8x512", "off", 8, 512, 1.42, 1.55),
    Row("bf16-16x32", "bf16", 16, 32, 1.32, 1.45),
    Row("bf16-16x64", "bf16", 16, 64, 1.40, 1.50),
    Row("bf16-16x128", "bf16", 16, 128, 1.42, 1.52),
    Row("bf16-8x512", "bf16", 8, 512, 1.75, 1.95),
    Row("minilm-f32", "off", 16, 64, 1.5, 1.8, MINILM, steps=10),
    Row("minilm-bf16", "bf16", 16, 64, 1.8, 2.2, MINILM, steps=10),
    Row("tiny-f32", "off", 16, 32, 3, 4, TINY, steps=50),
    Row("tiny-bf16", "bf16", 16, 32, 4, 6, TINY, steps=50),
    Row("infer-bf16-32x64", "bf16", 32, 64, 1.3, 1.4, steps=10, mode="infer"),
    Row("infer-bf16-1x32", "bf16", 1, 32, 2.2, 3, steps=50, mode="infer"),
]
DEFAULT = ["f32-16x32", "bf16-16x64", "minilm-f32", "minilm-bf16", "tiny-f32", "tiny-bf16"]


def select(words):
    """(rows, names that were given whole) for names and first parts of names; ValueError for a word that fits none."""
    rows = []
    for word in words:
        found = [row for row in ROWS if row.name == word] or [row for row in ROWS if row.name.startswith(word + "-")]
        if not found:
            raise ValueError(f"no row is called '{word}'; --list shows their names")
        rows += [row for row in found if row not in rows]
    return rows
