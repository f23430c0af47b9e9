#!/usr/bin/env python3
"""tools/gpu_check.sh with small scripts in place of all programs: each part, with right results and with planted wrong ones.

  gpu_check_test.py                    the parts and what they judge
  gpu_check_test.py BUILD MODULE RUNNER   also the real programs of a build, on the device-on-CPU runner
"""

import io
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import gpu_check  # noqa: E402
import gpu_check_places  # noqa: E402
import gpu_check_speed  # noqa: E402

# A program that answers by the first rule whose words are all among its own; a rule is a file name.rules: lines of JSON
# [[words], what it says, exit code].
FAKE = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__)
with open(here.parent / "log", "a") as log:
    log.write(here.name + " " + " ".join(sys.argv[1:]) + "\\n")
for line in (here.parent / (here.name + ".rules")).read_text().splitlines():
    words, said, status = json.loads(line)
    if all(word in sys.argv for word in words):
        print(said)
        sys.exit(status)
sys.exit("no rule for " + " ".join(sys.argv))
"""
DEVICE = {"built": True, "usable": True, "reason": None, "error": None, "driver_cuda": "13.0",
          "devices": [{"name": "some GPU", "compute_capability": "9.0", "has_code": True}]}
NO_DEVICE = DEVICE | {"usable": False, "reason": "CUDA driver version is insufficient", "error": "CUDA driver version is insufficient", "devices": []}
TABLE = "gpu ops: {rows} rows, 0 kernels, {cases} cases, without a device function: none; {passed} passed, {failed} failed"
CASES = "[doctest] test cases:  9 |  9 passed | 0 failed | 1 skipped"
CLEAN = {"memcheck": "========= ERROR SUMMARY: 0 errors", "racecheck": "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"}
STEP = {"median_s": 0.01, "tokens_per_s": 400e3, "loss": 0.7}


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for part in ("build/bin", "build/lib", "build/lengths", "carry", "path"):
            (self.folder / part).mkdir(parents=True)
        (self.folder / "build/lib" / gpu_check_places.MODULE).write_text("the module")
        for name in ("shuffled", "bucketed"):
            (self.folder / "build/lengths" / name).write_text("7\n" * 64)
        self.rules("build/bin/mixtape", [["doctor"], json.dumps({"cuda": DEVICE})], [["ops"], json.dumps([{"name": "gelu"}, {"name": "sum"}])],
                   [["device=cuda"], json.dumps(STEP)], [["device=cpu"], json.dumps(STEP)])
        self.rules("build/bin/mixtape_gpu_ops", [["--dry-run"], TABLE.format(rows=2, cases=0, passed=0, failed=0)], *self.table())
        self.rules("build/bin/mixtape_gpu_kernels", [["--list-test-cases"], "[doctest] unskipped test cases passing the current filters: 9"], [[], CASES])
        self.rules("build/bin/mixtape_gpu_gelu", [["--self-test"], ""], [["--dry-run"], "gelu epilogue: devices: 0"], [[], "gelu epilogue: tanh"])
        self.rules("path/compute-sanitizer", [["--version"], "Version 1"],
                   *([[name], CLEAN[name] + "\n" + self.table()[0][1]] for name in ("memcheck", "racecheck")))
        self.python(*({"case": case, **STEP} for case in gpu_check_speed.CASES))

    def table(self, rows=1, cases=5, passed=9, failed=0, status=None):
        """What a process says that was given one row of the two."""
        return [[[], TABLE.format(rows=rows, cases=cases, passed=passed, failed=failed), int(failed > 0) if status is None else status]]

    def rules(self, name, *rules):
        file = self.folder / name
        file.write_text(FAKE.format(python=sys.executable))
        file.chmod(0o755)
        pathlib.Path(f"{file}.rules").write_text("\n".join(json.dumps([*rule, 0][:3]) for rule in rules))

    def python(self, *lines, status=0):
        """The peer's Python, which imports all and prints these lines, compiled or not."""
        said = "\n".join(map(json.dumps, lines))
        self.rules("path/python", [["-c"], json.dumps({"torch": "9.9", "transformers": "8.8"})], [[], said, status])

    def call(self, *words, rows=None):
        out, err = io.StringIO(), io.StringIO()
        words = [f"--build={self.folder / 'build'}", f"--carry={self.folder / 'carry'}", f"--python={self.folder / 'path/python'}", *words]
        path = f"{self.folder / 'path'}:{os.environ['PATH']}"
        with redirect_stdout(out), redirect_stderr(err), mock.patch.dict(os.environ, {"PATH": path}), mock.patch("os.cpu_count", lambda: 4):
            try:
                code = gpu_check.main([*words, str(self.folder / "out")])
            except SystemExit as ended:
                code = ended.code
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def fails(self, part, *words, also=()):
        """This part fails, and what it says holds the words."""
        self.assertEqual(self.call("--only", part, *also), 1, self.out)
        self.assertTrue(self.out.splitlines()[-1].endswith(f"FAILED: {part}"), self.out)
        for word in words:
            self.assertIn(word, self.out)

    def results(self):
        return json.loads((self.folder / "out/results.json").read_text())

    def test_all_parts_well(self):
        self.assertEqual(self.call(), 0, self.out + self.err)
        self.assertTrue(self.out.endswith("gpu_check: all parts are well\n"))
        self.assertEqual(list(self.results()), list(gpu_check.PARTS))
        files = {file.name for file in (self.folder / "out").iterdir()}
        self.assertLessEqual(files, set(gpu_check.FILES))
        self.assertLessEqual(len(gpu_check.FILES), 8)
        self.assertEqual((self.folder / "out/report.txt").read_text(), self.out)
        log = (self.folder / "build/bin/log").read_text()
        self.assertIn("bench step --json --batch 32 --seq 384 --steps 30 --warmup 10 --no-floor --set device=cuda --set amp.dtype=fp16", log)
        self.assertIn("--lengths", log)
        self.assertNotIn("--dry-run", log)

    def test_a_second_call_starts_with_empty_logs(self):
        self.call("--only", "gelu")
        first = (self.folder / "out/gelu.log").read_text()
        self.call("--only", "gelu")
        self.assertEqual(len((self.folder / "out/gelu.log").read_text().splitlines()), len(first.splitlines()))

    def test_build(self):
        self.assertEqual(self.call("--only", "build"), 0)
        self.assertIn("device: some GPU, CUDA 13.0", self.out)
        self.rules("build/bin/mixtape", [["doctor"], json.dumps({"cuda": NO_DEVICE})])
        self.fails("build", "driver version is insufficient")
        self.assertEqual(self.call("--only", "build", "--dry-run"), 0, "a dry run needs no driver")
        self.rules("build/bin/mixtape", [["doctor"], json.dumps({"cuda": DEVICE | {"built": False, "reason": "cannot be loaded: libx"}})])
        self.fails("build", "cannot be loaded: libx", also=["--dry-run"])
        self.rules("build/bin/mixtape", [["doctor"], "no JSON"])
        self.fails("build", "doctor --json")

    def test_build_of_another_architecture(self):
        shutil.copy("/bin/true", self.folder / "build/lib" / gpu_check_places.MODULE)  # an ELF file without device code
        other = DEVICE | {"devices": [DEVICE["devices"][0] | {"has_code": False, "compute_capability": "8.0"}]}
        self.rules("build/bin/mixtape", [["doctor"], json.dumps({"cuda": other})])
        with mock.patch("gpu_check_parts.architectures", lambda _: ["sm_90a"]):
            self.fails("build", "no code for some GPU, compute capability 8.0")

    def test_what_is_missing_fails_the_dry_run(self):
        for name in ("bin/mixtape_gpu_ops", "bin/mixtape_gpu_gelu", "lib/libmixtape_cuda.so"):
            file = self.folder / "build" / name
            file.rename(file.with_suffix(".away"))
            self.assertEqual(self.call("--dry-run"), 1)
            self.assertIn(f"{file} is not there", self.out)
            self.assertTrue(self.out.splitlines()[-1].startswith("gpu_check --dry-run: FAILED: build, gelu, parity"), self.out)
            file.with_suffix(".away").rename(file)
        shutil.copy("/bin/ls", self.folder / "build/bin/mixtape_gpu_gelu")
        with mock.patch("gpu_check_places.linked", lambda file, env: [("libselinux.so.1", None)]):
            self.fails("build", "mixtape_gpu_gelu needs libselinux.so.1, which is nowhere", also=["--dry-run"])

    def test_dry_run(self):
        self.rules("build/bin/mixtape", [["doctor"], json.dumps({"cuda": NO_DEVICE})], [["ops"], json.dumps([{"name": "gelu"}, {"name": "sum"}])],
                   [["device=cpu"], json.dumps(STEP)], [["device=cuda"], "error E-DEVICE\n  there is no cuda:0", 2])
        self.assertEqual(self.call("--dry-run"), 0, self.out)
        self.assertIn("there is no cuda:0", self.out)
        self.assertIn("f32:32xmix             -         -         -           -             -", self.out)
        self.rules("build/bin/mixtape_gpu_ops", [["--dry-run"], TABLE.format(rows=1, cases=0, passed=0, failed=0)])
        self.fails("parity", "1 rows", also=["--dry-run"])
        self.rules("build/bin/mixtape", [["ops"], "[]"], [["device=cpu"], json.dumps(STEP)], [["device=cuda"], "error E-USAGE", 2])
        self.fails("parity", "lists no rows", also=["--dry-run"])
        self.fails("speed", "bench step on a device: error E-USAGE", also=["--dry-run"])
        with mock.patch("gpu_check_speed.PEER", self.folder / "no_such_peer.py"):
            self.fails("speed", "no_such_peer.py --dry-run", also=["--dry-run"])

    def test_parity(self):
        self.assertEqual(self.call("--only", "parity"), 0, self.out)
        self.assertIn("2 rows, 10 cases, 18 passed, 0 failed", self.out)
        self.rules("build/bin/mixtape_gpu_ops", [["sum"], "sum  8 passed   1 failed\n    f32: 2 is not 1\n" + self.table(failed=1)[0][1], 1], *self.table())
        self.fails("parity", "wrong: sum", "18 passed, 1 failed")
        self.rules("build/bin/mixtape_gpu_ops", *self.table(failed=1, status=0))
        self.fails("parity", "2 failed")
        self.rules("build/bin/mixtape_gpu_ops", [["sum"], "Segmentation fault", 139], *self.table())
        self.fails("parity", "ended with 139 and no counts", "1 rows were run, of 2")
        self.rules("build/bin/mixtape_gpu_ops", [["sum"], self.table(rows=0, cases=0)[0][1]], *self.table())
        self.fails("parity", "1 rows were run, of 2")
        self.rules("build/bin/mixtape_gpu_ops", *self.table(cases=0, passed=0))
        self.fails("parity", "0 cases")
        self.rules("build/bin/mixtape_gpu_ops", *self.table(status=5))
        self.fails("parity", "ended with 5")

    def test_kernels(self):
        self.assertEqual(self.call("--only", "kernels"), 0)
        self.assertIn("9 of 9 test cases passed", self.out)
        for said, status in ((CASES.replace("9 passed | 0", "8 passed | 1"), 1), (CASES, 139), (CASES.replace("9", "0"), 0), ("", 0)):
            self.rules("build/bin/mixtape_gpu_kernels", [[], "TEST CASE:  a sum\n" + said, status])
            self.fails("kernels", "a sum")

    def test_sanitizer(self):
        self.assertEqual(self.call("--only", "sanitizer"), 0, self.out)
        self.assertIn("racecheck: 0 errors, 5 cases", self.out)
        wrong = {"memcheck": "========= ERROR SUMMARY: 3 errors", "racecheck": "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)"}
        for name, said in wrong.items():
            other = "racecheck" if name == "memcheck" else "memcheck"
            self.rules("path/compute-sanitizer", [[name], said + "\n" + self.table()[0][1]], [[other], CLEAN[other] + "\n" + self.table()[0][1]])
            self.fails("sanitizer", f"{name} ended with 0")
            self.rules("path/compute-sanitizer", [[name], self.table()[0][1]], [[other], CLEAN[other] + "\n" + self.table()[0][1]])
            self.fails("sanitizer", f"{name}: no summary")
        self.rules("path/compute-sanitizer", [[], CLEAN["memcheck"]])
        self.fails("sanitizer", "no cases")
        (self.folder / "path/compute-sanitizer").unlink()
        if not shutil.which("compute-sanitizer"):
            self.fails("sanitizer", "compute-sanitizer is not here")
            self.assertEqual(self.call("--only", "sanitizer", "--dry-run"), 0)

    def test_gelu(self):
        self.assertEqual(self.call("--only", "gelu"), 0)
        self.assertEqual(self.results()["gelu"]["is"], "tanh")
        for said, status in (("gelu epilogue: neither", 1), ("gelu epilogue: neither", 0), ("gelu epilogue: tanh and erf", 1), ("", 0), ("E-CUDA", 1)):
            self.rules("build/bin/mixtape_gpu_gelu", [["--self-test"], ""], [[], said, status])
            self.fails("gelu")
        self.rules("build/bin/mixtape_gpu_gelu", [["--self-test"], "self-test: erf is judged as tanh", 1], [[], "gelu epilogue: tanh"])
        self.fails("gelu", "judged as tanh")

    def test_speed(self):
        self.python(*({"case": case, **STEP, "median_s": 0.025, "tokens_per_s": 100e3} for case in gpu_check_speed.CASES))
        self.assertEqual(self.call("--only", "speed"), 0, self.out)
        figures = self.results()["speed"]
        self.assertEqual((figures["bf16:32x128"]["eager/ours"], figures["bf16:32xmix"]["compile/ours"]), (2.5, 4.0))
        self.assertRegex(self.out, r"bf16:32x128 +10.00 ms +25.00 ms +25.00 ms +2.50 +2.50")
        self.assertRegex(self.out, r"fp16:32xmix +400.00 k +100.00 k +100.00 k +4.00 +4.00")
        self.assertIn("torch 9.9, transformers 8.8", self.out)
        log = (self.folder / "path/log").read_text()
        self.assertRegex(log, r"gpu_peer.py --cases bf16:32x128,.*f32:32xmix --steps 30 --warmup 10 --lengths .*bucketed")
        self.assertRegex(log, r"--compile --until \d+ --lengths")

    def test_speed_that_cannot_be_believed(self):
        for wrong in ({"median_s": float("nan")}, {"median_s": 0}, {"loss": float("inf")}, {"error": "out of memory"}):
            found = [{"case": case, **STEP} for case in gpu_check_speed.CASES]
            found[0] |= wrong
            if "error" in wrong:
                found[0] = {"case": found[0]["case"], **wrong}
            self.python(*found)
            self.fails("speed", "eager bf16:32x128: " + wrong.get("error", "no finite figure"))
            self.assertIsNone(self.results()["speed"]["bf16:32x128"]["eager/ours"])
        self.python(status=1)
        self.fails("speed", "eager: ended with 1", "compile: ended with 1")
        self.python(*({"case": case, **STEP} for case in gpu_check_speed.CASES))
        self.rules("build/bin/mixtape", [["device=cuda"], "error E-CUDA", 1])
        self.fails("speed", "ours bf16:32x128: ended with 1: error E-CUDA")
        self.rules("build/bin/mixtape", [["device=cuda"], json.dumps(STEP)])
        self.rules("path/python", [["-c"], "", 1])
        self.fails("speed", "no Python with torch and transformers")

    def test_compiling_that_runs_out_of_time_fails_nothing(self):
        found = [{"case": case, **STEP} for case in gpu_check_speed.CASES]
        said = ["\n".join(map(json.dumps, lines)) for lines in (found[:2], found)]
        self.rules("path/python", [["-c"], json.dumps({"torch": "9.9", "transformers": "8.8"})], [["--compile"], said[0], 0], [[], said[1], 0])
        self.assertEqual(self.call("--only", "speed"), 0, self.out)
        self.assertRegex(self.out, r"f32:32xmix +400.00 k +400.00 k +- +1.00 +-\n")

    def test_a_program_that_hangs_is_ended(self):
        (self.folder / "build/bin/mixtape_gpu_kernels").write_text("#!/bin/sh\nsleep 60\n")
        self.fails("kernels", "ran past its", also=["--minutes", "0.02"])

    def test_an_interrupt_leaves_nothing_running(self):
        for part, name in (("kernels", "mixtape_gpu_kernels"), ("parity", "mixtape_gpu_ops")):
            pid_file = self.folder / f"{part}.pid"
            (self.folder / "build/bin" / name).write_text(f"#!/bin/sh\necho $$ >{pid_file}.part; mv {pid_file}.part {pid_file}; exec sleep 60\n")
            words = [ROOT / "tools/gpu_check.sh", f"--build={self.folder / 'build'}", f"--carry={self.folder / 'carry'}", "--only", part,
                     self.folder / "out"]
            with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                deadline = time.monotonic() + 60
                while not pid_file.exists() and time.monotonic() < deadline:
                    time.sleep(0.02)
                process.send_signal(signal.SIGINT)
                process.wait(60)
            self.assertEqual(process.returncode, 130)
            self.assertFalse(pathlib.Path(f"/proc/{pid_file.read_text().strip()}").exists(), part)

    def test_usage(self):
        for words in (["--only", "speeds"], ["--cases", "bf16"], ["--fast"]):
            self.assertEqual(self.call(*words), 2)
        with redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            gpu_check.parse([])

    def test_pack(self):
        data = self.folder / "data/tweet_eval/offensive"
        data.mkdir(parents=True)
        (data / "train_text.txt").write_text("a text\n" * 40)
        (self.folder / "data/bert").mkdir()
        (self.folder / "data/bert/vocab.txt").write_text("")
        self.rules("build/bin/mixtape", [["tokenize"], "\n".join("7 " * (3 + i % 5) for i in range(40))],
                   [["doctor"], json.dumps({"build": {"architecture": "native"}})])
        with mock.patch("gpu_check_places.ROOT", self.folder), redirect_stderr(io.StringIO()) as said:
            self.assertEqual(gpu_check.main(["pack", f"--build={self.folder / 'build'}", f"--carry={self.folder / 'carry'}",
                                             f"--data={self.folder / 'data'}"]), 0)
            places = gpu_check_places.Places(gpu_check.parse(["out", f"--carry={self.folder / 'carry'}"]))
        self.assertIn("x86-64-v3", said.getvalue())
        self.assertTrue(places.carried)
        self.assertEqual(places.missing(), [])
        self.assertEqual([len(file.read_text().split()) for file in places.lengths], [32, 32])
        self.assertEqual(places.folder, self.folder / "build/carry")
        (self.folder / "carry" / gpu_check_places.PACKED).write_bytes(b"damaged")
        with mock.patch("gpu_check_places.ROOT", self.folder), redirect_stderr(io.StringIO()) as said:
            self.assertEqual(gpu_check.main(["out", f"--carry={self.folder / 'carry'}"]), 5)
        self.assertIn("cannot be unpacked", said.getvalue())


