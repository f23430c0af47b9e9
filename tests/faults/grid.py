"""F25: stop at every step of a run with accumulation, an uneven tail and three epochs, in every dtype."""


def run(lab):
    def stopped(case):
        config, k = case
        run_dir = lab.new_dir()
        done = lab.train(config, run_dir, ROOT=f"{run_dir}/log.jsonl", OPS="write", AT=k, DO="sig15")
        if done.code not in (0, 143):
            return f"{config.stem}, event {k}: {done}"
        wrong = lab.finish(config, run_dir)
        return wrong and f"{config.stem}, event {k}: {wrong}"

    cases, steps = [], 0
    for dtype in ("off", "bf16", "fp16"):
        config = lab.config(f"grid-{dtype}", amp__dtype=dtype, trainer__per_device_train_batch_size=2,
                            trainer__gradient_accumulation_steps=4, trainer__save_steps=0,
                            trainer__early_stopping_patience=9, amp__init_scale=2 ** 24, amp__growth_interval=7)
        steps = lab.reference(config)[0]["last step"]
        # An event is written for each step, so a stop at an event is a stop within the step after it.
        cases += [(config, k) for k in lab.sample(steps + 6, 5)]
    lab.check("F25", f"stopped within a step (of {steps}) and gone on with, in f32, bf16 and fp16", cases, stopped)
