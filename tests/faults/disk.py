"""F8, F9, F10: a full disk, a bad disk, and directories that cannot be written."""
import os
import pathlib
import resource
import shutil
import subprocess

from harness import CHANGING, Result, checkpoints

# What can meet a full disk, and of that what takes room: once it is full, only these fail.
FILLING = "open,write,mkdir,fsync,rename"
TAKING = "open,write,mkdir"


def full_disk(lab):
    config = lab.config("disk")

    def once(k):
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, OPS=FILLING, AT=k, DO="enospc", SLEEP=0)
        if done.code not in (0, 5) or done.err.count("E-IO-NOSPACE") > 2:
            return f"call {k}: {done}"
        if done.code == 5 and checkpoints(run_dir):
            return f"call {k}: gave up although only one call failed: {done}"
        shutil.rmtree(run_dir, ignore_errors=done.code == 5 and not checkpoints(run_dir)) if done.code == 5 else None
        wrong = lab.finish(config, run_dir)
        return wrong and f"call {k}: {wrong}"

    def for_good(k):
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, OPS=TAKING, AT=k, DO="enospc_on", SLEEP=0)
        if done.code != 5 or done.err.count("warning E-IO-NOSPACE") > 1 or "error E-IO-NOSPACE" not in done.err:
            return f"full from call {k} on: {done}"
        if run_dir.exists() and list(run_dir.glob("checkpoints/*.tmp.*")):
            return f"full from call {k} on: temporary files stay"
        if not run_dir.exists():
            return ""
        wrong = lab.finish(config, run_dir)
        return wrong and f"full from call {k} on: {wrong}"

    def limited(size):
        run_dir = lab.new_dir()
        done = subprocess.run([lab.program, "train", str(config), "-s", str(run_dir)], capture_output=True, text=True,
                              env=dict(os.environ, LD_PRELOAD=lab.shim, FAULT_SLEEP="0"),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        if done.returncode != 5 or "E-IO-NOSPACE" not in done.stderr:
            return f"files limited to {size} bytes: {Result(done.returncode, done.stderr, 0)}"
        wrong = lab.finish(config, run_dir)
        return wrong and f"files limited to {size} bytes: {wrong}"

    calls = lab.calls(config, OPS=FILLING)[0]
    lab.check("F8", f"a full disk at the k-th call (of {calls}), once", lab.sample(calls, 15), once)
    calls = lab.calls(config, OPS=TAKING)[0]
    lab.check("F8", f"a full disk from the k-th call (of {calls}) on", lab.sample(calls, 15), for_good)
    lab.check("F8", "a limit of file sizes (SIGXFSZ)", [3000, 10_000, 30_000], limited)


def bad_disk(lab):
    config = lab.config("disk")

    def tolerated(case):
        action, ops, k = case
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, OPS=ops, AT=k, DO=action)
        wrong = "" if done.code == 0 else str(done)
        wrong = wrong or lab.finish(config, run_dir)
        return wrong and f"{action} at call {k} of {ops}: {wrong}"

    def clean_error(case):
        action, ops, below, k = case
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, ROOT=f"{run_dir}{below}", OPS=ops, AT=k, DO=action)
        allowed = (5,) if ops == "fsync" or action == "lie" else (0, 5)
        if done.code not in allowed or (done.code == 5 and "error E-IO" not in done.err):
            return f"{action} at call {k} of {ops}: {done}"
        wrong = lab.finish_or_start(config, run_dir)
        return wrong and f"{action} at call {k} of {ops}: {wrong}"

    def unreadable(k):
        run_dir = lab.new_dir()
        lab.train(config, run_dir, ROOT=f"{run_dir}/log.jsonl", OPS="write", AT=20, DO="kill")
        done = lab.train(config, run_dir, "--recover", OPS="read", AT=k, DO="eio")
        if done.code not in (0, 4, 5):
            return f"EIO at read {k}: {done}"
        wrong = "" if (run_dir / "checkpoints").is_dir() else "no checkpoints are left"
        return wrong and f"EIO at read {k}: {wrong}"

    cases = [(action, ops, k) for action, ops in (("short", "write"), ("eintr", "write,open,fsync"))
             for k in lab.sample(lab.calls(config, OPS=ops)[0], 6)]
    lab.check("F9", "short writes and EINTR are made good", cases, tolerated)
    cases = [("eio", ops, "", k) for ops, few in (("fsync", 8), ("write", 5), ("open,close,rename,mkdir,unlink", 8))
             for k in lab.sample(lab.calls(config, OPS=ops)[0], few)]
    cases += [("lie", "write", "/checkpoints", k)
              for k in lab.sample(lab.calls(config, OPS="write", below="/checkpoints")[0], 5)]
    lab.check("F9", "EIO and writes that lie are a clean error", cases, clean_error)
    lab.check("F9", "EIO while a checkpoint is read", lab.sample(40, 4), unreadable)


def closed_directories(lab):
    """As an unprivileged user, because root ignores modes."""
    config = lab.config("disk")
    home = lab.folder / "closed"
    home.mkdir()
    os.chmod(lab.folder, 0o755)

    def make(name, mode, owner=65534, file=False):
        path = home / name
        path.write_text("x") if file else path.mkdir()
        os.chmod(path, mode)
        if os.geteuid() == 0:
            os.chown(path, owner, owner)
        return path

    read_only, other = make("read-only", 0o555), make("other", 0o755, owner=0)
    hidden, plain = make("hidden", 0o000), make("file", 0o644, file=True)
    mine = make("mine", 0o755)
    (mine / "full").mkdir()
    (mine / "full" / "x").write_text("x")
    os.chmod(mine / "full", 0o755)
    cases = [(read_only, []), (read_only / "new", []), (read_only / "a/b/c", []), (other, []), (other / "new", []),
             (other / "new", ["--recover"]), (hidden, []), (hidden / "new", []), (plain, []), (plain / "new", []),
             (plain, ["--recover"]), (mine / "full", [])]
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    program = pathlib.Path(shutil.copy(lab.program, home / "mixtape"))

    def refused(case):
        path, arguments = case
        before = sorted(str(item) for item in home.rglob("*"))
        done = subprocess.run([*drop, str(program), "train", str(config), "-s", str(path), *arguments],
                              capture_output=True, text=True)
        wrong = "" if done.returncode == 5 and str(path) in done.stderr else f"exit {done.returncode}: {done.stderr[-300:]}"
        if not wrong and sorted(str(item) for item in home.rglob("*")) != before:
            wrong = "something half-made is left"
        return wrong and f"{path.relative_to(home)} {arguments}: {wrong}"

    lab.check("F10", "directories that cannot be written", cases, refused)


def run(lab):
    full_disk(lab)
    bad_disk(lab)
    closed_directories(lab)
