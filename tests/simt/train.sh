#!/usr/bin/env bash
# The program on a device, which is the device-on-CPU runner: trains, goes on there and on the CPU, evaluates, predicts.
# The runner's module stands where libmixtape_cuda.so would. Usage: train.sh PROGRAM MODULE RUNNER
set -euo pipefail
program=$(realpath "$1") module=$(realpath "$2") runner=$(realpath "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/lib" "$folder/data"
cp "$program" "$folder/bin/mixtape"
cp "$module" "$folder/lib/libmixtape_cuda.so"
cd "$folder"

printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' you are kind rude very today '!' >vocab.txt
printf '0\tplain\n1\trude\n' >data/mapping.txt
for split in train val test; do
  for i in 0 1 2 3 4 5 6 7; do
    if ((i % 3)); then echo "you are very kind today !"; else echo "you are rude"; fi
  done >"data/${split}_text.txt"
  for i in 0 1 2 3 4 5 6 7; do if ((i % 3)); then echo 0; else echo 1; fi; done >"data/${split}_labels.txt"
done
cat >config.json <<'JSON'
{"task": {"data_dir": "data"}, "tokenizer": {"vocab": "vocab.txt", "max_length": 8},
 "model": {"config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
                      "max_position_embeddings": 8}},
 "optimizer": {"learning_rate": 0.003},
 "trainer": {"max_steps": 6, "per_device_train_batch_size": 4, "logging_steps": 3, "eval_strategy": "steps",
             "eval_steps": 3, "save_steps": 3},
 "amp": {"dtype": "fp16"}, "device": "cuda", "threads": 1}
JSON

die() {
  printf '%s\n' "train.sh: $*" >&2
  exit 1
}
there() { LD_PRELOAD=$runner "$folder/bin/mixtape" "$@"; }
here() { "$program" "$@"; }

# final_loss RUN: of the last step event.
final_loss() { grep '"event":"step"' "$1/log.jsonl" | tail -1 | sed 's/.*"loss":\([0-9.e+-]*\).*/\1/'; }
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d < 0.01 && d > -0.01) }'; }

there train config.json -q -s on_device
here train config.json -q -s on_cpu --set device=cpu
near "$(final_loss on_device)" "$(final_loss on_cpu)" ||
  die "the last loss is $(final_loss on_device) on the device, $(final_loss on_cpu) on the CPU"
[[ $(grep -c '"event":"step"' on_device/log.jsonl) == 2 ]] || die "expected two step events, at steps 3 and 6"

there train config.json -q -s again
cmp on_device/best/model.safetensors again/best/model.safetensors || die "the same run twice left other weights"

# Where a step is tried again the host waits for what became of it.
retry=(--set amp.retry_overflow=true --set amp.init_scale=16777216)
there train config.json -q -s retried "${retry[@]}"
here train config.json -q -s retried_here "${retry[@]}" --set device=cpu
tries=$(grep -c '"retried":true' retried/log.jsonl) || die "no step was tried again"
[[ $tries == $(grep -c '"retried":true' retried_here/log.jsonl) ]] || die "other steps were tried again than on the CPU"
near "$(final_loss retried)" "$(final_loss retried_here)" || die "with retries the device ends at another loss"

# Stopped after step 3, a run goes on where it is let.
cp -r on_device half
rm -r half/checkpoints/step-00000006 half/metrics.json
cp -r half half_on_cpu
there train config.json -q -s half --recover
cmp on_device/best/model.safetensors half/best/model.safetensors || die "a run that went on left other weights"
here train config.json -q -s half_on_cpu --recover-with-changes --set device=cpu
near "$(final_loss half_on_cpu)" "$(final_loss on_device)" || die "a run that went on with the CPU has another loss"

there evaluate on_device --split test >evaluated.txt || die "evaluate failed"
echo "you are rude" | there predict on_device --format label >predicted.txt || die "predict failed"
[[ -s predicted.txt ]] || die "predict said nothing"

status=0
said=$(here train config.json -q -s nowhere 2>&1) || status=$?
[[ $status == 2 && $said == *E-CONFIG-DEVICE* && ! -e nowhere ]] || die "without a device: exit $status, $said"
echo "train.sh: trained, gone on, evaluated and predicted on the device-on-CPU runner"