class OnTheRunner(GpuCheck):
    """Parity by the real program and the real kernels; the device is the runner, and may damage what comes back."""
    places = None

    def setUp(self):
        if not self.places:
            self.skipTest("no build was named")
        super().setUp()
        build, module, runner = map(pathlib.Path, self.places)
        shutil.copy(module, self.folder / "build/lib" / gpu_check_places.MODULE)
        for name in ("mixtape", "mixtape_gpu_ops"):
            shutil.copy(build / "bin" / name, self.folder / "build/bin" / f"{name}.real")
            (self.folder / "build/bin" / name).write_text(f'#!/bin/sh\nexec env LD_PRELOAD="{runner}" "$0.real" "$@"\n')

    def test_parity_of_the_real_table(self):
        self.assertEqual(self.call("--only", "build,parity", "--rows", "gelu,softmax,tensors"), 0, self.out)
        self.assertIn("device: device-on-CPU runner", self.out)
        self.assertRegex(self.out, r"2 rows, [1-9]\d* cases, [1-9]\d* passed, 0 failed")
        with mock.patch.dict(os.environ, {"MIXTAPE_SIMT_DAMAGE": "1"}):
            self.fails("parity", "wrong: ", also=["--rows", "gelu,softmax"])
        self.assertEqual(self.call("--only", "parity", "--dry-run"), 0, self.out)
        with mock.patch.dict(os.environ, {"MIXTAPE_SIMT_NO_DEVICE": "1"}):
            self.fails("parity", "there is no device", also=["--rows", "gelu"])


for name in [name for name in dir(GpuCheck) if re.match("test_", name)]:  # they are made once, by the class above
    if name not in vars(OnTheRunner):
        setattr(OnTheRunner, name, None)

if __name__ == "__main__":
    if len(sys.argv) > 3:
        OnTheRunner.places, sys.argv[1:] = sys.argv[1:4], sys.argv[4:]
    unittest.main()
