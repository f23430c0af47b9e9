#!/usr/bin/env python3
"""Writes the fuzz targets' first inputs and dictionaries: seeds.py FOLDER. Small, and all of them made here."""

import io
import json
import pathlib
import re
import struct
import sys
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def safetensors():
    def file(header, data=b"", pad=True):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        text += b" " * (-len(text) % 8 if pad else 0)
        return struct.pack("<Q", len(text)) + text + data
    tensor = {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]}
    yield file({})
    yield file({"__metadata__": {"format": "pt"}, "a.weight": tensor}, bytes(8))
    yield file({"a": tensor, "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]}}, bytes(10), pad=False)
    yield file({"a": {"dtype": "I64", "shape": [0, 3], "data_offsets": [0, 0]}, "é\u0001": tensor}, bytes(8))
    for dtype, size in (("F64", 8), ("F16", 2), ("BOOL", 1), ("U8", 1), ("I32", 4)):
        yield file({"x": {"dtype": dtype, "shape": [1, 1, 1], "data_offsets": [0, size]}}, bytes(size))
    yield struct.pack("<Q", 2**64 - 1) + b"{}"


def config():
    for path in sorted((ROOT / "configs").glob("*.json")):
        yield path.read_bytes()
    yield b'{"task": {"data_dir": "d"}, "tokenizer": {"vocab": "v"}}'
    yield b'{"task": {"data_dir": "d"}, "tokenizer": {"vocab": "v"}}\0trainer.seed=7\namp.dtype=fp16\ntrainer.warmup_steps=3'
    yield b'\xef\xbb\xbf/* a */ {"task": {"data_dir": "\\udc80\\u00e9"}, // b\n "tokenizer": {"vocab": "v"}, "lr": 1e-5, "trainer": {"seed": 1e999}}'


def json_text():
    yield from (b"[]", b"{}", b"null", b"[1, -0.5e-3, true, \"\\n\\u00e9\\ud83d\\ude00\"]", b"{\"a\": {\"b\": [[], {}]}, \"a\": 1}",
                b"// c\n[1 /* d */, 2]", b"[" * 70, b"{\"a\": NaN, \"b\": 01, \"c\": 'd', e: True,}")


def vocab():
    special = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n"
    yield from (special + b"a\n##b\n", special.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + special + b"\xc3\xa9", special + b"a\na\n", special + b"\n")


def tweet_eval():
    mapping = b"0\tno\n1\tyes\n"
    yield mapping + b"\n%%\n0\n1\n" + b"\n%%\na text\nanother\n"
    yield mapping.replace(b"\n", b"\r\n") + b"\n%%\n1\r\n0\r\n\n%%\na\r\n\xe2\x80\xa8b"
    yield mapping + b"\n%%\n2\n-1\n\n%%\na\n"
    yield b"1\tb\n0\ta\n%%\n\xef\xbb\xbf0\n%%\n\xff\xfe\x00\n"


def tokenizer():
    for settings in (0, 1, 2, 3, 5, 29):
        for text in ("a the ab", "[CLS]The [MASK]!", "Ünïcödé ÆÉ й", "中文 한국", "a\u0301\u0327b\u200d\U0001f600", "x" * 120):
            yield bytes([settings]) + text.encode()
    yield b"\x01\xff\xc0\x80\xed\xa0\xbc\xf4\x90"


def policy():
    for path in sorted((ROOT / "amp" / "policies").glob("*.json")):
        yield path.read_bytes()
    yield b'{"name": "mine", "rules": {"cast": "keep"}, "loss_scale": 128}'


def torch():
    def text(word):
        return b"X" + struct.pack("<I", len(word)) + word

    def pickle(kind=b"FloatStorage", offset=0, shape=2, stride=1):
        storage = b"(" + text(b"storage") + b"ctorch\n" + kind + b"\n" + text(b"0") + text(b"cpu") + b"K\x02tQ"
        call = b"(" + storage + bytes([0x4B, offset, 0x4B, shape, 0x85, 0x4B, stride, 0x85, 0x89]) + b"ccollections\nOrderedDict\n)Rt"
        return b"\x80\x02}" + text(b"a.weight") + b"ctorch._utils\n_rebuild_tensor_v2\n" + call + b"Rs."

    def archive(body, data):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as file:
            for name, content in (("m/data.pkl", body), ("m/data/0", data), ("m/version", b"3\n")):
                file.writestr(zipfile.ZipInfo(name), content)
        return out.getvalue()

    def number(value):
        return b"\x80\x02" + b"\x8a\x0a" + value + b"."

    yield archive(pickle(), bytes(8))
    yield archive(pickle(b"HalfStorage"), bytes(4))
    yield archive(pickle(b"LongStorage", 1, 1, 0), bytes(16))
    yield archive(b"\x80\x02cos\nsystem\n" + text(b"true") + b"\x85R.", b"")
    info = b"\x80\x02}" + text(b"protocol_version") + b"M\xe9\x03s" + text(b"little_endian") + b"\x88s."
    head = number(bytes.fromhex("6cfc9c46f9206aa85019")) + b"\x80\x02M\xe9\x03." + info
    yield head + pickle().replace(b"K\x02tQ", b"K\x02NtQ") + b"\x80\x02]" + text(b"0") + b"a." + struct.pack("<Q", 2) + bytes(8)


def weight_index():
    yield from (b'{"metadata": {"total_size": 8}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "x.bin"}}',
                b'{"weight_map": {}}', b'{"weight_map": {"a": "../x", "b": "/x", "a": "y"}}', b'{"weight_map": {"a": "\\u0000"}}')


def records():
    yield b'0text,label\n"a, ""b""\nc",yes\nd,no\n'
    yield b"0id,label,text\r\n1,x,y\r\n"
    yield b"1label\ttext\nyes\ta \"b\n"
    yield b'2{"text": "a\\ud83d", "label": 3}\n{"label": "x", "text": "", "more": [1, {"a": null}]}\n'


def checkpoint():
    digits = b"0123456789abcdef" * 2
    yield b"mixtape checkpoint, format 1\nstep 12\nbest 8\nconfig " + digits + b"\nfile state.json 5 " + digits + b"\n"
    yield b"mixtape checkpoint, format 1\nstep 9999999999999999999\n"
    yield b'{"format": 1, "step": 3, "updates": 2}'


SEEDS = {"torch": torch, "weight_index": weight_index, "records": records, "checkpoint": checkpoint, "safetensors": safetensors,
         "config": config, "json": json_text, "vocab": vocab, "tweet_eval": tweet_eval, "tokenizer": tokenizer, "policy": policy}


def dictionary(name):
    """Words that the reader knows: libFuzzer puts them in where it mutates."""
    words = {"safetensors": ["dtype", "shape", "data_offsets", "__metadata__", "F32", "BF16", "I64", "[0,8]"],
             "tweet_eval": ["\\x0a%%\\x0a", "\\x0d\\x0a", "0\\x09", "\\xef\\xbb\\xbf"],
             "tokenizer": ["[CLS]", "[SEP]", "[MASK]", "\\xcc\\x81", "\\xe4\\xb8\\xad", "\\xf0\\x9f\\x98\\x80"],
             "torch": ["torch\\x0aFloatStorage\\x0a", "torch._utils\\x0a_rebuild_tensor_v2\\x0a", "PK\\x01\\x02", "PK\\x05\\x06", "data.pkl"],
             "weight_index": ["weight_map", "metadata", "../", ".safetensors"],
             "records": ["text", "label", "\\x0d\\x0a", "\\x5c\\x22", "\\xef\\xbb\\xbf"],
             "checkpoint": ["step ", "best ", "config ", "file ", "updates", "scaler", "trajectory", "evaluated_at"],
             "policy": ["rules", "name", "version", "cast", "keep", "low", "f32", "loss_scale", "dynamic"]}.get(name, [])
    if name == "config":
        words = sorted(set(re.findall(r"`([a-z_0-9.]+)`", (ROOT / "docs" / "reference" / "config.md").read_text())))
        words = sorted({part for word in words for part in word.split(".") if part} | {"null", "true", "false"})
    return words


def main(folder):
    for name, seeds in SEEDS.items():
        target = pathlib.Path(folder) / name
        target.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(seeds()):
            (target / f"{number:02}").write_bytes(seed)
        if words := dictionary(name):
            (target.parent / f"{name}.dict").write_text("".join(f'"{word}"\n' for word in words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
