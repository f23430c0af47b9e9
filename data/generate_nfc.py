#!/usr/bin/env python3
"""Writes nfc_table.inc: what nfc.cpp needs to tell whether a text is in Unicode's normal form C.

  generate_nfc.py > nfc_table.inc      from Python's own unicodedata

Three parts: code points that never stand in NFC, combining classes, pairs that NFC composes.
"""

import unicodedata

ALL = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]


def ranges(values):
    """(first, last, value) of equal neighbours; 0 is left out."""
    out = []
    for code in ALL:
        value = values(code)
        if not value:
            continue
        if out and out[-1][1] == code - 1 and out[-1][2] == value:
            out[-1][1] = code
        else:
            out.append([code, code, value])
    return out


def changed(code):
    return unicodedata.normalize("NFC", chr(code)) != chr(code)


def pairs():
    """Whatever changes when it stands together: also a composed character and a mark that belongs before its own."""
    firsts, seconds = set(), set()
    for code in ALL:
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and "<" not in parts[0] and not changed(code):
            firsts |= {int(parts[0], 16), code}
            seconds.add(int(parts[1], 16))
    for first in firsts:
        for second in seconds:
            text = chr(first) + chr(second)
            if unicodedata.combining(chr(first)) == 0 and unicodedata.normalize("NFC", text) != text:
                yield first, second


def rows(name, type_, items):
    print(f"constexpr {type_} {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 2 > 119:
            print(line)
            line = "   "
        line += f" {item},"
    print(line + "\n};")


def table():
    print(f"// Made by generate_nfc.py from Unicode {unicodedata.unidata_version}. Not by hand.")
    rows("never_in_nfc", "CodeRange", [f"{{0x{a:X}, 0x{b:X}, 0}}" for a, b, _ in ranges(changed)])
    rows("combining_classes", "CodeRange",
         [f"{{0x{a:X}, 0x{b:X}, {v}}}" for a, b, v in ranges(lambda c: unicodedata.combining(chr(c)))])
    rows("composed_pairs", "CodePair", [f"{{0x{a:X}, 0x{b:X}}}" for a, b in sorted(pairs())])


if __name__ == "__main__":
    table()
