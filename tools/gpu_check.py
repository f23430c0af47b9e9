#!/usr/bin/env python3
"""What only a GPU can show, in one go and under 9 minutes, without a network.

  tools/gpu_check.sh OUT                 all parts; tables and logs, 8 files at most, go to the folder OUT
  tools/gpu_check.sh --only a,b OUT      these parts alone
  tools/gpu_check.sh --dry-run [OUT]     all of it but what needs a device: every program, library and word is looked at
  tools/gpu_check.sh pack                puts what a bare machine lacks into carry/, which travels with the tree

Parts, in their order:
  build      the programs are there, their libraries too, and the module has code for this device; else they are built here
  gelu       which GELU cublasLt's epilogue is, against erf and tanh in f64
  parity     the op table, device against CPU: values and gradients, three dtypes, three layouts
  kernels    the tests of single kernels and of products by cublasLt
  speed      BERT-base training steps beside PyTorch's, eager and compiled
  sanitizer  compute-sanitizer's memcheck and racecheck on a few rows

exit 0 all is well  1 a part failed, or could not be made  2 usage  5 a file cannot be read or written  130 interrupted
"""

import argparse
import contextlib
import os
import shutil
import sys
import time

import gpu_check_parts as parts
import gpu_check_speed as speed
from bench_programs import FAILED, ROOT, Failure, end_with, path, run, say, write_json
from gpu_check_places import PROGRAMS, Places, pack

PARTS = {"build": parts.check_build, "gelu": parts.check_gelu, "parity": parts.check_parity, "kernels": parts.check_kernels,
         "speed": speed.check_speed, "sanitizer": parts.check_sanitizer}
# All that OUT gets.
FILES = ["report.txt", "results.json", "build.log", "gelu.log", "parity.log", "kernels.log", "sanitizer.log", "speed.log"]


def parse(words):
    parser = argparse.ArgumentParser(prog="tools/gpu_check.sh", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", nargs="?", type=path, metavar="OUT|pack", help="folder for tables and logs")
    parser.add_argument("--only", metavar="PARTS", help="separated by commas: " + ", ".join(PARTS))
    parser.add_argument("--dry-run", action="store_true", help="stop before what needs a device")
    parser.add_argument("--build", type=path, metavar="DIR", default=ROOT / "build/release", help="build folder, where nothing is carried (%(default)s)")
    parser.add_argument("--carry", type=path, metavar="DIR", default=ROOT / "carry", help="what was packed (%(default)s)")
    parser.add_argument("--python", type=path, metavar="FILE", help="a Python with torch and transformers, instead of the first that is found")
    parser.add_argument("--data", type=path, metavar="DIR", default=ROOT.parent / "shared/data", help="pack: where tweet_eval is (%(default)s)")
    parser.add_argument("--rows", metavar="A,B", help="parity and sanitizer: these rows alone")
    parser.add_argument("--cases", metavar="A,B", help="speed: these alone, of " + ", ".join(speed.CASES))
    parser.add_argument("--limit", type=float, default=120, metavar="SECONDS", help="of one program of parity and sanitizer (%(default)s)")
    parser.add_argument("--minutes", type=float, default=8.5, help="for all of it; a program that runs on is ended (%(default)s)")
    options = parser.parse_args(words)
    options.pack = options.out is not None and options.out.name == "pack" and not options.out.exists()
    if not options.out and not options.dry_run:
        parser.error("name a folder for tables and logs")
    options.parts = options.only.split(",") if options.only else list(PARTS)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part is called {', '.join(sorted(unknown))}: there are {', '.join(PARTS)}")
    if unknown := set((options.cases or speed.CASES[0]).split(",")) - set(speed.CASES):
        parser.error(f"no case is called {', '.join(sorted(unknown))}")
    return options


def device_architecture():
    """What MIXTAPE_CUDA_ARCHITECTURES must be for the first device: 90a; empty where nobody says."""
    try:
        said = run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    except Failure:
        return ""
    digits = said.split()[0].replace(".", "") if said.split() else ""
    return digits + "a" if digits == "90" else digits


def build_here(session, places):
    """Where nothing is carried and nothing built: builds for this machine's device."""
    if places.carried or all(map(os.path.isfile, [*map(places.program, PROGRAMS), places.module])):
        return
    if not shutil.which("cmake"):
        return
    say(f"building in {session.options.build}")
    jobs = str(os.cpu_count() or 2)
    configure = ["cmake", "-S", ROOT, "-B", session.options.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O3",
                 "-DMIXTAPE_CUDA=ON"]
    if architecture := device_architecture():
        configure.append(f"-DMIXTAPE_CUDA_ARCHITECTURES={architecture}")
    for words in (configure, ["cmake", "--build", session.options.build, "-j", jobs, "--target", "mixtape_gpu_tests"]):
        status, said = session.call(words, "build.log", session.left())
        if status != 0:
            raise Failure(FAILED, f"{' '.join(map(str, words))} ended with {status}: {parts.last_lines(said)}")


def run_parts(session, options):
    """A Result for each part. Without programs nothing else can be run."""
    results = []
    for name in options.parts:
        start = time.monotonic()
        try:
            result = PARTS[name](session, options.dry_run)
        except Failure as failure:
            result = parts.Result(name).fail(str(failure))
        result.figures["took_s"] = round(time.monotonic() - start, 1)
        results.append(result)
        say(f"{name}: {'ok' if result.well else 'FAILED'} ({result.figures['took_s']} s)")
        if name == "build" and not result.well:
            break
        if session.left() == 0:
            say("time is over")
    for name in options.parts[len(results):]:
        results.append(parts.Result(name).fail("not run"))
    return results


def report(results, options):
    lines = []
    for result in results:
        word = "FAILED" if not result.well else "dry" if options.dry_run else "ok"
        for i, text in enumerate(result.lines or [""]):
            lines.append(f"{result.name if i == 0 else '':<10} {word if i == 0 else '':<7} {text}".rstrip())
        if result.name == "speed" and "took_s" in result.figures:
            figures = {case: by for case, by in result.figures.items() if isinstance(by, dict)}
            lines += ["           " + line for line in speed.table(figures)]
    bad = [result.name for result in results if not result.well]
    lines.append(f"gpu_check{' --dry-run' if options.dry_run else ''}: " + (f"FAILED: {', '.join(bad)}" if bad else "all parts are well"))
    return lines


def check(options):
    if options.pack:
        return pack(options)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            with contextlib.suppress(FileNotFoundError):
                (options.out / name).unlink()
    places = Places(options)
    session = parts.Session(options, places)
    if "build" in options.parts and not options.dry_run:
        build_here(session, places)
    results = run_parts(session, options)
    lines = report(results, options)
    if options.out:
        (options.out / "report.txt").write_text("\n".join(lines) + "\n")
        write_json(options.out / "results.json", {result.name: {"well": result.well, "lines": result.lines} | result.figures for result in results})
    print("\n".join(lines))
    return 0 if all(result.well for result in results) else FAILED


def main(words):
    return end_with(check, parse(words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
