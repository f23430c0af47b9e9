// Metrics: all scores of a split, from one confusion matrix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trainer/json.h"

namespace mixtape::trainer {

/// How often each class was taken for each other.
class Confusion {
 public:
  /// Throws E-METRICS (internal) for less than one class.
  explicit Confusion(int64_t classes);
  /// Throws E-METRICS (internal) for a class that is not there.
  void add(int64_t truth, int64_t predicted, int64_t count = 1);

  int64_t classes() const { return classes_; }
  int64_t at(int64_t truth, int64_t predicted) const { return counts_[index(truth, predicted)]; }
  int64_t support(int64_t label) const;    ///< rows of that class
  int64_t predicted(int64_t label) const;  ///< rows taken for that class
  int64_t rows() const;

 private:
  size_t index(int64_t truth, int64_t predicted) const { return static_cast<size_t>(truth * classes_ + predicted); }

  int64_t classes_;
  std::vector<int64_t> counts_;  // [truth, predicted]
};

/// Of one class; a quotient 0/0 is 0.
struct ClassScores {
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0, predicted = 0;
  bool occurs() const { return support + predicted > 0; }
};

struct Metrics {
  Confusion confusion;
  double loss = 0;  ///< mean over the rows
  double accuracy = 0;
  double macro_f1 = 0;        ///< mean F1 of the classes that occur among truths or predictions
  int64_t averaged_over = 0;  ///< how many those are
  std::vector<ClassScores> classes;

  /// Throws E-METRICS (data) for a split without rows.
  Metrics(Confusion counts, double mean_loss);

  /// {"loss","accuracy","macro_f1","macro_over","rows","per_class":[…],"confusion":[[…]]}: figures of a log event or of
  /// metrics.json, appended to `out`.
  void append_to(Json& out, const std::vector<std::string>& class_names) const;
  /// "loss 0.451 accuracy 0.812 macro-F1 0.774 (over 2 of 2 classes)".
  std::string text() const;
};

}  // namespace mixtape::trainer
