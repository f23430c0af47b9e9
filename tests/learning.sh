#!/usr/bin/env bash
# What configs/offensive_tiny_*.json learn, and that they learn it from the labels:
#   tests/learning.sh BUILD [SEEDS [DTYPES]] [--data DIR] [--set a.b=VALUE]...
#   SEEDS    1,2,3 unless told otherwise      DTYPES  f32,bf16,fp16
#   --data   the folder of tweet_eval/offensive; ../shared/data/tweet_eval/offensive
#   --set    goes to every `mixtape train`, as tokenizer.vocab=FILE without ../shared
# Trains each dtype with each seed, and once more with the labels of train shuffled. Exit code 1 when a dtype's mean test
# macro-F1 is below 0.715, or the shuffled run's is not below 0.55; 77 without the data. A run takes minutes.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
export LC_ALL=C

words=() sets=() data=../shared/data/tweet_eval/offensive
usage() { sed -nE '3,6s/^# ?//p' "${BASH_SOURCE[0]}" >&2; exit 2; }
while (($#)); do
  case $1 in
    --data | --set) (($# > 1)) || usage ;;&
    --data) data=$2; shift ;;
    --set) sets+=(--set "$2"); shift ;;
    -*) usage ;;
    *) words+=("$1") ;;
  esac
  shift
done
((${#words[@]} >= 1 && ${#words[@]} <= 3)) || usage
program=${words[0]}/bin/mixtape
IFS=, read -ra seeds <<<"${words[1]:-1,2,3}"
IFS=, read -ra dtypes <<<"${words[2]:-f32,bf16,fp16}"
for dtype in "${dtypes[@]}"; do
  [[ -e configs/offensive_tiny_$dtype.json ]] || { echo "learning: no configs/offensive_tiny_$dtype.json" >&2; exit 2; }
done
[[ -x $program ]] || { echo "learning: $program is not there; build it first" >&2; exit 2; }
if [[ ! -e $data/train_labels.txt ]]; then
  echo "skipped: no $data/train_labels.txt (tools/fetch tweet_eval gets it; then --data downloads/tweet_eval/offensive)"
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# --set's relative paths would be relative to the configuration.
data=$(readlink -f "$data")

# train NAME DTYPE SEED DATA: one run; its score goes into the file `scores`.
train() {
  local seconds=$SECONDS status=0
  "$program" train "configs/offensive_tiny_$2.json" -s "$work/$1" -q --set "trainer.seed=$3" --set "task.data_dir=$4" \
    "${sets[@]}" >"$work/log" 2>&1 || status=$?
  if ((status)); then
    cat "$work/log" >&2
    echo "learning: $1 ended with $status" >&2
    exit "$status"
  fi
  python3 - "$work/$1/metrics.json" "$1" <<'PY' | tee -a "$work/scores"
import json, sys
print(sys.argv[2], round(json.load(open(sys.argv[1]))["test"]["macro_f1"], 4))
PY
  echo "  $((SECONDS - seconds)) s" >&2
  rm -rf "${work:?}/$1"
}

for dtype in "${dtypes[@]}"; do
  for seed in "${seeds[@]}"; do train "$dtype-$seed" "$dtype" "$seed" "$data"; done
done

# The same labels in another order: what is learned now cannot be about the texts.
cp -r "$data" "$work/data"
chmod -R u+w "$work/data"
python3 - "$work/data/train_labels.txt" <<'PY'
import pathlib, random, sys
path = pathlib.Path(sys.argv[1])
labels = path.read_text().split()
random.Random(0).shuffle(labels)
path.write_text("\n".join(labels) + "\n")
PY
train "shuffled-${seeds[0]}" "${dtypes[0]}" "${seeds[0]}" "$work/data"

python3 - "$work/scores" <<'PY'
import collections, statistics, sys
scores = collections.defaultdict(dict)
for line in open(sys.argv[1]):
    name, score = line.split()
    dtype, seed = name.rsplit("-", 1)
    scores[dtype][seed] = float(score)
shuffled = scores.pop("shuffled")
seeds = list(next(iter(scores.values())))
print("\ntest macro-F1   " + "".join(f"{'seed ' + seed:>9}" for seed in seeds) + "     mean")
wrong = []
for dtype, by_seed in scores.items():
    mean = statistics.mean(by_seed.values())
    wrong += [f"{dtype}: a mean of {mean:.4f}, expected 0.715 or more"] * (mean < 0.715)
    print(f"{dtype:<16}" + "".join(f"{by_seed[seed]:9.4f}" for seed in seeds) + f"{mean:9.4f}")
chance = next(iter(shuffled.values()))
wrong += [f"shuffled labels: {chance:.4f}, expected chance, below 0.55"] * (chance >= 0.55)
print(f"{'shuffled labels':<16}{chance:9.4f}" + ("" if chance >= 0.55 else "  (at chance)"))
print("\n".join(f"FAILED {text}" for text in wrong) or "ok")
sys.exit(bool(wrong))
PY
