"""F6, F7: signals, everywhere and twice."""
import signal
import subprocess

from harness import checkpoints, stop

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGUSR1: 138}


def run(lab):
    config = lab.config("stops", trainer__per_device_train_batch_size=3, trainer__gradient_accumulation_steps=3)
    length = lab.reference(config)[1]
    kinds = list(CODES)

    def judge(done, number, limit):
        if done.code == 0:
            return ""  # it was over before the signal came
        if done.code != CODES[number]:
            return f"{number.name}: {done}"
        return f"{number.name}: took {done.seconds:.1f} s" if done.seconds > limit else ""

    def at_random(i):
        run_dir, number = lab.new_dir(), kinds[i % 3]
        process = lab.start(config, run_dir)
        try:
            process.communicate(timeout=lab.random.uniform(0.1, 1) * length)
            return ""
        except subprocess.TimeoutExpired:
            done = stop(process, number)
        if done.code == -number and not run_dir.exists():
            return ""  # before the program was ready to hear
        return judge(done, number, 5) or lab.finish(config, run_dir)

    def at_call(case):
        where, ops, k, number = case
        run_dir = lab.new_dir()
        root = lab.folder / "data" if where == "data" else f"{run_dir}{where}"
        done = lab.train(config, run_dir, ROOT=root, OPS=ops, AT=k, DO=f"sig{int(number)}")
        wrong = judge(done, number, 60)
        if not wrong and done.code == 0 and where != "data":
            wrong = "" if done.err.count("trained") else f"was not heard: {done}"
        wrong = wrong or lab.finish(config, run_dir)
        return wrong and f"{where} call {k}: {wrong}"

    def at_exit(number):
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, EXIT=int(number))
        return f"{number.name}: {done}" if done.code != 0 else lab.finish(config, run_dir)

    def twice(k):
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, ROOT=f"{run_dir}/checkpoints", AT=k, DO="sig2x2")
        if done.code != 130:
            return f"call {k}: {done}"
        before = checkpoints(run_dir)
        wrong = lab.finish(config, run_dir)
        return wrong and f"call {k}, checkpoints {before}: {wrong}"

    def hang_up(k):
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, ROOT=f"{run_dir}/log.jsonl", OPS="write", AT=k, DO="sig1")
        return f"SIGHUP at call {k}: {done}" if done.code != 0 else lab.finish(config, run_dir)

    lab.check("F6", "a signal at a random time", range(lab.number(100, 9)), at_random)
    places = [("/log.jsonl", "write"), ("/checkpoints", "write,fsync,rename"), ("data", "read")]
    cases = []
    for where, ops in places:
        calls = lab.calls(config, OPS=ops, below=where)[0] if where != "data" else 12
        cases += [(where, ops, k, kinds[k % 3]) for k in lab.sample(min(calls, 60), 4)]
    lab.check("F6", "a signal in training, in a save and while reading the data", cases, at_call)
    lab.check("F6", "a signal when the run is finished and the program ends", kinds, at_exit)
    calls = lab.calls(config, below="/checkpoints")[0]
    lab.check("F7", "a second signal during a save", [lab.random.randint(1, calls) for _ in range(lab.number(50, 5))], twice)
    lab.check("F6", "SIGHUP saves and goes on", lab.sample(20, 3), hang_up)
