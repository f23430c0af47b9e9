"""F11: allocations that fail, and runs that are too large for the machine."""


def run(lab):
    config = lab.config("memory", trainer__max_steps=5, trainer__save_steps=2)
    _, allocations = lab.calls(config)

    def fails(case):
        kind, n = case
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, **{kind: n})
        if done.code not in (0, 12):
            return f"{kind} {n}: {done}"
        wrong = lab.finish_or_start(config, run_dir)
        return wrong and f"{kind} {n}: {wrong}"

    def too_large(changes):
        run_dir = lab.new_dir()
        done = lab.train(lab.config(f"large-{len(changes)}-{sum(changes.values())}", **changes), run_dir)
        wrong = done.code != 12 or "E-MEMORY" not in done.err or run_dir.exists()
        return f"{changes}: {done}" if wrong else ""

    numbers = list(range(1, min(allocations, 2000) + 1)) if lab.full else lab.sample(min(allocations, 2000), 12)
    numbers += [lab.random.randint(2000, allocations) for _ in range(lab.number(500, 12)) if allocations > 2000]
    cases = [("NEW", n) for n in numbers] + [("NEW_ON", n) for n in numbers[:: 4]]
    lab.check("F11", f"the n-th allocation fails (of {allocations})", cases, fails)
    huge = {"model__config__hidden_size": 65536, "model__config__num_hidden_layers": 1024,
            "model__config__intermediate_size": 65536}
    lab.check("F11", "a run that cannot fit is refused before it starts",
              [huge, {"trainer__per_device_train_batch_size": 65536, "model__config__num_hidden_layers": 1024,
                      "model__config__hidden_size": 4096, "model__config__intermediate_size": 16384}], too_large)
