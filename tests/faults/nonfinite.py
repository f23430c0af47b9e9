"""F22: numbers that are not finite."""
import json
import shutil
import struct

from harness import checkpoints


def run(lab):
    config = lab.config("nonfinite", trainer__num_train_epochs=1, amp__max_consecutive_skips=5)
    _, _, finished = lab.reference(config)

    def strict(run_dir):
        """Every line of the log and every report is JSON without NaN."""
        def refuse(word):
            raise ValueError(word)
        for line in (run_dir / "log.jsonl").read_text().splitlines():
            json.loads(line, parse_constant=refuse)
        return ""

    def poisoned(case):
        number, dtype, value = case
        start = lab.folder / f"poisoned-{number}"
        shutil.copytree(finished / "best", start)
        data = bytearray((start / "model.safetensors").read_bytes())
        at = len(data) - 4 * lab.random.randint(100, 400)
        data[at: at + 4] = struct.pack("<f", value)
        (start / "model.safetensors").write_bytes(bytes(data))
        run_dir = lab.new_dir()
        done = lab.train(lab.config(f"poisoned-{number}", model__pretrained=str(start), amp__dtype=dtype,
                                    amp__max_consecutive_skips=5), run_dir)
        wrong = "" if done.code in (20, 0) and (done.code == 0 or "E-DIVERGED" in done.err) else str(done)
        return (wrong or strict(run_dir)) and f"{value} in the weights, {dtype}: {wrong}"

    def diverging(case):
        number, dtype, rate = case
        settings = lab.config(f"diverging-{number}", optimizer__learning_rate=rate, amp__dtype=dtype,
                              trainer__save_steps=1, trainer__warmup_ratio=1.0, amp__max_consecutive_skips=5)
        run_dir = lab.new_dir()
        done = lab.train(settings, run_dir)
        if done.code not in (0, 20):
            return f"rate {rate}, {dtype}: {done}"
        kept = checkpoints(run_dir)
        again = lab.train(settings, run_dir, "--recover")
        wrong = "" if again.code == done.code else f"again: {again}"
        if done.code == 20 and kept and again.resumed_at() != kept[-1]:
            wrong = f"went on after {again.resumed_at()}, not after {kept[-1]}"
        return (wrong or strict(run_dir)) and f"rate {rate}, {dtype}: {wrong}"

    def refused(text):
        path = lab.config("refused")
        path = path.with_name(f"refused-{abs(hash(text))}.json")
        path.write_text(lab.config("refused").read_text().replace('"learning_rate": 0.01', f'"learning_rate": {text}'))
        done = lab.train(path, lab.new_dir())
        return "" if done.code == 2 else f"learning_rate {text}: {done}"

    dtypes = ["off", "bf16", "fp16"]
    values = [float("nan"), float("inf"), -float("inf")]
    lab.check("F22", "a weight that is not finite", [(i * 3 + j, d, v) for i, d in enumerate(dtypes)
                                                     for j, v in enumerate(values)], poisoned)
    lab.check("F22", "a rate that makes the run diverge",
              [(i * 2 + j, d, r) for i, d in enumerate(dtypes) for j, r in enumerate((1e8, 1e30))], diverging)
    lab.check("F22", "a rate that is no number", ["1e999", "NaN", "Infinity", "-1", "-1e999"], refused)
