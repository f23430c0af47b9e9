#!/usr/bin/env python3
"""F17: `mixtape tokenize` gives the ids of the `tokenizers` package for random Unicode, live.

  tokenizer_against_tokenizers.py BUILD_DIR VOCAB [COUNT [SEED]]    100,000 strings by default; needs `pip install tokenizers`
"""

import pathlib
import random
import subprocess
import sys

BATCH = 10_000
# Where the interesting code points are: (first, last, weight). No LF: the program reads a text a line.
RANGES = [
    (0x20, 0x7E, 40), (0x61, 0x7A, 40), (0x00, 0x1F, 3), (0x7F, 0xA0, 3), (0xA1, 0x24F, 12), (0x250, 0x36F, 8), (0x370, 0x52F, 8),
    (0x530, 0x10FF, 8), (0x1100, 0x1FFF, 8), (0x2000, 0x206F, 6), (0x2070, 0x2FFF, 8), (0x3000, 0x33FF, 6), (0x3400, 0x9FFF, 6),
    (0xA000, 0xABFF, 4), (0xAC00, 0xD7A3, 4), (0xE000, 0xF8FF, 1), (0xF900, 0xFFFF, 6), (0x10000, 0x1CFFF, 5), (0x1D000, 0x1EFFF, 3),
    (0x1F000, 0x1FAFF, 10), (0x20000, 0x323AF, 2), (0xE0000, 0xE01EF, 2), (0x0, 0x10FFFF, 3),
]
MARKS = [0x300, 0x301, 0x308, 0x327, 0x345, 0x5B0, 0x64B, 0x93C, 0x94D, 0xE38, 0x1AB0, 0x20D0, 0x302A, 0x3099, 0xFE0F, 0x200D, 0x1F3FD, 0x16FF0, 0x1D165]
SPECIAL = ["[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]", "[sep]", "[CLS", "##ing", "##"]


def one(draw, words):
    """A string: runs of words, code points, marks and special tokens, with or without spaces between."""
    pieces = []
    for _ in range(draw.choice((1, 2, 3, 5, 8, 13, 30))):
        kind = draw.random()
        if kind < 0.35:
            word = draw.choice(words).removeprefix("##")
            pieces.append(word.upper() if draw.random() < 0.2 else word)
        elif kind < 0.42:
            pieces.append(draw.choice(SPECIAL))
        elif kind < 0.5:
            pieces.append("".join(chr(draw.choice(MARKS)) for _ in range(draw.randrange(1, 4))))
        elif kind < 0.52:
            pieces.append(draw.choice("aé中") * draw.randrange(95, 106))
        else:
            first, last, _ = draw.choices(RANGES, [r[2] for r in RANGES])[0]
            pieces.append("".join(chr(c) for c in (draw.randint(first, last) for _ in range(draw.randrange(1, 6)))
                                  if c != 0x0A and not 0xD800 <= c <= 0xDFFF))
        if draw.random() < 0.4:
            pieces.append(draw.choice(("  ", " ", "\t", "\u00a0", "\u3000", "\u2028", "\u0085", "\u200b", ".")))
    return "".join(pieces)


def reference(vocab):
    from tokenizers import BertWordPieceTokenizer
    tokenizer = BertWordPieceTokenizer(str(vocab), lowercase=True)
    tokenizer.add_special_tokens(["[UNK]", "[SEP]", "[CLS]", "[PAD]", "[MASK]"])
    return tokenizer


def ours(program, vocab, texts):
    text = "".join(t + "\n" for t in texts).encode()
    done = subprocess.run([program, "tokenize", "--vocab", vocab, "-"], input=text, capture_output=True, check=True)
    lines = done.stdout.decode().split("\n")
    assert lines.pop() == "" and len(lines) == len(texts), (len(lines), len(texts))
    return [[int(word) for word in line.split()] for line in lines]


def main(build, vocab, count="100000", seed="1"):
    try:
        tokenizer = reference(vocab)
    except ImportError:
        sys.exit("tokenizer_against_tokenizers: the package tokenizers is not installed")
    program, count, draw = pathlib.Path(build) / "bin" / "mixtape", int(count), random.Random(int(seed))
    words = pathlib.Path(vocab).read_text(encoding="utf-8").split("\n")[:-1]
    compared = different = 0
    while compared < count:
        # A CR at the end belongs to the line's end, so a text must not end in one.
        texts = [one(draw, words).rstrip("\r") for _ in range(min(BATCH, count - compared))]
        for text, left, right in zip(texts, ours(program, vocab, texts), tokenizer.encode_batch(texts)):
            if left != right.ids:
                different += 1
                if different <= 10:
                    print(f"differs: {ascii(text)}\n  ours   {left}\n  theirs {right.ids}")
        compared += len(texts)
    print(f"tokenizer_against_tokenizers: {compared} strings, {different} with other ids")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if 3 <= len(sys.argv) <= 5 else __doc__)
