// Scores from a confusion matrix: known cases, and 10^5 random matrices against a reference that counts row by row.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <vector>

#include "tests/shared.h"
#include "tools/trainer/metrics.h"

namespace mixtape::trainer {
namespace {
using tests::contains;
using tests::error_text;

using Labels = std::vector<int64_t>;

Metrics metrics_of(const Labels& truth, const Labels& predicted, int64_t classes) {
  Confusion counts(classes);
  for (size_t i = 0; i < truth.size(); ++i) counts.add(truth[i], predicted[i]);
  return Metrics(std::move(counts), 0.5);
}

/// Precision, recall and F1 of one class by a pass over the rows, from their definitions.
struct Reference {
  double precision = 0, recall = 0, f1 = 0;
  Reference(const Labels& truth, const Labels& predicted, int64_t label) {
    double hits = 0, said = 0, was = 0;
    for (size_t i = 0; i < truth.size(); ++i) {
      hits += truth[i] == label && predicted[i] == label;
      said += predicted[i] == label;
      was += truth[i] == label;
    }
    if (said > 0) precision = hits / said;
    if (was > 0) recall = hits / was;
    if (precision + recall > 0) f1 = 2 * precision * recall / (precision + recall);
  }
};

double reference_macro_f1(const Labels& truth, const Labels& predicted) {
  std::set<int64_t> occurring(truth.begin(), truth.end());
  occurring.insert(predicted.begin(), predicted.end());
  double sum = 0;
  for (const int64_t label : occurring) sum += Reference(truth, predicted, label).f1;
  return sum / static_cast<double>(occurring.size());
}

/// Few or many classes, some of them absent, some never predicted.
struct RandomRows {
  Labels truth, predicted;
  int64_t classes;
  explicit RandomRows(std::mt19937_64& random) : classes(static_cast<int64_t>(1 + random() % 6)) {
    const uint64_t seen = 1 + random() % static_cast<uint64_t>(classes);
    const uint64_t said = 1 + random() % static_cast<uint64_t>(classes), shift = random();
    const size_t rows = 1 + random() % 24;
    for (size_t i = 0; i < rows; ++i) {
      truth.push_back(static_cast<int64_t>((random() % seen + shift) % static_cast<uint64_t>(classes)));
      predicted.push_back(static_cast<int64_t>(random() % said));
    }
  }
};

std::string joined(const Labels& labels) {
  std::string out;
  for (const int64_t label : labels) out += (out.empty() ? "" : ",") + std::to_string(label);
  return "[" + out + "]";
}
}  // namespace

TEST_CASE("macro-F1 is over the classes that occur") {
  CHECK(metrics_of({0, 0}, {0, 0}, 2).macro_f1 == 1.0);
  CHECK(metrics_of({0, 0}, {0, 0}, 2).averaged_over == 1);
  CHECK(metrics_of({0, 1}, {1, 1}, 2).macro_f1 == doctest::Approx(1.0 / 3).epsilon(1e-15));
  CHECK(metrics_of({0, 0}, {0, 1}, 2).macro_f1 == doctest::Approx(1.0 / 3).epsilon(1e-15));
  CHECK(metrics_of({0, 0}, {0, 1}, 2).averaged_over == 2);
  CHECK(contains(metrics_of({0, 0}, {0, 0}, 3).text(), "over 1 of 3 classes"));
}

TEST_CASE("a split without rows has no scores; a class that is not there is refused") {
  CHECK(contains(error_text([] { Metrics(Confusion(2), 0.0); }), "E-METRICS"));
  CHECK(contains(error_text([] { Confusion(2).add(2, 0); }), "there are 2 classes"));
  CHECK(contains(error_text([] { Confusion(2).add(0, -1); }), "taken for -1"));
  CHECK(contains(error_text([] { Confusion(0); }), "0 classes"));
}

TEST_CASE("always the majority on the offensive test split gives .41892") {
  Confusion counts(2);
  counts.add(0, 0, 620);
  counts.add(1, 0, 240);
  const Metrics metrics(std::move(counts), 0);
  CHECK(std::abs(metrics.macro_f1 - 0.41892) < 5e-6);
  CHECK(metrics.accuracy == 620.0 / 860);
  CHECK(metrics.classes[0].recall == 1);
  CHECK(metrics.classes[1].precision == 0);
  CHECK(metrics.classes[1].support == 240);
}

TEST_CASE("the split has those sizes") {
  if (tests::no_shared()) return;
  const std::string labels = tests::slurp(tests::shared_path("data/tweet_eval/offensive/test_labels.txt"));
  CHECK(std::count(labels.begin(), labels.end(), '0') == 620);
  CHECK(std::count(labels.begin(), labels.end(), '1') == 240);
}

// F32. With MIXTAPE_METRICS_DUMP=FILE the matrices and scores are written there, one JSON object a line, for
// tests/metrics_against_sklearn.py.
TEST_CASE("10^5 random label lists agree with a reference that counts row by row") {
  const char* dump = std::getenv("MIXTAPE_METRICS_DUMP");
  std::ofstream file;
  if (dump != nullptr) file.open(dump);
  std::mt19937_64 random(32);
  double worst = 0;
  int absent = 0;
  for (int i = 0; i < 100'000; ++i) {
    const RandomRows rows(random);
    const Metrics metrics = metrics_of(rows.truth, rows.predicted, rows.classes);
    worst = std::max(worst, std::abs(metrics.macro_f1 - reference_macro_f1(rows.truth, rows.predicted)));
    absent += metrics.averaged_over < rows.classes;
    for (int64_t label = 0; label < rows.classes; ++label) {
      const Reference wanted(rows.truth, rows.predicted, label);
      const ClassScores& scores = metrics.classes[static_cast<size_t>(label)];
      worst = std::max({worst, std::abs(scores.precision - wanted.precision), std::abs(scores.recall - wanted.recall),
                        std::abs(scores.f1 - wanted.f1)});
    }
    if (dump == nullptr) continue;
    Json event = Json::object();
    metrics.append_to(event, std::vector<std::string>(static_cast<size_t>(rows.classes), "c"));
    file << "{\"y\":" << joined(rows.truth) << ",\"p\":" << joined(rows.predicted) << ",\"scores\":" << event.line()
         << "}\n";
  }
  CHECK(worst < 1e-12);
  CHECK(absent > 10'000);
}

TEST_CASE("the JSON of a split") {
  Json event = Json::object();
  metrics_of({0, 0, 1, 1}, {0, 1, 1, 1}, 2).append_to(event, {"no", "yes"});
  CHECK(event.line() ==
        "{\"loss\":0.5,\"accuracy\":0.75,\"macro_f1\":0.7333333333333334,\"macro_over\":2,\"rows\":4,\"per_class\":["
        "{\"label\":\"no\",\"precision\":1,\"recall\":0.5,\"f1\":0.6666666666666666,\"support\":2,\"predicted\":1},"
        "{\"label\":\"yes\",\"precision\":0.6666666666666666,\"recall\":1,\"f1\":0.8,\"support\":2,\"predicted\":3}],"
        "\"confusion\":[[1,1],[0,2]]}");
}

}  // namespace mixtape::trainer
