"""What TensorBoard reads of a run, against log.jsonl and the checkpoints: see tensorboard_reads.sh. Argument: the program."""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing import event_accumulator

ROOT = pathlib.Path(__file__).resolve().parent.parent


def train(program, folder):
    """fp16 from a scale that overflows at first; every third step is logged."""
    sample = ROOT / "tools/sample/data"
    config = {"task": {"data_dir": str(sample)}, "tokenizer": {"vocab": str(sample / "vocab.txt"), "max_length": 32},
              "model": {"config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}},
              "optimizer": {"learning_rate": 1e-3},
              "trainer": {"max_steps": 40, "logging_steps": 3, "eval_strategy": "steps", "eval_steps": 20, "save_total_limit": 5},
              "amp": {"dtype": "fp16", "init_scale": 16777216}}
    (folder / "a.json").write_text(json.dumps(config))
    subprocess.run([program, "train", str(folder / "a.json"), "-q", "-s", str(folder / "run")], check=True)
    subprocess.run([program, "report", str(folder / "run"), "--tensorboard", str(folder / "tb")], check=True, stderr=subprocess.DEVNULL)


def f32(value):
    return struct.unpack("f", struct.pack("f", math.nan if value is None else value))[0]


def same(found, wanted):
    return len(found) == len(wanted) and all(
        a[0] == b[0] and (a[1] == b[1] or math.isnan(a[1]) and math.isnan(b[1])) for a, b in zip(found, wanted))


def weights(checkpoint):
    """{name: values} of a safetensors file of f32."""
    data = (checkpoint / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__":
            assert entry["dtype"] == "F32", entry
            begin, end = (8 + size + at for at in entry["data_offsets"])
            yield name, struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])


def main():
    failed = 0

    def check(name, right):
        nonlocal failed
        failed += not right
        print(f"{'ok    ' if right else 'FAILED'} {name}")

    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        train(sys.argv[1], folder)
        log = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
        read = event_accumulator.EventAccumulator(str(folder / "tb/run"), size_guidance={"scalars": 0, "histograms": 0})
        read.Reload()
        steps = [event for event in log if event["event"] == "step"]
        skips = [event for event in log if event["event"] == "overflow"]
        tags = read.Tags()
        check(f"{len(steps)} logged steps and {len(skips)} skips in the log", len(steps) == 14 and skips)
        for tag, key in (("loss", "loss"), ("grad_norm", "grad_norm"), ("learning_rate", "lr"), ("tokens_per_second", "tokens_per_s")):
            found = [(event.step, event.value) for event in read.Scalars("train/" + tag)]
            check(f"train/{tag}: {len(found)} scalars", same(found, [(event["step"], f32(event[key])) for event in steps]))
        used = {event["step"]: event["loss_scale"] for event in skips + steps}
        check("train/loss_scale, every skip among them",
              same([(e.step, e.value) for e in read.Scalars("train/loss_scale")], sorted(used.items())))
        lost = sorted(event["step"] for event in skips)
        wanted = [(step, sum(skip <= step for skip in lost)) for step in sorted(used)]
        check("train/skipped", same([(e.step, e.value) for e in read.Scalars("train/skipped")], wanted))
        for event in (event for event in log if event["event"] == "eval"):
            for key in ("loss", "accuracy", "macro_f1"):
                found = [(e.step, e.value) for e in read.Scalars(f"{event['split']}/{key}")]
                check(f"{event['split']}/{key} at step {event['step']}", (event["step"], f32(event[key])) in found)
        times = [event.wall_time for event in read.Scalars("train/loss")]
        check("times of day ascend", times == sorted(times) and times[0] > 1e9)
        checkpoints = sorted((folder / "run/checkpoints").glob("step-????????"))
        check(f"{len(checkpoints)} checkpoints", len(checkpoints) == 2)
        tensors = 0
        for checkpoint in checkpoints:
            step = int(checkpoint.name[5:])
            for name, values in weights(checkpoint):
                tensors += 1
                (found,) = [e.histogram_value for e in read.Histograms("weights/" + name) if e.step == step]
                right = found.num == len(values) == sum(found.bucket) and found.min == min(values) and found.max == max(values)
                right = right and math.isclose(found.sum, math.fsum(values), rel_tol=1e-9, abs_tol=1e-9)
                below = lambda limit: sum(value < limit for value in values)
                edges = list(zip(found.bucket_limit, [-math.inf, *found.bucket_limit], found.bucket))
                right = right and all(below(high) - below(low) == count for high, low, count in edges if high > 2**-39 and low > 0)
                if not right:
                    check(f"weights/{name} at step {step}", False)
        check(f"{tensors} histograms of weights have their numbers in their buckets", tensors == 2 * len(tags["histograms"]))
    print(f"tensorboard: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
