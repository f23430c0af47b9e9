"""F29: two processes on one directory."""
import signal
import socket
import time

from harness import stop


def run(lab):
    config = lab.config("sharing", trainer__num_train_epochs=2000, trainer__save_steps=100000,
                        trainer__eval_strategy="no")
    short = lab.config("kills")

    def second(arguments):
        run_dir = lab.new_dir()
        first = lab.start(config, run_dir, "-q")
        deadline = time.monotonic() + 60
        while not (run_dir / "log.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        done = lab.train(config, run_dir, *arguments)
        alive = first.poll() is None
        ended = stop(first, signal.SIGKILL)
        words = [f"process {first.pid}", socket.gethostname(), str(run_dir)]
        if done.code != 5 or any(word not in done.err for word in words):
            return f"{arguments}: {done}"
        return "" if alive else f"{arguments}: the first one ended: {ended}"

    def race(_):
        run_dir = lab.new_dir()
        both = [lab.start(short, run_dir, "--recover") for _ in range(2)]
        errors = [process.communicate(timeout=120)[1] for process in both]
        codes = sorted(process.returncode for process in both)
        if codes != [0, 5] and codes != [0, 0]:  # one may begin when the other is through
            return f"both at once: {codes} {errors}"
        return lab.finish(short, run_dir)

    lab.check("F29", "a second process is refused", [[], ["--recover"], ["--force"], ["--recover-with-changes"]]
              * lab.number(4, 1), second)
    lab.check("F29", "two that start at once", range(lab.number(4, 2)), race)
