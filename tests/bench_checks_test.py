#!/usr/bin/env python3
"""tools/bench_checks and tools/bench_waterfall: with a small script in place of the program, whose figures are told by a file,
and with the real one, when it is named: bench_checks_test.py [PROGRAM]"""

import importlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
PROGRAM = sys.argv.pop() if len(sys.argv) > 1 and pathlib.Path(sys.argv[-1]).is_file() else None

# `answer(words, n)` of the test says what the n-th call differs in from a sound step.
FAKE = """#!{python}
import json, pathlib, sys
here = pathlib.Path({folder!r})
if sys.argv[1:] == ["--version"]:
    sys.exit(print("mixtape 9.9"))
if sys.argv[1] == "doctor":
    print(json.dumps({{"processor": {{"cores": 7}}}}))
    sys.exit()
with open(here / "log", "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
value = lambda name: sys.argv[sys.argv.index(name) + 1] if name in sys.argv else ""
rows, composed = ["attention", "feed_forward"], [row for row in value("--composed").split(",") if row]
tokens, n = int(value("--batch")) * int(value("--seq")), len((here / "log").read_text().splitlines())
found = {{"median_s": tokens * 1e-3, "min_s": tokens * 1e-3, "saved_bytes": 1000, "peak_rss_bytes": 9000, "tokens_per_s": 50, "weights_xxh3": "w", "losses_xxh3": "l",
         "allocations_from_step_3": 0, "classes": [{{"class": "attention", "share": 0.25}}], "composed": composed,
         "fused_rows": [row for row in rows if row not in composed]}}
exec((here / "answer").read_text())
print(json.dumps(found))
"""


