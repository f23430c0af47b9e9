#!/usr/bin/env python3
"""Trains small models, exports them, and compares what transformers predicts from the exported directory with what
mixtape predict says: both poolings, both heads, every text of a file. Needs torch and transformers.

  export_against_transformers.py CONFIG TEXTS [--program build/release/bin/mixtape] [--steps 20] [--set a.b=VALUE]...

CONFIG is a configuration of mixtape train with max_length below the positions; TEXTS has a text a line. Prints one
line a combination with the largest difference of a probability; exit 1 if one is above 1e-5.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

LIMIT = 1e-5


def ours(program, run, texts):
    done = subprocess.run([program, "predict", str(run), texts], capture_output=True, text=True, check=True)
    rows = [json.loads(line)["probabilities"] for line in done.stdout.splitlines()]
    return torch.tensor([list(row.values()) for row in rows], dtype=torch.float64), list(rows[0])


def head_of(directory):
    """The classifier that lies beside a BertModel."""
    from safetensors import safe_open
    with safe_open(directory / "model.safetensors", framework="pt") as file:
        return file.get_tensor("classifier.weight"), file.get_tensor("classifier.bias")


def logits_of(directory, pooling):
    """A function from the tokenizer's output to logits, made from the directory alone."""
    if pooling == "pooler":
        model, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            directory, output_loading_info=True)
        model.eval()
        assert not report["missing_keys"] and not report["unexpected_keys"], report
        return lambda inputs: model(**inputs).logits, model.config
    model, report = transformers.BertModel.from_pretrained(directory, add_pooling_layer=False, output_loading_info=True)
    model.eval()
    assert not report["missing_keys"], report
    weight, bias = head_of(directory)
    return lambda inputs: model(**inputs).last_hidden_state[:, 0] @ weight.T + bias, model.config


def theirs(directory, pooling, texts):
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    logits, config = logits_of(directory, pooling)
    rows = []
    with torch.no_grad():
        for text in texts:
            inputs = tokenizer(text, truncation=True, return_tensors="pt")
            rows.append(torch.softmax(logits(inputs)[0].double(), 0))
    return torch.stack(rows), [config.id2label[i] for i in range(len(config.id2label))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config")
    parser.add_argument("texts")
    parser.add_argument("--program", default="build/release/bin/mixtape")
    parser.add_argument("--steps", default="20")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    lines = pathlib.Path(options.texts).read_bytes().decode("utf-8").removesuffix("\n").split("\n")
    worst = 0.0
    for pooling in ("cls", "pooler"):
        for head in ("sigmoid", "softmax"):
            with tempfile.TemporaryDirectory() as folder:
                run, out = pathlib.Path(folder, "run"), pathlib.Path(folder, "out")
                sets = [f"model.pooling={pooling}", f"model.head={head}", "amp.dtype=off",
                        f"trainer.max_steps={options.steps}", *options.set]
                command = [options.program, "train", options.config, "-q", "-s", str(run)]
                subprocess.run(command + [word for value in sets for word in ("--set", value)], check=True)
                subprocess.run([options.program, "export", "-q", str(run), str(out)], check=True)
                probabilities, names = ours(options.program, run, options.texts)
                expected, their_names = theirs(out, pooling, lines)
                assert names == their_names, (names, their_names)
                assert probabilities.shape == expected.shape, (probabilities.shape, expected.shape)
                difference = (probabilities - expected).abs().max().item()
                worst = max(worst, difference)
                spread = probabilities[:, 1].std().item()
                print(f"{pooling} {head}: {len(lines)} texts, largest difference {difference:.2e} "
                      f"(probabilities vary by {spread:.2e})", flush=True)
    return worst > LIMIT


if __name__ == "__main__":
    sys.exit(main())
