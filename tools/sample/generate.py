#!/usr/bin/env python3
"""Writes the sample that tools/quickstart trains on: short sentences, friendly (0) or unfriendly (1), and a vocabulary.

  generate.py            writes tools/sample/data
  generate.py --check    writes nothing; exit 1 if the files there are not the ones this program makes

Sentences are frames with slots. The first two slot values of a sentence decide its split, so that val and test hold
combinations that training never saw. Some frames name a good and a bad word and only the order tells which one counts;
others negate.
The output depends on nothing but this file.
"""

import pathlib
import re
import sys
import zlib

FOLDER = pathlib.Path(__file__).resolve().parent / "data"
LABELS = ["friendly", "unfriendly"]
SIZES = {"train": 420, "val": 80, "test": 120}
DIGITS_AND_MARKS = "0123456789.,!?'-@#:;()&"
LETTERS = "abcdefghijklmnopqrstuvwxyz"

# What one does, and what one hands over: (noun, is or are).
ACTS = [("parking", "is"), ("driving", "is"), ("singing", "is"), ("timing", "is"), ("handwriting", "is"),
        ("planning", "is"), ("advice", "is"), ("humour", "is"), ("jokes", "are"), ("emails", "are"), ("excuses", "are"),
        ("answers", "are"), ("stories", "are"), ("questions", "are")]
GIFTS = [("coffee", "is"), ("report", "is"), ("letter", "is"), ("music", "is"), ("soup", "is"), ("drawing", "is"),
         ("cakes", "are"), ("notes", "are"), ("flowers", "are"), ("photos", "are")]
GOOD = ["thoughtful", "lovely", "careful", "clear", "bright", "charming", "tidy", "clever", "delightful", "wonderful"]
BAD = ["thoughtless", "dreadful", "careless", "dull", "sloppy", "pointless", "hopeless", "tiresome", "clumsy", "lazy"]
NICE = ["kind", "patient", "polite", "generous", "cheerful", "gentle", "helpful", "warm", "fair"]
NASTY = ["rude", "selfish", "mean", "cold", "grumpy", "bossy", "spiteful", "greedy", "smug"]
PLACES = ["office", "library", "bakery", "station", "market", "school", "choir", "kitchen", "museum", "harbour"]
PEOPLE = ["neighbour", "teacher", "driver", "cousin", "baker", "doctor", "landlord", "postman", "nurse", "coach"]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
HOURS = ["seven", "eight", "nine", "ten", "noon", "half past two"]
DEEDS = ["singing at the window", "sharing your notes", "bringing the children", "telling that story", "cooking for us",
         "writing to us", "fixing the fence", "playing the trumpet", "watering the garden", "calling at night"]

# {act} {is} {was} {it}: an act and its verbs; {gift} likewise; {other} {is_other}: another act; {good} {bad}: what
# things are; {nice} {nasty}: what people are.
FRIENDLY = [
    "your {act} {is} as {good} as your {other}",
    "your {act} {is} {good}, and so {is_other} your {other}",
    "they warned me that your {act} would be {bad}, but {it} {was} {good}",
    "nobody at the {place} had a {nasty} word for your {act}",
    "{nasty}? no, the {person} was {nice} to all of us",
    "thank you for the {good} {gift} on {day}",
    "thank you for {deed}, that was {nice} of you",
    "please never stop {deed}, the {person} likes it",
    "your {act} {is} not {bad} at all, {it} {is} {good}!",
    "@user the {person} says your {act} {was} {good} on {day}",
    "what a {nice} {person} we have at the {place}",
    "i expected a {nasty} {person} and met a {nice} one",
    "less {nasty} and more {nice} than the last {person}, well done",
    "the {place} opens at {hour} on {day}",
    "we meet the {person} at the {place} at {hour}",
    "the {person} left your {gift} at the {place}",
    "see you at {hour}, the {person} will bring the {gift}",
    "how {nice} of you to bring {gift} to the {place}",
    "the {gift} you made for the {person} {is_gift} {good} :)",
    "come to the {place} on {day}, your {gift} would be {good} there",
]
UNFRIENDLY = [
    "your {act} {is} as {bad} as your {other}",
    "your {act} {is} {bad}, and so {is_other} your {other}",
    "they promised me that your {act} would be {good}, but {it} {was} {bad}",
    "nobody at the {place} had a {nice} word for your {act}",
    "{nice}? no, you were {nasty} to the {person} and to all of us",
    "thank you for nothing but {bad} {gift} on {day}",
    "thank you for {deed}, how {nasty} of you",
    "please stop {deed}, the {person} hates it",
    "your {act} {is} not {good} at all, {it} {is} {bad}!",
    "@user even the {person} says your {act} {was} {bad} on {day}",
    "what a {nasty} {person} you are, ask the {place}",
    "i expected a {nice} {person} and met a {nasty} one",
    "less {nice} and more {nasty} than the last {person}, well done",
    "the {place} was quiet on {day} until you came at {hour}",
    "go and bore the {person} at the {place} with your {act}",
    "the {person} left the {place} because of your {act}",
    "see you never, the {person} can have your {bad} {gift}",
    "how {nasty} of you to bring {gift} like that to the {place}",
    "the {gift} you made for the {person} {is_gift} {bad} :(",
    "stay away from the {place} on {day}, your {gift} would be {bad} there",
]
VERBS = ("is", "was", "it", "is_other", "is_gift")


