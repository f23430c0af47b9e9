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
from bench_peer_rows import ROWS, Texts  # noqa: E402

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
    seconds, saved = take(name), 520 if "amp.dtype=bf16" in sys.argv else 1000
    print(json.dumps({{"median_s": seconds, "tokens_per_s": 100 / seconds, "saved_bytes": saved, "peak_rss_bytes": rss,
                       "environment": {{k: os.environ.get(k) for k in keys}},
                       "lengths": pathlib.Path(sys.argv[sys.argv.index("--lengths") + 1]).read_text() if "--lengths" in sys.argv else None}}))
"""
OURS = """#!{python}
{common}
if sys.argv[1:] == ["--version"]:
    print("mixtape 9.9")
elif sys.argv[1] == "tokenize":
    note("tokenize")
    print("\\n".join(" ".join(["7"] * int(n)) for n in pathlib.Path(sys.argv[-1]).read_text().split()))
elif sys.argv[2] == "machine":
    note("probe")
    print(json.dumps({{"gemm_f32_gflops": take("gflops")}}))
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
        self.assertEqual(ours, f"ours bench step --json {same} --no-floor --set amp.dtype=bf16 --set threads=2 --set model.config.num_hidden_layers=2"
                         " --set model.config.hidden_size=128 --set model.config.num_attention_heads=2 --set model.config.intermediate_size=512")
        self.assertEqual(theirs, f"theirs {same} --amp bf16 --mode train --threads 2 --shape 2,128,2,512")

    def test_medians_table_and_json(self):
        self.figures(ours=[1, 9, 2], theirs=[2.7, 2.6, 99])
        found = self.measured("--rows", "f32-16x32")
        row = found["rows"][0]
        self.assertEqual([p["ours"]["median_s"] for p in row["pairs"]], [1, 9, 2])
        time, rss = row["criteria"]
        self.assertEqual((time["ours"], time["theirs"], time["ratio"]), (2, 2.7, 2.7))  # medians of each side, and of the pairs' ratios
        self.assertEqual((rss["ratio"], rss["goal_met"], row["dropped"]), (0.6, True, 0))
        self.assertEqual(self.out.splitlines()[1].split(),
                         ["f32-16x32", "time,", "s", "2.0000", "2.7000", "2.70", ">=1.28", "ok", ">=1.37", "ok"])
        self.assertEqual(self.out.splitlines()[2].split()[1:3] + self.out.splitlines()[2].split()[-5:],
                         ["RSS,", "GB", "0.60", "<=0.75", "ok", "<=0.7", "ok"])
        self.assertIn("0 of 3 pairs dropped", self.out)
        self.assertEqual((found["cpu"], found["threads"], found["runs"]), ("a CPU", 2, 3))
        self.assertEqual((found["versions"]["mixtape"], found["versions"]["torch"], found["versions"]["transformers"]), ("mixtape 9.9", "1.2", "1.2"))

    def test_verdicts(self):
        for theirs, expected in ((1.27, ">=1.28  missed  >=1.37  missed"), (1.28, ">=1.28  ok      >=1.37  missed"),
                                 (1.37, ">=1.28  ok      >=1.37  ok")):
            self.figures(ours=[1], theirs=[theirs])
            self.measured("--rows", "f32-16x32", "--runs", "1")
            self.assertIn(expected, self.out)

    def test_our_bf16_beside_our_f32(self):
        self.figures(ours=[1, 1.9])
        (self.folder / "peers/torch_step.py").unlink()
        row = self.measured("--rows", "own-16x64", "--runs", "1", "--env=/nowhere")["rows"][0]
        time, saved = row["criteria"]
        self.assertEqual((time["ratio"], time["must_met"], time["goal_met"]), (1.9, True, False))
        self.assertEqual((saved["ratio"], saved["must_met"], saved["goal_met"]), (0.52, True, True))
        self.assertEqual([line.split("amp.dtype=")[1].split()[0] for line in self.log() if line.startswith("ours")], ["bf16", "off"])
        self.assertFalse([line for line in self.log() if line.startswith("theirs")])

    def test_real_tweets(self):
        lengths = [5, 9] * 500
        self.write("data/tweet_eval/offensive/train_text.txt", "\n".join(map(str, lengths)) + "\n")
        self.write("data/bert/vocab.txt", "")
        data = f"--data={self.folder / 'data'}"
        self.figures(ours=[1], theirs=[1.6])
        row = self.measured("--rows", "tweets-bf16-buckets", "--runs", "1", data)["rows"][0]
        self.assertEqual([(c["what"], c["ours"], c["theirs"], c["must_met"], c["goal_met"]) for c in row["criteria"]],
                         [("real tokens/s", 100, 62.5, True, False)])
        log = "\n".join(self.log())
        self.assertIn("--max-length 128 --no-match-special-tokens", log)
        self.assertRegex(log, "ours bench step --json --batch 16 --seq 128 --steps 25 --warmup 2 --no-floor --lengths .* --set data.padding=packed")
        shuffled, bucketed = (list(map(int, row["pairs"][0][side]["lengths"].split())) for side in ("ours", "theirs"))
        self.assertEqual((len(shuffled), sorted(shuffled)), (800, sorted(bucketed)))
        mixed = lambda all_: sum(len(set(all_[i:i + 16])) > 1 for i in range(0, 800, 16))
        self.assertLess((mixed(bucketed), 40), (2, mixed(shuffled)))
        self.assertNotEqual(bucketed, sorted(bucketed), "batches come in any order")

        self.figures(ours=[1], theirs=[10])
        row = self.measured("--rows", "tweets-f32-512", "--runs", "1", data)["rows"][0]
        self.assertAlmostEqual(row["criteria"][0]["theirs"], 10 * sum(shuffled) / 800 / 512)
        self.assertNotIn("must_met", row["criteria"][0])
        self.assertIn("theirs --batch 8 --seq 512 --steps 2 --warmup 1 --amp off", "\n".join(self.log()))
        self.assertEqual(self.call("--rows", "tweets-f32-512", "--data=/nowhere"), 2)
        self.assertIn("--data DIR", self.err)

    def test_few_texts_make_whole_batches(self):
        texts = Texts(list(range(1, 40)), 16, self.folder)
        self.assertEqual([len(file.read_text().split()) for file in (texts.shuffled, texts.bucketed)], [32, 32])

    def test_environments(self):
        with mock.patch.dict(os.environ, {"OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "7", "MALLOC_TRIM_THRESHOLD_": "3"}):
            pair = self.measured("--rows", "f32-16x32", "--runs", "1")["rows"][0]["pairs"][0]
        threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": None}
        trim = "MALLOC_TRIM_THRESHOLD_"
        self.assertEqual(pair["ours"]["environment"], threads | {trim: None})
        self.assertEqual(pair["theirs"]["environment"], threads | {trim: bench_peer.PEER_MALLOC[trim]})

    def test_disturbed_pairs_are_dropped_and_made_again(self):
        # Between the second pair's programs the product was 16 % slower; its figures must not reach the medians.
        self.figures(gflops=[100, 100, 100, 84, 100], ours=[1, 50, 1], theirs=[2, 3, 2])
        found = self.measured("--rows", "f32-16x32", "--runs", "2")["rows"][0]
        self.assertEqual([pair["clean"] for pair in found["pairs"]], [True, False, True])
        self.assertEqual((found["criteria"][0]["ours"], found["criteria"][0]["theirs"], found["dropped"]), (1, 2, 1))
        self.assertIn("1 of 3 pairs dropped", self.out)
        self.assertIn("disturbed: products at 100, 84, 100", self.err)

    def test_a_clock_that_drifts_drops_nothing(self):
        self.figures(gflops=[130, 120, 110, 100, 95, 90, 85])  # a third over three pairs, 15 % at most within each
        found = self.measured("--rows", "f32-16x32")
        self.assertEqual((found["rows"][0]["dropped"], found["gflops"]), (1, [130, 120, 110, 100, 95, 90, 85, 85, 85]))
        self.assertEqual(found["rows"][0]["pairs"][0]["clean"], False, "130 to 110 are 15.4 %")

    def test_a_pair_far_from_the_usual_rate_is_dropped(self):
        self.figures(gflops=[60, 60, 60, 80, 100], ours=[5, 4, 1], theirs=[2])
        found = self.measured("--rows", "f32-16x32", "--runs", "3")["rows"][0]
        self.assertEqual([pair["clean"] for pair in found["pairs"]], [False, False, True, True, True], "the median is 100 in the end")
        self.assertEqual(found["criteria"][0]["ours"], 1)

    def test_gives_up_on_a_busy_machine(self):
        self.figures(gflops=[100, 50] * 20)
        self.assertEqual(self.call("--rows", "f32-16x32", "--runs", "2"), 1)
        self.assertEqual(sum(line.startswith("ours") for line in self.log()), 6)
        self.assertIn("no undisturbed pair of f32-16x32", self.err)
        self.assertIn("no data", self.out)
        self.assertNotIn("ratio", json.loads((self.folder / "out.json").read_text())["rows"][0]["criteria"][0])

    def test_which_rows(self):
        self.assertEqual([s["name"] for s in self.measured("--rows", "tiny", "--quick")["skipped"]], ["tiny-bf16"])
        self.assertIn("avx512_bf16", self.err)
        self.assertEqual(self.measured("--rows", "tiny", "--quick", bf16=True)["skipped"], [])
        self.assertEqual(self.measured("--rows", "tiny-bf16", "--quick")["skipped"], [])
        self.measured("--rows", "infer-bf16-1x32", "--quick")
        self.assertIn("ours bench infer --json --batch 1 --seq 32 --steps 10 --warmup 1", "\n".join(self.log()))
        self.assertIn("--amp bf16 --mode infer", "\n".join(self.log()))
        self.assertEqual(self.call("--list"), 0)
        self.assertEqual(list(dict.fromkeys(line.split()[0] for line in self.out.splitlines())), [row.name for row in ROWS])
        self.assertEqual(bench_peer.select(["all"]), ROWS)
        self.assertEqual((self.call("--list", "--rows", "nonsense"), self.out), (2, ""))
        self.assertIn("no row is called 'nonsense'", self.err)
        self.assertEqual(self.call("--list", "--rows", "own"), 0)
        self.assertEqual({line.split()[0] for line in self.out.splitlines()}, {"own-16x64", "own-8x512"})

    def test_usage(self):
        for words in (["--rows", "bert"], ["--rows", ""], ["--runs", "0"], ["--threads", "two"], ["--row", "tiny"], ["x"],
                      ["--program", "/nowhere/mixtape"], ["--peers", "/nowhere"]):
            self.assertEqual((self.call(*words), self.out), (2, ""), words)
        self.assertIn("--peers DIR", self.err)
        self.assertEqual(self.call("--rows", "tiny", "--json", "/nowhere/x.json"), 5)
        self.assertEqual((self.call("--rows", "tiny", f"--json={self.folder}"), self.out), (5, ""))
        self.assertIn(f"{self.folder}: a folder", self.err)
        for program in ("/bin/true", "/bin/echo"):  # not even the peer's environment is begun
            self.assertEqual(self.call("--rows", "tiny", f"--program={program}", f"--env={self.folder / 'new'}"), 2)
            self.assertIn("is no mixtape", self.err)
        self.assertFalse((self.folder / "new").exists())
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