class Script(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.answer("")
        fake = self.folder / "mixtape"
        fake.write_text(FAKE.format(folder=str(self.folder), python=sys.executable))
        fake.chmod(0o755)

    def answer(self, code):
        (self.folder / "answer").write_text(code)
        (self.folder / "log").unlink(missing_ok=True)

    def call(self, script, *words, program=None):
        out, err = io.StringIO(), io.StringIO()
        self.json = self.folder / "out.json"
        self.json.unlink(missing_ok=True)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = importlib.import_module(script).main([f"--program={program or self.folder / 'mixtape'}", f"--json={self.json}",
                                                             *([] if words[-1:] == ("default threads",) else ["--threads=2"]),
                                                             *(word for word in words if word != "default threads")])
            except SystemExit as ended:
                code = ended.code
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def log(self):
        return (self.folder / "log").read_text().splitlines()


class Checks(Script):
    def test_all_hold(self):
        self.assertEqual(self.call("bench_checks", "--runs", "1"), 0, self.out)
        self.assertIn("16 held, 0 failed", self.out)
        self.assertIn("growth-f32-16x128-16x256     ok      2.000 x the time, attention 25.0 % and 25.0 %", self.out)
        self.assertEqual(len(self.log()), 8 * 2 + 8 * 2)
        self.assertIn("bench step --json --batch 8 --seq 512 --steps 5 --warmup 2 --no-floor --set amp.dtype=bf16 --set threads=2", self.log())
        self.assertEqual(len(json.loads(self.json.read_text())["rows"]), 16)

    def test_other_bits_fail(self):
        for key in ("weights_xxh3", "losses_xxh3"):
            self.answer(f"if n == 2: found[{key!r}] = 'x'")
            self.assertEqual(self.call("bench_checks", "--rows", "bits-f32-16x32,bits-f32-16x64"), 1)
            self.assertRegex(self.out, r"bits-f32-16x32 +FAILED +other bits, 0 blocks")
            self.assertRegex(self.out, r"bits-f32-16x64 +ok")
            self.assertIn("1 held, 1 failed", self.out)

    def test_a_late_allocation_fails(self):
        self.answer("if n == 2: found['allocations_from_step_3'] = 3")
        self.assertEqual(self.call("bench_checks", "--rows", "bits-f32-16x32"), 1)
        self.assertRegex(self.out, r"FAILED +equal bits, 3 blocks")

    def test_growth(self):
        for factor, held in ((1.09, True), (1.11, False), (0.91, True), (0.89, False)):
            self.answer(f"if tokens == 1024: found['min_s'] *= {factor}")
            self.assertEqual(self.call("bench_checks", "--rows", "growth-f32-16x32"), 0 if held else 1, factor)

    def test_growth_on_a_machine_that_is_sometimes_slower(self):
        self.answer("found['min_s'] *= (1, 1.6, 1.3, 1, 1.7, 1.2)[n - 1]")
        self.assertEqual(self.call("bench_checks", "--rows", "growth-f32-16x32"), 0, self.out)
        self.assertEqual(json.loads(self.json.read_text())["rows"][0]["ratio"], 2)

    def test_which_rows_and_usage(self):
        self.assertEqual(self.call("bench_checks", "--list"), 0)
        self.assertEqual(len(self.out.splitlines()), 16)
        self.assertEqual(self.call("bench_checks", "--rows", "bits-bf16"), 0)
        self.assertEqual({line.split("amp.dtype=")[1].split()[0] for line in self.log()}, {"bf16"})
        for words in (["--rows", "bit"], ["--rows", ""], ["--steps", "0"], ["--runs", "x"], ["--program=/nowhere"]):
            self.assertEqual((self.call("bench_checks", *words), self.out), (2, ""), words)
        self.assertEqual((self.call("bench_checks", "--list", "--rows", "nonsense"), self.out), (2, ""))
        self.assertEqual((self.call("bench_checks", "--list", "--rows", "bits-f32-8x512"), self.out), (0, "bits-f32-8x512\n"))
        self.answer("sys.exit(4)")
        self.assertEqual(self.call("bench_checks", "--rows", "bits-f32-16x32"), 1)

    def test_threads_are_those_that_the_program_may_use(self):
        self.assertEqual(self.call("bench_checks", "--rows", "bits-f32-16x32", "default threads"), 0, self.err)
        self.assertIn("--set threads=7", self.log()[0])

    def test_what_cannot_be_written_or_is_not_ours_is_told_before_anything_is_measured(self):
        folder = self.folder / "there"
        folder.mkdir()
        for script in ("bench_checks", "bench_waterfall"):
            self.assertEqual((self.call(script, f"--json={folder}"), self.out), (5, ""))
            self.assertIn(f"{folder}: a folder", self.err)
            for program in ("/bin/true", "/bin/false", "/bin/echo"):
                self.assertEqual((self.call(script, program=program), self.out), (2, ""), program)
                self.assertIn("--program FILE", self.err)
        self.assertFalse((self.folder / "log").exists())
        self.assertEqual([path.name for path in self.folder.iterdir() if path.suffix == ".part"], [])

    def test_a_folder_that_comes_later_leaves_nothing_behind(self):
        self.answer("here.joinpath('out.json').mkdir(exist_ok=True)")
        self.assertEqual(self.call("bench_checks", "--rows", "bits-f32-16x32"), 5)
        self.assertIn(f"{self.json}: ", self.err)
        self.assertFalse(self.json.with_name("out.json.part").exists())
        self.json.rmdir()

    @unittest.skipUnless(PROGRAM, "no program was named")
    def test_the_real_program(self):
        # One thread: with more, whose scratch memory is alive at one time depends on how busy the machine is.
        self.assertEqual(self.call("bench_checks", "--quick", "--threads", "1", program=PROGRAM), 0, self.out + self.err)
        self.assertIn("6 held, 0 failed", self.out)


class Waterfall(Script):
    def test_one_lever_more_at_a_time(self):
        self.answer("found['median_s'] = (2 if n == 3 else 1) + 0.5 * ('attention' in composed) + 0.25 * ('feed_forward' in composed)\n"
                    "found['saved_bytes'] *= 1 + len(composed)")
        self.assertEqual(self.call("bench_waterfall", "--runs", "2", "--amp", "bf16", "--levers", "feed_forward,attention"), 0, self.err)
        self.assertEqual([line.split()[-5:] for line in self.out.splitlines()[1:]],
                         [["composed", "1.7500", "50", "0.0", "0.0"], ["1.5000", "+0.2500", "50", "0.0", "0.0"], ["1.0000", "+0.5000", "50", "0.0", "0.0"]])
        stages = json.loads(self.json.read_text())["stages"]
        self.assertEqual([(s["lever"], s["composed"], s["saved_bytes"]) for s in stages],
                         [("everything composed", ["feed_forward", "attention"], 3000), ("+ feed_forward", ["attention"], 2000),
                          ("+ attention", [], 1000)])
        composed = [line.split("--composed ")[1].split()[0] if "--composed" in line else "" for line in self.log()]
        self.assertEqual(composed, ["", *["feed_forward,attention", "attention", ""] * 2], "stages take turns")

    def test_packing(self):
        lengths = self.folder / "lengths"
        lengths.write_text("5\n9\n")
        self.assertEqual(self.call("bench_waterfall", "--runs", "1", f"--lengths={lengths}", "--levers", "attention"), 0, self.err)
        self.assertEqual([line.split("data.padding=")[1].split()[0] for line in self.log()], ["longest"] * 3 + ["packed"])
        self.assertIn("+ packed batches", self.out)
        self.assertIn("these composed", self.out)

    def test_usage(self):
        for words in (["--levers", "gelu"], ["--levers", "attention,attention"], ["--amp", "int8"], ["--lengths", "/nowhere"], ["x"]):
            self.assertEqual((self.call("bench_waterfall", *words), self.out), (2, ""), words)
        self.call("bench_waterfall", "--levers", "gelu")
        self.assertIn("it has: attention, feed_forward", self.err)

    @unittest.skipUnless(PROGRAM, "no program was named")
    def test_the_real_program(self):
        words = ["--model", "tiny", "--batch", "2", "--seq", "8", "--steps", "2", "--warmup", "1", "--runs", "1"]
        self.assertEqual(self.call("bench_waterfall", *words, program=PROGRAM), 0, self.err)
        stages = json.loads(self.json.read_text())["stages"]
        self.assertEqual([s["lever"] for s in stages], ["everything composed", "+ attention", "+ dropout_add_layer_norm", "+ embed_layer_norm",
                                                       "+ feed_forward", "+ joint_linear"])
        self.assertEqual([s["runs"][0]["composed"] for s in stages], [s["composed"] for s in stages])
        saved = [s["saved_bytes"] for s in stages]
        self.assertEqual(saved, sorted(saved, reverse=True))


if __name__ == "__main__":
    unittest.main()
