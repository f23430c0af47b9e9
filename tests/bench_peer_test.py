#!/usr/bin/env python3
"""tools/bench_peer with small scripts in place of both programs, whose figures and faults are told by files."""

import importlib.util
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import bench_peer  # noqa: E402
from bench_peer_rows import ROWS  # noqa: E402

# What both fakes share: `take(name)` gives the next line of a file of figures, the last one for ever.
COMMON = """
import json, os, pathlib, sys, time
here = pathlib.Path({folder!r})
def note(word):
    with open(here / "log", "a") as log:
        log.write(word + " " + " ".join(sys.argv[1:]) + "\\n")
def take(name):
    lines = (here / name).read_text().split()
    if len(lines) > 1:
        (here / name).write_text("\\n".join(lines[1:]))
    return float(lines[0])
def step(name, rss):
    note(name)
    fault = here / (name + ".fault")
    exec(fault.read_text() if fault.exists() else "")
    keys = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "MALLOC_TRIM_THRESHOLD_")
    print(json.dumps({{"median_s": take(name), "peak_rss_bytes": rss, "environment": {{k: os.environ.get(k) for k in keys}}}}))
"""
OURS = """#!{python}
{common}
if sys.argv[1:] == ["--version"]:
    print("mixtape 9.9")
elif sys.argv[2] == "ops":
    note("probe")
    seconds = 2 * 256 * 768 * 3072 / take("gflops") / 1e9
    print(json.dumps({{"ops": [{{"op": "gelu", "shape": "[7]", "f32_forward_s": 5}},
                               {{"op": "linear", "shape": "[256, 768] x [3072, 768]", "f32_forward_s": seconds}}]}}))
else:
    step("ours", 600)
"""
PYTHON = """#!/bin/sh
PYTHONPATH={folder}/modules exec {python} "$@"
"""


