#!/usr/bin/env python3
"""F32: the scores of 10^5 random label lists equal scikit-learn's to 1e-12.

  metrics_against_sklearn.py BUILD_DIR    runs bin/mixtape_tests there and compares; needs `pip install scikit-learn`
"""

import importlib.util
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile


def largest_difference(line):
    """Between our scores of a case and scikit-learn's; a wrong count is infinite."""
    from sklearn.metrics import accuracy_score, precision_recall_fscore_support
    case = json.loads(line)
    y, p, ours = case["y"], case["p"], case["scores"]
    labels = list(range(len(ours["per_class"])))
    theirs = precision_recall_fscore_support(y, p, labels=labels, zero_division=0)
    pairs = [(ours["accuracy"], accuracy_score(y, p))]
    occurring = sorted(set(y) | set(p))  # what "macro" averages over unless labels are given
    pairs.append((ours["macro_f1"], sum(theirs[2][label] for label in occurring) / len(occurring)))
    for label, scores in enumerate(ours["per_class"]):
        pairs += zip((scores["precision"], scores["recall"], scores["f1"]), (column[label] for column in theirs))
        if scores["support"] != theirs[3][label]:
            return float("inf")
    return max(abs(a - b) for a, b in pairs)


def main(build):
    if importlib.util.find_spec("sklearn") is None:
        sys.exit("metrics_against_sklearn: scikit-learn is not installed")
    with tempfile.TemporaryDirectory() as folder:
        dump = pathlib.Path(folder) / "dump.jsonl"
        subprocess.run([pathlib.Path(build) / "bin" / "mixtape_tests", "--source-file=*test_metrics.cpp"], check=True,
                       env=os.environ | {"MIXTAPE_METRICS_DUMP": str(dump)}, stdout=subprocess.DEVNULL)
        with multiprocessing.Pool() as pool:  # scikit-learn takes milliseconds for a list: all cores
            differences = pool.map(largest_difference, dump.read_text().splitlines(), chunksize=500)
    worst, count = max(differences, default=0.0), len(differences)
    print(f"metrics_against_sklearn: {count} label lists, largest difference {worst:.3g}")
    return 0 if worst <= 1e-12 and count == 100_000 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
