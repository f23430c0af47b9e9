#include "tools/trainer/metrics.h"

#include <fmt/format.h>

#include <numeric>

#include "core/error.h"

namespace mixtape::trainer {
namespace {

double quotient(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Confusion::Confusion(int64_t classes) : classes_(classes) {
  if (classes < 1) fail(ErrorKind::internal, "E-METRICS", message("a confusion matrix of ", classes, " classes"));
  counts_.assign(static_cast<size_t>(classes * classes), 0);
}

void Confusion::add(int64_t truth, int64_t predicted, int64_t count) {
  if (truth < 0 || truth >= classes_ || predicted < 0 || predicted >= classes_) {
    fail(ErrorKind::internal, "E-METRICS",
         message("class ", truth, " taken for ", predicted, ", but there are ", classes_, " classes"));
  }
  counts_[index(truth, predicted)] += count;
}

int64_t Confusion::support(int64_t label) const {
  int64_t sum = 0;
  for (int64_t other = 0; other < classes_; ++other) sum += at(label, other);
  return sum;
}

int64_t Confusion::predicted(int64_t label) const {
  int64_t sum = 0;
  for (int64_t other = 0; other < classes_; ++other) sum += at(other, label);
  return sum;
}

int64_t Confusion::rows() const { return std::accumulate(counts_.begin(), counts_.end(), int64_t{0}); }

Metrics::Metrics(Confusion counts, double mean_loss) : confusion(std::move(counts)), loss(mean_loss) {
  const int64_t rows = confusion.rows();
  if (rows == 0) fail(ErrorKind::data, "E-METRICS", "a split without rows has no scores");
  int64_t right = 0;
  double f1_sum = 0;
  for (int64_t label = 0; label < confusion.classes(); ++label) {
    const int64_t hits = confusion.at(label, label);
    ClassScores scores{.support = confusion.support(label), .predicted = confusion.predicted(label)};
    scores.precision = quotient(hits, scores.predicted);
    scores.recall = quotient(hits, scores.support);
    scores.f1 = quotient(2 * hits, scores.support + scores.predicted);
    right += hits;
    f1_sum += scores.f1;
    if (scores.occurs()) ++averaged_over;
    classes.push_back(scores);
  }
  accuracy = quotient(right, rows);
  macro_f1 = f1_sum / static_cast<double>(averaged_over);
}

void Metrics::append_to(Json& out, const std::vector<std::string>& class_names) const {
  Json per_class = Json::array(), table = Json::array();
  for (int64_t label = 0; label < confusion.classes(); ++label) {
    const ClassScores& scores = classes[static_cast<size_t>(label)];
    per_class.push(Json::object()
                       .set("label", class_names.at(static_cast<size_t>(label)))
                       .set("precision", scores.precision)
                       .set("recall", scores.recall)
                       .set("f1", scores.f1)
                       .set("support", scores.support)
                       .set("predicted", scores.predicted));
    Json row = Json::array();
    for (int64_t other = 0; other < confusion.classes(); ++other) row.push(confusion.at(label, other));
    table.push(std::move(row));
  }
  out.set("loss", loss)
      .set("accuracy", accuracy)
      .set("macro_f1", macro_f1)
      .set("macro_over", averaged_over)
      .set("rows", confusion.rows())
      .set("per_class", std::move(per_class))
      .set("confusion", std::move(table));
}

std::string Metrics::text() const {
  return fmt::format("loss {:.4f} accuracy {:.4f} macro-F1 {:.4f} (over {} of {} classes)", loss, accuracy, macro_f1,
                     averaged_over, confusion.classes());
}

}  // namespace mixtape::trainer