class BenchPeer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        places = {"folder": str(self.folder), "python": sys.executable}
        common = COMMON.format(**places)
        self.write("mixtape", OURS.format(common=common, **places))
        self.write("peers/torch_step.py", common + 'step("theirs", 1000)\n')
        self.write("env/bin/python", PYTHON.format(**places))
        for name in bench_peer.PACKAGES:
            self.write(f"modules/{name}.py", '__version__ = "1.2"\n')
        self.figures(ours=[1], theirs=[2], gflops=[100])

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def figures(self, **lists):
        for name, values in lists.items():
            (self.folder / name).write_text("\n".join(map(str, values)))

    def words(self, *words):
        return [f"--program={self.folder / 'mixtape'}", f"--peers={self.folder / 'peers'}", f"--env={self.folder / 'env'}",
                f"--json={self.folder / 'out.json'}", "--threads=2", *words]

    def call(self, *words, bf16=False):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), mock.patch("bench_peer.cpu", lambda: ("a CPU", bf16)):
            try:
                code = bench_peer.main(self.words(*words))
            except SystemExit as ended:
                code = ended.code
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def measured(self, *words, bf16=False):
        self.assertEqual(self.call(*words, bf16=bf16), 0, self.err)
        return json.loads((self.folder / "out.json").read_text())

    def log(self):
        return (self.folder / "log").read_text().splitlines()

    def test_alternates_with_a_probe_on_each_side(self):
        self.measured("--rows", "f32-16x32", "--runs", "2")
        self.assertEqual([line.split()[0] for line in self.log()], ["probe", *["ours", "probe", "theirs", "probe"] * 2])

    def test_rows_take_turns(self):
        self.measured("--rows", "tiny-f32,minilm-f32", "--runs", "2")
        hidden = [line.split("--shape ")[1] for line in self.log() if line.startswith("theirs")]
        self.assertEqual(hidden, ["2,128,2,512", "6,384,12,1536"] * 2)

    def test_both_get_the_same_work(self):
        self.measured("--rows", "tiny-bf16", "--runs", "1")
        ours, theirs = (next(line for line in self.log() if line.startswith(name)) for name in ("ours", "theirs"))
        same = "--batch 16 --seq 32 --steps 50 --warmup 2"
        self.assertEqual(ours, f"ours bench step --json {same} --set amp.dtype=bf16 --set threads=2 --set model.config.num_hidden_layers=2"
                         " --set model.config.hidden_size=128 --set model.config.num_attention_heads=2 --set model.config.intermediate_size=512")
        self.assertEqual(theirs, f"theirs {same} --amp bf16 --mode train --threads 2 --shape 2,128,2,512")

    def test_medians_table_and_json(self):
        self.figures(ours=[1, 9, 2], theirs=[2.7, 2.6, 99])
        found = self.measured("--rows", "f32-16x32")
        row = found["rows"][0]
        self.assertEqual([p["ours"]["median_s"] for p in row["pairs"]], [1, 9, 2])
        self.assertEqual((row["ours_s"], row["theirs_s"], row["ratio"], row["rss_ratio"], row["dropped"]), (2, 2.7, 1.35, 0.6, 0))
        self.assertEqual(self.out.splitlines()[1].split(),
                         ["f32-16x32", "2.0000", "2.7000", "1.35", "1.28", "1.37", "must", "met", "0.60", "0.75", "0.70", "goal", "met"])
        self.assertIn("0 of 3 pairs dropped", self.out)
        self.assertEqual((found["cpu"], found["threads"], found["runs"]), ("a CPU", 2, 3))
        self.assertEqual((found["versions"]["mixtape"], found["versions"]["torch"], found["versions"]["transformers"]), ("mixtape 9.9", "1.2", "1.2"))

    def test_verdicts(self):
        for theirs, expected in ((1.27, "not met"), (1.28, "must met"), (1.37, "goal met")):
            self.figures(ours=[1], theirs=[theirs])
            self.measured("--rows", "f32-16x32", "--runs", "1")
            self.assertIn(f"1.28  1.37  {expected}", self.out)

    def test_environments(self):
        with mock.patch.dict(os.environ, {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "7", "MALLOC_TRIM_THRESHOLD_": "3"}):
            pair = self.measured("--rows", "f32-16x32", "--runs", "1")["rows"][0]["pairs"][0]
        threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": None}
        trim = "MALLOC_TRIM_THRESHOLD_"
        self.assertEqual(pair["ours"]["environment"], threads | {trim: None})
        self.assertEqual(pair["theirs"]["environment"], threads | {trim: bench_peer.PEER_MALLOC[trim]})

    def test_disturbed_pairs_are_dropped_and_made_again(self):
        # The second pair's middle probe is 16 % under the best; its figures must not reach the medians.
        self.figures(gflops=[100, 100, 86, 84, 100], ours=[1, 50, 1], theirs=[2, 3, 2])
        found = self.measured("--rows", "f32-16x32", "--runs", "2")["rows"][0]
        self.assertEqual([pair["clean"] for pair in found["pairs"]], [True, False, True])
        self.assertEqual((found["ours_s"], found["theirs_s"], found["dropped"]), (1, 2, 1))
        self.assertIn("1 of 3 pairs dropped", self.out)
        self.assertIn("disturbed: products at 84 of 100", self.err)

    def test_a_later_best_condemns_an_earlier_pair(self):
        self.figures(gflops=[100, 100, 100, 200], ours=[5, 5, 1], theirs=[2])
        found = self.measured("--rows", "f32-16x32", "--runs", "1")["rows"][0]
        self.assertEqual(found["dropped"], 0, "nothing faster was seen")
        self.figures(gflops=[100, 100, 150, 200], ours=[5, 5, 1], theirs=[2])
        found = self.measured("--rows", "f32-16x32", "--runs", "1")["rows"][0]
        self.assertEqual([pair["clean"] for pair in found["pairs"]], [False, False, True])
        self.assertEqual(found["ours_s"], 1)

    def test_gives_up_on_a_busy_machine(self):
        self.figures(gflops=[100, 50])
        self.assertEqual(self.call("--rows", "f32-16x32", "--runs", "2"), 1)
        self.assertEqual(sum(line.startswith("ours") for line in self.log()), 6)
        self.assertIn("no undisturbed pair of f32-16x32", self.err)
        self.assertIn("no data", self.out)
        self.assertNotIn("ratio", json.loads((self.folder / "out.json").read_text())["rows"][0])

    def test_which_rows(self):
        self.assertEqual([s["name"] for s in self.measured("--rows", "tiny", "--quick")["skipped"]], ["tiny-bf16"])
        self.assertIn("avx512_bf16", self.err)
        self.assertEqual(self.measured("--rows", "tiny", "--quick", bf16=True)["skipped"], [])
        self.assertEqual(self.measured("--rows", "tiny-bf16", "--quick")["skipped"], [])
        self.measured("--rows", "infer-bf16-1x32", "--quick")
        self.assertIn("ours bench infer --json --batch 1 --seq 32 --steps 10 --warmup 1", "\n".join(self.log()))
        self.assertEqual(self.call("--list"), 0)
        self.assertEqual([line.split()[0] for line in self.out.splitlines()], [row.name for row in ROWS])

    def test_usage(self):
        for words in (["--rows", "bert"], ["--rows", ""], ["--runs", "0"], ["--threads", "two"], ["--row", "tiny"], ["x"],
                      ["--program", "/nowhere/mixtape"], ["--peers", "/nowhere"]):
            self.assertEqual((self.call(*words), self.out), (2, ""), words)
        self.assertIn("--peers DIR", self.err)
        self.assertEqual(self.call("--rows", "tiny", "--json", "/nowhere/x.json"), 5)
        self.assertFalse((self.folder / "log").exists(), "said before anything is measured")

    def test_a_program_that_fails(self):
        for fault, code, expected in (("sys.exit('no such op')", 1, "no such op"), ("os.kill(os.getpid(), 9)", 12, "memory"),
                                      ("print('hello'); sys.exit(0)", 1, "no line of JSON"),
                                      ("print('{\"median_s\": 1}'); sys.exit(0)", 1, "median_s and peak_rss_bytes")):
            for name in ("ours", "theirs"):
                (self.folder / f"{name}.fault").write_text(fault)
                self.assertEqual(self.call("--rows", "f32-16x32"), code, fault)
                self.assertIn(expected, self.err)
                (self.folder / f"{name}.fault").unlink()
        self.assertEqual((self.out, (self.folder / "out.json").exists()), ("", False))

    def test_environment_that_cannot_be_made(self):
        folder = self.folder / "new"
        with mock.patch("shutil.disk_usage", lambda _: mock.Mock(free=5e9)):
            self.assertEqual(self.call("--rows", "tiny", f"--env={folder}"), 5)
        self.assertIn("about 6 GB", self.err)
        self.assertIn("5.0 GB are free", self.err)
        with mock.patch("shutil.disk_usage", lambda _: mock.Mock(free=9e9)), mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1"}):
            self.assertEqual(self.call("--rows", "tiny", f"--env={folder}"), 5)
        self.assertRegex(self.err, "Check the network|python3-venv")

    @unittest.skipUnless(importlib.util.find_spec("ensurepip"), "no python3-venv")
    def test_environment_is_made_when_it_is_missing(self):
        for name in bench_peer.PACKAGES:
            info = f"{name}-3.4.dist-info"
            with zipfile.ZipFile(self.folder / f"{name}-3.4-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{name}.py", '__version__ = "3.4"\n')
                wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 3.4\n")
                wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                wheel.writestr(f"{info}/RECORD", "")
        with mock.patch.dict(os.environ, {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.folder)}):
            with mock.patch("shutil.disk_usage", lambda _: mock.Mock(free=9e9)):
                found = self.measured("--rows", "tiny-f32", "--quick", f"--env={self.folder / 'new'}")
        self.assertEqual((found["versions"]["torch"], found["versions"]["transformers"]), ("3.4", "3.4"))
        self.measured("--rows", "tiny-f32", "--quick", f"--env={self.folder / 'new'}")
        self.assertNotIn("installing", self.err, "it is there now")

    def test_an_interrupt_leaves_nothing_running(self):
        pid_file = self.folder / "pid"
        for name, stop, code in (("ours", signal.SIGINT, 130), ("theirs", signal.SIGINT, 130), ("theirs", signal.SIGTERM, 143)):
            (self.folder / f"{name}.fault").write_text(f"pathlib.Path({str(pid_file)!r}).write_text(str(os.getpid())); time.sleep(60)")
            with subprocess.Popen([ROOT / "tools/bench_peer", *self.words("--rows", "f32-16x32")], stderr=subprocess.PIPE,
                                  stdout=subprocess.DEVNULL) as process:
                deadline = time.monotonic() + 30
                while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
                    time.sleep(0.02)
                process.send_signal(stop)
                process.communicate(timeout=30)
            self.assertEqual(process.returncode, code)
            with self.assertRaises(ProcessLookupError):
                os.kill(int(pid_file.read_text()), 0)
            pid_file.unlink()
            (self.folder / f"{name}.fault").unlink()


if __name__ == "__main__":
    unittest.main()
