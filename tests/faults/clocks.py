"""F30: clocks that jump, and a log of a very long run."""
import re

from harness import checkpoints


def run(lab):
    config = lab.config("kills")
    lab.reference(config)

    def jump(case):
        look, seconds = case
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, CLOCK=f"{look}:{seconds}")
        times = re.findall(r"ETA (\S+)", done.err)
        if done.code != 0 or not times or any(not re.fullmatch(r"[\d:]+|--:--|\d+d", text) for text in times):
            return f"{seconds} s at look {look}: {done}"
        return lab.finish(config, run_dir)

    def long_log(_):
        run_dir = lab.new_dir()
        lab.train(config, run_dir, ROOT=f"{run_dir}/log.jsonl", OPS="write", AT=20, DO="kill")
        log = run_dir / "log.jsonl"
        line = '{"event":"step","step":1,"updates":1,"loss":0.5,"seconds":0.01}\n'
        log.write_text(line * 1_000_000 + log.read_text())
        newest = checkpoints(run_dir)[-1]
        done = lab.train(config, run_dir, "--recover")
        if done.code != 0 or done.resumed_at() != newest or done.seconds > 60:
            return f"{done.seconds:.1f} s: {done}"
        return "" if log.read_text().count("\n") > 1_000_000 else "the log was cut"

    cases = [(look, seconds) for look in (5, 60) for seconds in (1e9, -1e6, 86400 * 400)]
    lab.check("F30", "a clock that jumps", [(look, int(seconds)) for look, seconds in cases], jump)
    lab.check("F30", "a log of a million lines", [0], long_log)
