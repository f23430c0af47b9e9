"""Runs the groups and counts. See tools/faults."""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

GROUPS = ["kills", "torn", "stops", "disk", "memory", "damage", "nonfinite", "grid", "sharing", "clocks"]


def main():
    parser = argparse.ArgumentParser(prog="tools/faults", description="Injects faults into training runs.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="one of: " + ", ".join(GROUPS))
    parser.add_argument("--full", action="store_true", help="the counts of the fault table; hours")
    parser.add_argument("--build", default=str(ROOT / "build" / "release"), help="the build directory")
    parser.add_argument("--program", help="another program than the build's")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn at random; 0: another each time")
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    build = pathlib.Path(options.build).resolve()
    program = pathlib.Path(options.program or build / "bin" / "mixtape")
    shim = build / "lib" / "libmixtape_fault_shim.so"
    for path in (program, shim):
        if not path.exists():
            parser.error(f"{path} is not there: build it first (tools/test)")
    from harness import Lab
    seed = options.seed or int(time.time())
    print(f"faults: seed {seed}{', full counts' if options.full else ''}", flush=True)
    memory = pathlib.Path("/dev/shm")  # thousands of fsyncs: a disk would only be slower, not truer
    with tempfile.TemporaryDirectory(prefix="mixtape-faults-", dir=memory if memory.is_dir() else None) as folder:
        lab = Lab(program, shim, folder, options.full, seed)
        for group in options.groups or GROUPS:
            __import__(group).run(lab)
    print(f"{lab.faults_passed} passed, {lab.faults_failed} failed")
    return lab.faults_failed != 0


if __name__ == "__main__":
    sys.exit(main())
