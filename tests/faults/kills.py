"""F1, F2, F4: kill -9, anywhere, at every step of a save, and again while recovering."""
import subprocess

from harness import CHANGING, checkpoints, stop


def kill_at_random(lab, config, run_dir, *arguments):
    """Kills a run somewhere in its life. Returns what is wrong, or ""."""
    before = checkpoints(run_dir)
    length = lab.reference(config)[1]
    process = lab.start(config, run_dir, *arguments)
    try:
        err = process.communicate(timeout=lab.random.uniform(0, length))[1]
        return "" if process.returncode == 0 else f"ended by itself, exit {process.returncode}: {err[-200:]}"
    except subprocess.TimeoutExpired:
        stop(process)
    after = checkpoints(run_dir)
    return f"checkpoints were {before}, now {after}" if before and (not after or after[-1] < before[-1]) else ""


def finish_without_loss(lab, config, run_dir):
    """Recovers; the run must go on after the newest checkpoint that has its final name."""
    newest = (checkpoints(run_dir) or [0])[-1]
    finished = (run_dir / "metrics.json").exists()
    done = lab.train(config, run_dir, "--recover")
    if done.code == 0 and not finished and done.resumed_at() != newest:
        return f"checkpoint {newest} was there, but it went on after {done.resumed_at()}"
    return lab.finish(config, run_dir) if done.code == 0 else f"--recover: {done}"


def run(lab):
    config = lab.config("kills")
    lab.reference(config)

    def anywhere(_):
        run_dir = lab.new_dir()
        return kill_at_random(lab, config, run_dir) or finish_without_loss(lab, config, run_dir)

    def again_and_again(_):
        run_dir = lab.new_dir()
        for _ in range(10):
            if wrong := kill_at_random(lab, config, run_dir, "--recover"):
                return wrong
        return finish_without_loss(lab, config, run_dir)

    def at_call(k, **where):
        run_dir = lab.new_dir()
        killed = lab.train(config, run_dir, AT=k, DO="kill", **{"OPS": CHANGING, **where})
        if killed.code != -9:
            return f"call {k}: was not killed: {killed}"
        wrong = finish_without_loss(lab, config, run_dir)
        return wrong and f"killed before call {k}: {wrong}"

    lab.check("F1", "kill -9 anywhere in a run", range(lab.number(100, 10)), anywhere)
    calls = lab.calls(config, OPS=CHANGING)[0]
    lab.check("F2", f"kill -9 before the k-th file system call (of {calls})", lab.sample(calls, 25), at_call)
    plain = {"OPS": "rename", "PLAIN_RENAME": 1}
    renames = lab.calls(config, **plain)[0]
    lab.check("F2", f"the same before the k-th rename (of {renames}), where names cannot be exchanged",
              lab.sample(renames, 5), lambda k: at_call(k, **plain))
    lab.check("F4", "ten kills within one run", range(lab.number(20, 2)), again_and_again)
