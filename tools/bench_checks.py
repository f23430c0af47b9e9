#!/usr/bin/env python3
"""What must hold for `mixtape bench step` at every shape: tools/bench_checks [--rows A,B] [--quick]

Bits: each row runs twice and must end in the same losses and weights, bit for bit. Memory: from the third step on no block
comes from the system. Growth: twice as many tokens take twice the time, within 10 %. Shorter and longer batches take turns, and
the fastest step of each counts, since whatever disturbs a machine only ever adds time; attention is quadratic in the length, so
its share of both steps stands beside the ratio.

exit 0 all held  1 a check or a program failed  2 usage  5 disk  12 a program was killed, most likely for memory  130 interrupted
"""

import statistics
import sys

from bench_programs import BASE, FAILED, TINY, USAGE, Failure, bench_words, check_program, count, cpu, end_with, environment, \
    parser_of, run_json, write_json

SHAPES = [(16, 32), (16, 64), (16, 128), (8, 512)]
GROWTH = [((16, 32), (16, 64)), ((16, 64), (16, 128)), ((16, 128), (16, 256)), ((8, 256), (8, 512))]
QUICK = {"shapes": [(2, 8), (2, 16)], "growth": [((2, 8), (2, 16))]}  # of the tiny model: that the script works, in seconds
TOLERANCE = 0.10


def rows_of(quick):
    """name -> (kind, amp, shapes)"""
    shapes, growth = (QUICK["shapes"], QUICK["growth"]) if quick else (SHAPES, GROWTH)
    rows = {}
    for amp in ("f32", "bf16"):
        for batch, seq in shapes:
            rows[f"bits-{amp}-{batch}x{seq}"] = ("bits", amp, [(batch, seq)])
        for (batch, seq), (more, longer) in growth:
            rows[f"growth-{amp}-{batch}x{seq}-{more}x{longer}"] = ("growth", amp, [(batch, seq), (more, longer)])
    return rows


def select(rows, words):
    kept = {}
    for word in words:
        found = {name: row for name, row in rows.items() if name == word or name.startswith(word + "-")}
        if not found:
            raise Failure(USAGE, f"no row is called '{word}'; --list shows their names")
        kept |= found
    return kept


class Checks:
    def __init__(self, options):
        self.options = options
        self.env = environment(options.threads, {})
        self.shape = TINY if options.quick else BASE

    def step(self, amp, batch, seq):
        dtype = "off" if amp == "f32" else amp
        words = bench_words(dtype, batch, seq, self.options.threads, self.options.steps, 2, self.shape, more=["--no-floor"])
        return run_json([self.options.program, *words], self.env, "min_s", "weights_xxh3", "losses_xxh3", "allocations_from_step_3", "classes")

    def bits(self, amp, shapes):
        runs = [self.step(amp, *shapes[0]) for _ in range(2)]
        equal = all(runs[0][key] == runs[1][key] for key in ("weights_xxh3", "losses_xxh3"))
        allocations = [run["allocations_from_step_3"] for run in runs]
        text = f"{'equal' if equal else 'other'} bits, {max(allocations)} blocks from the third step on"
        return {"held": equal and max(allocations) == 0, "text": text, "runs": runs}

    def growth(self, amp, shapes):
        short, long = [], []
        for _ in range(self.options.runs):
            short.append(self.step(amp, *shapes[0]))
            long.append(self.step(amp, *shapes[1]))
        # The fastest step of each: whatever disturbs a machine only ever adds time.
        ratio = min(run["min_s"] for run in long) / min(run["min_s"] for run in short)
        share = [100 * statistics.median(attention_share(run) for run in runs) for runs in (short, long)]
        text = f"{ratio:.3f} x the time, attention {share[0]:.1f} % and {share[1]:.1f} %"
        held = self.options.quick or abs(ratio / 2 - 1) <= TOLERANCE  # a tiny step is mostly not proportional work
        return {"held": held, "text": text + (" (not judged)" if self.options.quick else ""), "ratio": ratio,
                "attention_percent": share, "runs": [short, long]}


def attention_share(run):
    return sum(row["share"] for row in run["classes"] if row["class"] in ("attention", "masked_softmax"))


def parse(words):
    parser = parser_of("tools/bench_checks", __doc__)
    parser.add_argument("--rows", metavar="A,B", help="names, or their first parts (bits, growth-f32), instead of all")
    parser.add_argument("--list", action="store_true", help="only list the rows (those of --rows, else all)")
    parser.add_argument("--quick", action="store_true", help="a tiny model at tiny shapes, in seconds; growth is not judged")
    parser.add_argument("--steps", type=count, metavar="N", help="measured steps a run (5)", default=5)
    parser.add_argument("--runs", type=count, metavar="N", help="of each longer shape of growth (3; 1 with --quick)")
    options = parser.parse_args(words)
    options.runs = options.runs or (1 if options.quick else 3)
    return options


def check(options):
    rows = rows_of(options.quick)
    wanted = select(rows, options.rows.split(",")) if options.rows is not None else rows
    if options.list:
        print("\n".join(wanted))
        return 0
    check_program(options)
    name, has_bf16 = cpu()
    checks, results = Checks(options), []
    for row, (kind, amp, shapes) in wanted.items():
        result = {"name": row, "kind": kind, **getattr(checks, kind)(amp, shapes)}
        results.append(result)
        print(f"{row:<28} {'ok' if result['held'] else 'FAILED':<7} {result['text']}", flush=True)
    missed = [result["name"] for result in results if not result["held"]]
    print(f"{len(results) - len(missed)} held, {len(missed)} failed")
    if options.json:
        write_json(options.json, {"cpu": name, "bf16": has_bf16, "threads": options.threads, "tolerance": TOLERANCE, "quick": options.quick,
                                  "rows": results})
    return FAILED if missed else 0


def main(words):
    return end_with(check, parse(words))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
