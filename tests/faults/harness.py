"""What the groups share: a tiny task, the program with and without the shim, and what a run must leave behind."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

CHANGING = "open,write,fsync,close,rename,mkdir,unlink,truncate"
TIMING = ("seconds", "tokens_per_s", "peak_bytes", "peak_rss_bytes")


class Result:
    def __init__(self, code, err, seconds):
        self.code, self.err, self.seconds = code, err, seconds

    def resumed_at(self):
        match = re.search(r"goes on after step (\d+)", self.err)
        return int(match.group(1)) if match else 0

    def __str__(self):
        return f"exit {self.code}: {self.err.strip()[-300:]}"


class Lab:
    """A folder with data, and everything that is run in it. `full`: the counts of the fault table."""

    def __init__(self, program, shim, folder, full, seed):
        self.program, self.shim, self.folder, self.full = str(program), str(shim), pathlib.Path(folder), full
        self.random = random.Random(seed)
        self.references = {}
        self.faults_passed, self.faults_failed = 0, 0
        self.pool = concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count() or 2))
        self.made = 0
        self.write_data()

    def write_data(self):
        data = self.folder / "data"
        data.mkdir()
        (data / "mapping.txt").write_text("0\tplain\n1\trude\n")
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "you", "are", "kind", "rude", "very", "today", ",", "!"]
        (self.folder / "vocab.txt").write_text("\n".join(words) + "\n")
        for shift, (split, rows) in enumerate((("train", 118), ("val", 10), ("test", 10))):
            texts = labels = ""
            for i in range(rows):
                rude = (i + shift) % 3 == 0
                texts += "you are " + "very , " * ((i * 5 + shift) % 4) + ("rude" if rude else "kind")
                texts += " today !\n" if i % 2 == 0 else " !\n"
                labels += "1\n" if rude else "0\n"
            (data / f"{split}_text.txt").write_text(texts)
            (data / f"{split}_labels.txt").write_text(labels)

    def config(self, name, **changes):
        """A configuration file. Keys are dotted with __: trainer__seed=7."""
        config = {
            "task": {"data_dir": "data"},
            "tokenizer": {"vocab": "vocab.txt", "max_length": 16},
            "model": {"config": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
                                 "intermediate_size": 32, "max_position_embeddings": 16}},
            "optimizer": {"learning_rate": 0.01},
            "trainer": {"num_train_epochs": 3, "per_device_train_batch_size": 10, "logging_steps": 1,
                        "save_steps": 5, "warmup_ratio": 0.2},
            "amp": {"dtype": "bf16"},
            "threads": 1,
        }
        for key, value in changes.items():
            *sections, last = key.split("__")
            place = config
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(config))
        return path

    def new_dir(self):
        self.made += 1
        return self.folder / f"run-{self.made}"

    def start(self, config, run_dir, *arguments, **fault):
        """Popen of a training run. `fault`: AT=3, DO="kill", ... of the shim."""
        environment = dict(os.environ, LC_ALL="C")
        if fault:
            fault.setdefault("ROOT", run_dir)
            environment["LD_PRELOAD"] = self.shim
            environment.update({"FAULT_" + key: str(value) for key, value in fault.items()})
        return subprocess.Popen([self.program, "train", str(config), "-s", str(run_dir), *arguments], env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def train(self, config, run_dir, *arguments, **fault):
        began = time.monotonic()
        process = self.start(config, run_dir, *arguments, **fault)
        try:
            err = process.communicate(timeout=120)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            return Result(-999, "hung for 120 s: " + process.communicate()[1], 120)
        return Result(process.returncode, err, time.monotonic() - began)

    def calls(self, config, **fault):
        """How many calls of these kinds a whole run makes."""
        run_dir, count = self.new_dir(), self.folder / "count"
        root = fault.pop("below", "")
        done = self.train(config, run_dir, "-q", COUNT=count, ROOT=f"{run_dir}{root}", **fault)
        if done.code != 0:
            raise SystemExit(f"the run without a fault fails: {done}")
        shutil.rmtree(run_dir)
        files, allocations = count.read_text().split()
        return int(files), int(allocations)

    def reference(self, config):
        """What an unbroken run leaves, and how long it takes."""
        if config not in self.references:
            run_dir = self.new_dir()
            done = self.train(config, run_dir)
            if done.code != 0:
                raise SystemExit(f"the run without a fault fails: {done}")
            self.references[config] = (digest(run_dir), done.seconds, run_dir)
        return self.references[config]

    def finish(self, config, run_dir):
        """Recovers to the end. Returns what is wrong with the result, or ""."""
        done = self.train(config, run_dir, "--recover")
        if done.code != 0:
            return f"--recover: {done}"
        wrong = difference(self.reference(config)[0], digest(run_dir))
        left = [str(path.name) for path in run_dir.rglob("*.tmp.*")]
        return wrong or (f"left behind: {left}" if left else "")

    def finish_or_start(self, config, run_dir):
        """The same for a run that may have failed before it left anything: then the directory is not a run's."""
        if not checkpoints(run_dir) and not (run_dir / "config.json").exists():
            shutil.rmtree(run_dir, ignore_errors=True)
        return self.finish(config, run_dir)

    def sample(self, count, few):
        """Numbers 1..count: all of them, or a few spread over them."""
        if self.full or count <= few:
            return list(range(1, count + 1))
        step = count / few
        return sorted({min(count, int(i * step + self.random.random() * step) + 1) for i in range(few)})

    def number(self, full, few):
        return full if self.full else few

    def check(self, name, title, tries, work):
        """work(try) returns what is wrong, or "". A line for each fault."""
        began = time.monotonic()
        wrong = [text for text in self.pool.map(work, tries) if text]
        tries = list(tries)
        for text in wrong[:3]:
            print(f"    {name}: {text}", flush=True)
        self.faults_passed += not wrong
        self.faults_failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok    '} {name:4} {title}: {len(tries) - len(wrong)} of {len(tries)} "
              f"({time.monotonic() - began:.0f} s)", flush=True)


def step_of(path):
    match = re.fullmatch(r"step-(\d+)", path.name)
    return int(match.group(1)) if match else -1


def checkpoints(run_dir):
    """Steps of the directories with a final name, oldest first."""
    folder = pathlib.Path(run_dir) / "checkpoints"
    return sorted(step_of(path) for path in folder.iterdir() if step_of(path) >= 0) if folder.is_dir() else []


def hash_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def digest(run_dir):
    """Everything that must be the same bits: the last checkpoint, best/, and metrics.json without the timing."""
    run_dir = pathlib.Path(run_dir)
    out = {}
    if steps := checkpoints(run_dir):
        out["last step"] = steps[-1]
        last = run_dir / "checkpoints" / f"step-{steps[-1]:08}"
        out.update({path.name: hash_of(path) for path in sorted(last.iterdir())})
    if (run_dir / "best").is_dir():
        out.update({f"best/{path.name}": hash_of(path) for path in sorted((run_dir / "best").iterdir())})
    if (run_dir / "metrics.json").exists():
        metrics = json.loads((run_dir / "metrics.json").read_text())
        for key in TIMING:
            del metrics["train"][key]
        out["metrics"] = json.dumps(metrics, sort_keys=True)
    return out


def difference(expected, found):
    other = [key for key in sorted(set(expected) | set(found)) if expected.get(key) != found.get(key)]
    return f"differs from the unbroken run in {other}" if other else ""


def stop(process, number=signal.SIGKILL):
    process.send_signal(number)
    began = time.monotonic()
    err = process.communicate(timeout=120)[1]
    return Result(process.returncode, err, time.monotonic() - began)