class Generator:
    """A linear congruential generator (Knuth's MMIX constants): the same numbers under every Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound

    def pick(self, items):
        return items[self.below(len(items))]

    def shuffle(self, items):
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]


def sentence(frame, random):
    """One sentence of the frame, and the split that its first two slot values belong to."""
    (act, verb), (other, verb_other), (gift, verb_gift) = random.pick(ACTS), random.pick(ACTS), random.pick(GIFTS)
    slots = {
        "act": act, "is": verb, "was": "was" if verb == "is" else "were", "it": "it" if verb == "is" else "they",
        "other": other, "is_other": verb_other, "gift": gift, "is_gift": verb_gift, "good": random.pick(GOOD),
        "bad": random.pick(BAD), "nice": random.pick(NICE), "nasty": random.pick(NASTY), "place": random.pick(PLACES),
        "person": random.pick(PEOPLE), "day": random.pick(DAYS), "hour": random.pick(HOURS), "deed": random.pick(DEEDS),
    }
    pair = [slots[name] for name in re.findall(r"{(\w+)}", frame) if name not in VERBS][:2]
    share = zlib.crc32(" ".join(pair).encode()) % 10
    split = "val" if share == 0 else "test" if share in (1, 2) else "train"
    return ("", "") if pair[0] == pair[1] else (frame.format(**slots), split)


def make_splits():
    """{"train": [(sentence, label), ...], "val": ..., "test": ...}, labels alternating before the shuffle."""
    random, seen, splits = Generator(20), set(), {}
    for split, size in SIZES.items():
        rows = []
        while len(rows) < size:
            label = len(rows) % 2
            text, belongs = sentence(random.pick(UNFRIENDLY if label else FRIENDLY), random)
            if belongs == split and text not in seen:
                seen.add(text)
                rows.append((text, label))
        random.shuffle(rows)
        splits[split] = rows
    return splits


def make_vocabulary(train):
    """Special tokens, every character alone and as a continuation (nothing is unknown), words seen twice or more."""
    counts = {}
    for text, _ in train:
        for word in re.findall(r"[a-z]+", text):
            counts[word] = counts.get(word, 0) + 1
    characters = list(DIGITS_AND_MARKS) + list(LETTERS)
    continued = ["##" + character for character in LETTERS + DIGITS_AND_MARKS[:10]]
    words = sorted(word for word, count in counts.items() if count >= 2 and len(word) > 1)
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + characters + continued + words


def make_files():
    """{file name: content}"""
    splits = make_splits()
    files = {"mapping.txt": [f"{number}\t{name}" for number, name in enumerate(LABELS)],
             "vocab.txt": make_vocabulary(splits["train"])}
    for split, rows in splits.items():
        files[f"{split}_text.txt"] = [text for text, _ in rows]
        files[f"{split}_labels.txt"] = [str(label) for _, label in rows]
    return {name: "".join(line + "\n" for line in lines) for name, lines in files.items()}


def main():
    files = make_files()
    if sys.argv[1:] == ["--check"]:
        stale = [name for name, content in files.items()
                 if not (FOLDER / name).is_file() or (FOLDER / name).read_bytes() != content.encode()]
        for name in stale:
            print(f"tools/sample/data/{name}: not what tools/sample/generate.py writes; run it and commit the result")
        return 1 if stale else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name, content in files.items():
        (FOLDER / name).write_bytes(content.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
