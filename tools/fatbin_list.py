#!/usr/bin/env python3
"""What device code a file holds: for which architectures, as machine code or as PTX. Needs no cuobjdump.

  tools/fatbin_list.py FILE...                        one line for each architecture: kind, name, how many, bytes
  tools/fatbin_list.py --expect sm_90a,ptx_90a FILE   an error if one of these is missing, or there is any other
  tools/fatbin_list.py --self-test                    checks that the list finds what it must

FILE is an object, a shared object or a program: its section .nv_fatbin holds containers, one for each file that nvcc
compiled, and a container an entry for each architecture. The format is not documented. What is read here was found in files
whose architectures were known, with CUDA 13.0:

  container  u32 0xba55ed50, u16 version 1, u16 bytes of this header, u64 bytes of all entries
  entry      u16 kind (1 PTX, 2 machine code), u16, u32 bytes of this header, u64 bytes of what follows, ...,
             at 28 u32 architecture (90), at 40 u64 flags (bit 20: "a", bit 21: "f")

exit 0 listed, and as expected  1 other than expected  2 usage  5 a file cannot be read, or is none of these
"""

import argparse
import pathlib
import struct
import sys

FAILED, USAGE, IO = 1, 2, 5
MAGIC, VERSION, SMALLEST_ENTRY = 0xBA55ED50, 1, 64
KINDS = {1: "ptx", 2: "sm"}
SUFFIXES = {1 << 20: "a", 1 << 21: "f"}


class Damaged(Exception):
    """The bytes are no ELF file, or no containers."""


def sections(data, wanted):
    """The bytes of all sections called `wanted` of a 64-bit little-endian ELF file."""
    if len(data) < 64 or data[:6] != b"\x7fELF\x02\x01":
        raise Damaged("is no 64-bit little-endian ELF file")
    table, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if table + size * count > len(data) or names >= count or size < 64:
        raise Damaged("its table of sections lies beyond its end")
    heads = [struct.unpack_from("<IIQQQQ", data, table + size * i) for i in range(count)]
    text = data[heads[names][4]:heads[names][4] + heads[names][5]]
    for name, kind, _, _, offset, length in heads:
        if kind != 8 and text[name:text.find(b"\0", name)] == wanted:  # 8: takes no bytes of the file
            yield data[offset:offset + length]


def entries(section):
    """(name, bytes) of each entry: ("sm_90a", 4096)."""
    at = 0
    while at < len(section):
        if not any(section[at:at + 8]):  # the linker fills up to the next container
            at += 8
            continue
        if at + 16 > len(section):
            raise Damaged("a container is cut off")
        magic, version, header, length = struct.unpack_from("<IHHQ", section, at)
        if magic != MAGIC or version != VERSION:
            raise Damaged(f"there is no container of version {VERSION} at byte {at} of .nv_fatbin")
        at, end = at + header, at + header + length
        if end > len(section):
            raise Damaged("a container is cut off")
        while at < end:
            if at + SMALLEST_ENTRY > end:
                raise Damaged("an entry is cut off")
            kind, _, header, size = struct.unpack_from("<HHIQ", section, at)
            architecture, = struct.unpack_from("<I", section, at + 28)
            flags, = struct.unpack_from("<Q", section, at + 40)
            if header < SMALLEST_ENTRY or at + header + size > end:
                raise Damaged("an entry is cut off")
            suffix = next((word for bit, word in SUFFIXES.items() if flags & bit), "")
            yield f"{KINDS.get(kind, f'kind{kind}')}_{architecture}{suffix}", size
            at += header + size


def listed(data):
    """{name: (entries, bytes)}; empty for a file without device code."""
    found = {}
    for section in sections(data, b".nv_fatbin"):
        for name, size in entries(section):
            count, total = found.get(name, (0, 0))
            found[name] = count + 1, total + size
    return found


