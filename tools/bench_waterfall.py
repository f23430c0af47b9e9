#!/usr/bin/env python3
"""What each lever saves in a training step: tools/bench_waterfall [--amp bf16] [--batch N] [--seq N] [--lengths FILE]

From everything composed, one fused row more at a time, in the order of --levers; then, with --lengths, packed batches. All
stages take turns, round after round. Printed are the median step of the fastest round, since whatever disturbs a machine only
ever adds time, bytes saved for backward, and resident memory. That the last layer looks at first tokens only has no switch and
is on in every stage.

exit 0 done  1 a program failed  2 usage  5 disk  12 a program was killed, most likely for memory  130 interrupted
"""

import statistics
import sys

from bench_programs import BASE, MINILM, TINY, USAGE, Failure, bench_words, check_program, count, cpu, end_with, environment, \
    parser_of, path, run_json, say, write_json

MODELS = {"base": BASE, "minilm": MINILM, "tiny": TINY}
KEYS = {"median_s": min, "tokens_per_s": max, "saved_bytes": statistics.median, "peak_rss_bytes": statistics.median}


class Waterfall:
    def __init__(self, options):
        self.options = options
        self.env = environment(options.threads, {})

    def step(self, composed, packed=False):
        o, more = self.options, ["--no-floor"]
        if composed:
            more += ["--composed", ",".join(composed)]
        if o.lengths:
            more += ["--lengths", str(o.lengths), "--set", f"data.padding={'packed' if packed else 'longest'}"]
        words = bench_words(o.amp, o.batch, o.seq, o.threads, o.steps, o.warmup, MODELS[o.model], more=more)
        return run_json([o.program, *words], self.env, *KEYS, "fused_rows", "composed")

    def stages(self):
        """[(lever, rows that stay composed, whether batches are packed)]; one run says which rows this step has."""
        rows = self.step([])["fused_rows"]
        order = self.options.levers.split(",") if self.options.levers else rows
        if unknown := [row for row in order if row not in rows]:
            raise Failure(USAGE, f"this step has no fused row called '{unknown[0]}', it has: {', '.join(rows)}")
        if len(set(order)) < len(order):
            raise Failure(USAGE, "--levers names a row twice")
        stages = [("everything composed" if set(order) == set(rows) else "these composed", order, False)]
        stages += [(f"+ {row}", order[i + 1:], False) for i, row in enumerate(order)]
        return stages + ([("+ packed batches", [], True)] if self.options.lengths else [])

    def run(self):
        stages = self.stages()
        runs = [[] for _ in stages]
        for turn in range(self.options.runs):
            for found, (lever, composed, packed) in zip(runs, stages):
                found.append(self.step(composed, packed))
            say(f"round {turn + 1} of {self.options.runs}")
        return [{"lever": lever, "composed": composed, "packed": packed, "runs": found,
                 **{key: of(run[key] for run in found) for key, of in KEYS.items()}}
                for found, (lever, composed, packed) in zip(runs, stages)]


def table(stages):
    line = "{:<28} {:>9} {:>9} {:>10} {:>10} {:>10}".format
    lines = [line("lever", "seconds", "saves", "tokens/s", "saved, MB", "RSS, MB")]
    before = None
    for s in stages:
        gain = "" if before is None else f"{before - s['median_s']:+.4f}"
        before = s["median_s"]
        lines.append(line(s["lever"], f"{s['median_s']:.4f}", gain, f"{s['tokens_per_s']:.0f}", f"{s['saved_bytes'] / 1e6:.1f}",
                          f"{s['peak_rss_bytes'] / 1e6:.1f}"))
    return "\n".join(lines)


def parse(words):
    parser = parser_of("tools/bench_waterfall", __doc__)
    parser.add_argument("--amp", choices=["off", "bf16", "fp16"], default="off", help="(%(default)s)")
    parser.add_argument("--batch", type=count, metavar="N", default=16, help="(%(default)s)")
    parser.add_argument("--seq", type=count, metavar="N", default=64, help="(%(default)s)")
    parser.add_argument("--model", choices=MODELS, default="base", help="(%(default)s)")
    parser.add_argument("--levers", metavar="A,B", help="fused rows in the order in which they join (all that the step has); others stay fused")
    parser.add_argument("--lengths", type=path, metavar="FILE", help="lengths of texts, one a line: measures packing too")
    parser.add_argument("--steps", type=count, metavar="N", default=5, help="measured steps a run (%(default)s)")
    parser.add_argument("--warmup", type=count, metavar="N", default=2, help="before them (%(default)s)")
    parser.add_argument("--runs", type=count, metavar="N", default=3, help="rounds (%(default)s)")
    return parser.parse_args(words)


def measure(options):
    check_program(options)
    if options.lengths and not options.lengths.is_file():
        raise Failure(USAGE, f"--lengths {options.lengths}: no such file")
    stages = Waterfall(options).run()
    print(table(stages))
    if options.json:
        name, has_bf16 = cpu()
        write_json(options.json, {"cpu": name, "bf16": has_bf16, "threads": options.threads, "amp": options.amp, "batch": options.batch,
                                  "seq": options.seq, "model": options.model, "stages": stages})
    return 0


def main(words):
    return end_with(measure, parse(words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
