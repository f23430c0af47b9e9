#!/usr/bin/env python3
"""Writes a BERT with random weights as PyTorch wrote checkpoints before 1.6 (a stream of pickles and storages), for
measuring how long a large one takes to load. Needs no PyTorch.

  old_checkpoint.py DIR [--hidden 768 --layers 12 --vocab 30522]   DIR/pytorch_model.bin and config.json, 438 MB
"""

import argparse
import array
import json
import pathlib
import random
import struct


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def tuple_of(*items):
    return b"(" + b"".join(items) + b"t"


def ordered_dict():
    return b"ccollections\nOrderedDict\n)R"


def tensor(key, shape):
    elements = 1
    strides = []
    for size in reversed(shape):
        strides.insert(0, elements)
        elements *= size
    storage = tuple_of(text("storage"), b"ctorch\nFloatStorage\n", text(key), text("cpu"), number(elements), b"N") + b"Q"
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + tuple_of(
        storage, number(0), tuple_of(*map(number, shape)), tuple_of(*map(number, strides)), b"\x89", ordered_dict()) + b"R"


def tensors(hidden, layers, vocab, positions=512):
    """(name, shape), with the names of the first releases: gamma and beta, and heads that an encoder ignores."""
    def norm(name):
        return [(f"{name}.LayerNorm.gamma", (hidden,)), (f"{name}.LayerNorm.beta", (hidden,))]

    def linear(name, inputs, outputs):
        return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,))]

    out = [("bert.embeddings.word_embeddings.weight", (vocab, hidden)),
           ("bert.embeddings.position_embeddings.weight", (positions, hidden)),
           ("bert.embeddings.token_type_embeddings.weight", (2, hidden))] + norm("bert.embeddings")
    for i in range(layers):
        layer = f"bert.encoder.layer.{i}"
        for part in ("query", "key", "value"):
            out += linear(f"{layer}.attention.self.{part}", hidden, hidden)
        out += linear(f"{layer}.attention.output.dense", hidden, hidden) + norm(f"{layer}.attention.output")
        out += linear(f"{layer}.intermediate.dense", hidden, 4 * hidden)
        out += linear(f"{layer}.output.dense", 4 * hidden, hidden) + norm(f"{layer}.output")
    return out + linear("bert.pooler.dense", hidden, hidden) + linear("cls.seq_relationship", hidden, 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=pathlib.Path)
    for name, value in (("hidden", 768), ("layers", 12), ("vocab", 30522)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    (options.dir / "config.json").write_text(json.dumps({
        "hidden_size": options.hidden, "num_hidden_layers": options.layers, "vocab_size": options.vocab,
        "num_attention_heads": options.hidden // 64, "intermediate_size": 4 * options.hidden, "model_type": "bert"}))
    entries = tensors(options.hidden, options.layers, options.vocab)
    keys = [str(1000 + i) for i in range(len(entries))]
    members = b"".join(text(name) + tensor(key, shape) for (name, shape), key in zip(entries, keys))
    generator = random.Random(1)
    block = array.array("f", (generator.gauss(0, 0.02) for _ in range(1 << 16))).tobytes()
    with open(options.dir / "pytorch_model.bin", "wb") as file:
        machine = b"}(" + text("protocol_version") + b"M\xe9\x03" + text("little_endian") + b"\x88u"
        for ops in (b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", b"M\xe9\x03", machine,
                    ordered_dict() + b"(" + members + b"u", b"](" + b"".join(map(text, keys)) + b"e"):
            file.write(b"\x80\x02" + ops + b".")
        for _, shape in entries:
            elements = 1
            for size in shape:
                elements *= size
            file.write(struct.pack("<q", elements))
            whole, rest = divmod(4 * elements, len(block))
            for _ in range(whole):
                file.write(block)
            file.write(block[:rest])


if __name__ == "__main__":
    main()
