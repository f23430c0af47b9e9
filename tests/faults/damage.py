"""F13, F14: cut and flipped files, from outside. test_checkpoint.cpp does the full counts within one process."""
import shutil

from harness import checkpoints


def run(lab):
    config = lab.config("damage")
    source = lab.new_dir()
    lab.train(config, source, ROOT=f"{source}/log.jsonl", OPS="write", AT=20, DO="kill")
    newest = checkpoints(source)[-1]
    names = ["model.safetensors", "optimizer.safetensors", "state.json", "MANIFEST"]

    def alone(change):
        """The newest checkpoint is the only one, and damaged."""
        run_dir = lab.new_dir()
        shutil.copytree(source, run_dir)
        for step in checkpoints(run_dir)[:-1]:
            shutil.rmtree(run_dir / "checkpoints" / f"step-{step:08}")
        path = run_dir / "checkpoints" / f"step-{newest:08}" / change[0]
        path.write_bytes(change[1](path.read_bytes()))
        done = lab.train(config, run_dir, "--recover")
        wrong = "" if done.code == 4 and change[0] in done.err and "E-CHECKPOINT" in done.err else str(done)
        shutil.rmtree(run_dir)
        return wrong and f"{change[0]}, {change[2]}: {wrong}"

    def with_another(change):
        """An older one is left: the run warns, falls back to it, and ends with the same bits."""
        run_dir = lab.new_dir()
        shutil.copytree(source, run_dir)
        path = run_dir / "checkpoints" / f"step-{newest:08}" / change[0]
        path.write_bytes(change[1](path.read_bytes()))
        done = lab.train(config, run_dir, "--recover")
        wrong = "" if done.code == 0 and change[0] in done.err and "are lost" in done.err else str(done)
        wrong = wrong or (f"went on after {done.resumed_at()}" if done.resumed_at() != checkpoints(source)[-2] else "")
        shutil.rmtree(run_dir / "checkpoints" / f"step-{newest:08}.damaged", ignore_errors=True)
        wrong = wrong or lab.finish(config, run_dir)
        return wrong and f"{change[0]}, {change[2]}: {wrong}"

    def cut(name):
        size = (source / "checkpoints" / f"step-{newest:08}" / name).stat().st_size
        at = lab.random.randrange(size)
        return name, lambda data: data[:at], f"cut at {at}"

    def flip(name):
        size = (source / "checkpoints" / f"step-{newest:08}" / name).stat().st_size
        at, bit = lab.random.randrange(size), lab.random.randrange(8)
        return name, lambda data: data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1:], f"bit {bit} of byte {at}"

    few = lab.number(50, 3)
    lab.check("F13", "a cut file of the only checkpoint", [cut(name) for name in names for _ in range(few)], alone)
    lab.check("F14", "a flipped bit in the only checkpoint", [flip(name) for name in names for _ in range(few)], alone)
    lab.check("F14", "a damaged checkpoint with an older one beside it",
              [damage(name) for name in names for damage in (cut, flip)], with_another)
