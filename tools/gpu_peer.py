#!/usr/bin/env python3
"""The peer on a GPU: training steps of BERT in PyTorch, with its own mixed precision, eager or compiled.

  python tools/gpu_peer.py --cases bf16:32x128,fp16:32x384,f32:32xmix --lengths FILE [--compile] [--until SECONDS]
  python tools/gpu_peer.py --dry-run ...    reads its words and files, imports nothing, prints what it would do

A step is forward, scaled backward, unscale, clipping, fused AdamW and the scaler's update: what `mixtape bench step` times.
Steps follow each other without a wait of ours; events between them give each step's time on the device, the median of which
counts. `32xmix` takes the batches of a file of lengths, 32 a line, each padded to its longest; its figure is real tokens a
second over all batches. One line of JSON a case, as soon as it is known. With --until no case starts later than that many
seconds after the start; what was not begun is not printed.

exit 0 done  1 a case failed; others may have been printed  2 usage
"""

import argparse
import json
import os
import statistics
import sys
import time

DTYPES = ("bf16", "fp16", "f32")


def case_of(word):
    dtype, _, shape = word.partition(":")
    batch, _, seq = shape.partition("x")
    if dtype not in DTYPES or not batch.isdecimal() or not (seq.isdecimal() or seq == "mix"):
        raise argparse.ArgumentTypeError(f"expected bf16|fp16|f32:BATCHxLENGTH, or xmix, got '{word}'")
    return word, dtype, int(batch), seq if seq == "mix" else int(seq)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--cases", required=True, metavar="A,B", type=lambda text: [case_of(word) for word in text.split(",")])
    parser.add_argument("--lengths", metavar="FILE", help="for xmix: a length a line, in batches of like length")
    parser.add_argument("--compile", action="store_true", help="torch.compile, instead of eager")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--until", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--shape", default="12,768,12,3072", help="layers,hidden,heads,intermediate (%(default)s)")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args(words)
    if any(case[3] == "mix" for case in options.cases) and not options.lengths:
        parser.error("a case xmix needs --lengths FILE")
    options.shape = [int(number) for number in options.shape.split(",")]
    return options


def lengths_of(options, batch, seq):
    """The lengths of each batch, the warm-up's first."""
    if seq != "mix":
        return [[seq] * batch] * (options.warmup + options.steps)
    with open(options.lengths) as file:
        lengths = [int(word) for word in file.read().split()]
    groups = [lengths[i:i + batch] for i in range(0, len(lengths) - batch + 1, batch)]
    if not groups:
        raise SystemExit(f"{options.lengths}: less than one batch of {batch}")
    warm = [groups[i % len(groups)] for i in range(options.warmup)]
    return warm + [groups[i % len(groups)] for i in range(max(options.steps, len(groups)))]


class Training:
    """A model with random weights and everything that a step needs."""

    def __init__(self, options, dtype, dynamic):
        import torch
        from transformers import BertConfig, BertForSequenceClassification
        self.torch, self.options, self.dtype = torch, options, dtype
        layers, hidden, heads, inner = options.shape
        config = BertConfig(num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=inner, num_labels=1,
                            hidden_dropout_prob=options.dropout, attention_probs_dropout_prob=options.dropout)
        config._attn_implementation = "sdpa"
        torch.manual_seed(0)
        with torch.device(options.device):
            self.model = BertForSequenceClassification(config)
        self.model.to(options.device).train()
        self.net = torch.compile(self.model, dynamic=dynamic) if options.compile else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-5, weight_decay=0.01, fused=True)
        self.scaler = torch.amp.GradScaler(options.device, enabled=dtype == "fp16")
        self.words = config.vocab_size

    def batch(self, lengths, generator):
        """Random words on the device; positions behind a text's end are masked."""
        torch, width = self.torch, max(lengths)
        ids = torch.randint(1000, self.words, (len(lengths), width), generator=generator)
        mask = (torch.arange(width)[None] < torch.tensor(lengths)[:, None]).long()
        labels = torch.randint(0, 2, (len(lengths),), generator=generator).float()
        return [tensor.to(self.options.device) for tensor in (ids, mask, labels)]

    def step(self, ids, mask, labels):
        torch = self.torch
        low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.dtype)
        with torch.autocast(self.options.device, low or torch.bfloat16, enabled=low is not None):
            logits = self.net(input_ids=ids, attention_mask=mask).logits.squeeze(-1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), labels)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


class Clock:
    """Marks between steps: events on a GPU, which nobody waits for, else the host's time."""

    def __init__(self, torch, cuda):
        self.torch, self.cuda, self.marks = torch, cuda, []

    def mark(self):
        if self.cuda:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def seconds(self):
        pairs = zip(self.marks, self.marks[1:])
        if not self.cuda:
            return [b - a for a, b in pairs]
        self.torch.cuda.synchronize()
        return [a.elapsed_time(b) / 1e3 for a, b in pairs]


def measure(options, word, dtype, batch, seq):
    import torch
    started = time.perf_counter()
    torch._dynamo.reset()
    cuda = options.device.startswith("cuda")
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    training = Training(options, dtype, dynamic=True if seq == "mix" else False)
    generator = torch.Generator().manual_seed(1)
    all_lengths = lengths_of(options, batch, seq)
    batches = [training.batch(lengths, generator) for lengths in all_lengths]
    for made in batches[:options.warmup]:
        loss = training.step(*made)
    if cuda:
        torch.cuda.synchronize()
    clock = Clock(torch, cuda)
    clock.mark()
    for made in batches[options.warmup:]:
        loss = training.step(*made)
        clock.mark()
    seconds = clock.seconds()
    tokens = sum(map(sum, all_lengths[options.warmup:]))
    return {"case": word, "peer": f"torch {torch.__version__}{' compile' if options.compile else ''}", "median_s": statistics.median(seconds),
            "min_s": min(seconds), "tokens_per_s": tokens / sum(seconds), "steps": len(seconds), "loss": loss.item(),
            "peak_bytes": torch.cuda.max_memory_allocated() if cuda else None, "took_s": time.perf_counter() - started}


def main(words):
    options, started, failed = parse(words), time.monotonic(), 0
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    for word, dtype, batch, seq in options.cases:
        if time.monotonic() - started > options.until:
            break
        if options.dry_run:
            print(json.dumps({"case": word, "batches": len(lengths_of(options, batch, seq))}), flush=True)
            continue
        try:
            print(json.dumps(measure(options, word, dtype, batch, seq)), flush=True)
        except Exception as error:  # a case that fails must not hide the others
            failed += 1
            print(json.dumps({"case": word, "error": f"{type(error).__name__}: {error}"[:500]}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