def wrong(found, expected):
    """In words what is missing and what nobody expected."""
    missing, more = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    words = [f"holds no {name}" for name in missing] + [f"holds {name}, which nobody expects" for name in more]
    counts = {name: found[name][0] for name in expected if name in found}
    if len(set(counts.values())) > 1:
        words.append("not every file was compiled for all: " + ", ".join(f"{name} {count}" for name, count in counts.items()))
    return words


def container(*of):
    """A container as nvcc writes it: (kind, architecture, flags, payload) of each entry."""
    body = b"".join(struct.pack("<HHIQQIIQQQQ", kind, 0x101, 64, len(payload), 0, 0, architecture, 0, flags, 0, 0) + payload
                    for kind, architecture, flags, payload in of)
    return struct.pack("<IHHQ", MAGIC, VERSION, 16, len(body)) + body


def elf(section):
    """An ELF file with this one .nv_fatbin."""
    names = b"\0.nv_fatbin\0.shstrtab\0"
    heads = [(0, 0, 0, 0, 0, 0), (1, 1, 2, 0, 64, len(section)), (12, 3, 0, 0, 64 + len(section), len(names))]
    table = b"".join(struct.pack("<IIQQQQIIQQ", *head, 0, 0, 8, 0) for head in heads)
    start = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(section) + len(names), 0,
                                                            64, 0, 0, 64, 3, 2)
    return start + section + names + table


def damaged(data):
    try:
        listed(data)
    except Damaged:
        return True
    return False


def self_test():
    one = container((1, 100, 0x8011, b"p" * 8), (2, 90, 0x100011, b"s" * 24))
    two = container((2, 90, 0x100011, b"s" * 8), (2, 80, 0x11, b""))
    found = listed(elf(one + bytes(8) + two))
    strange = container((4, 90, 0, b"x" * 8), (2, 100, 0x1200011, b""))
    checks = [
        found == {"ptx_100": (1, 8), "sm_90a": (2, 32), "sm_80": (1, 0)},
        listed(elf(strange)) == {"kind4_90": (1, 8), "sm_100f": (1, 0)},
        listed(elf(b"")) == {},
        wrong(found, ["sm_90a"]) == ["holds ptx_100, which nobody expects", "holds sm_80, which nobody expects"],
        wrong(listed(elf(one)), ["sm_90a", "ptx_100"]) == [],
        wrong(listed(elf(one)), ["sm_90a", "ptx_100", "sm_100"]) == ["holds no sm_100"],
        wrong(found, ["sm_90a", "ptx_100", "sm_80"]) == ["not every file was compiled for all: sm_90a 2, ptx_100 1, sm_80 1"],
        all(damaged(data) for data in (b"", b"#!/bin/sh", elf(one[:-4]), elf(one[:10]), elf(b"\1" * 16), elf(one)[:-64],
                                       elf(b"\0" * 4 + one), elf(one[:20]))),
    ]
    bad = [i for i, check in enumerate(checks) if not check]
    print("\n".join([f"self-test: check {i} is wrong" for i in bad] + [f"fatbin_list self-test: {len(bad)} wrong"]))
    return FAILED if bad else 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="tools/fatbin_list.py", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--expect", metavar="NAMES", help="all architectures that must be there, and no other: sm_90a,ptx_90a")
    parser.add_argument("--self-test", action="store_true", help="checks the list itself")
    options = parser.parse_args(arguments)
    if options.self_test:
        return self_test()
    if not options.files:
        parser.error("name a file")
    status = 0
    for file in options.files:
        try:
            found = listed(file.read_bytes())
        except (OSError, Damaged) as error:
            print(f"fatbin_list: {file}: {getattr(error, 'strerror', None) or error}", file=sys.stderr)
            return IO
        print(f"{file}: {len(found)} architectures, {sum(size for _, size in found.values())} bytes of device code")
        for name, (count, size) in sorted(found.items()):
            print(f"  {name:<10} {count:>4} entries {size:>11} bytes")
        for words in wrong(found, options.expect.split(",")) if options.expect else []:
            print(f"fatbin_list: {file}: {words}")
            status = FAILED
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
