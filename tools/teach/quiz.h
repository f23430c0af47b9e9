// teach quiz: questions about the formats whose answers are computed, and the grading of answers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/trainer/json.h"

namespace mixtape::teach {

struct Question {
  std::string kind;  ///< "bits", "ulp", "update", …
  std::string text;
  bool yes_or_no = false;
  double answer = 0;        ///< of a yes-or-no question 1 for yes
  double tolerance = 0;     ///< how far a number may be from it
  std::string explanation;  ///< with the figures that lead to it

  std::string answer_text() const;
};

/// The same for the same seed; question i does not depend on how many follow.
std::vector<Question> quiz_questions(uint64_t seed, int64_t count);

struct Grade {
  std::string given;
  bool right = false;
  std::string remark;  ///< why an answer could not be read; else empty
};

/// One grade a question. A number may be written as `teach bits` reads it (2^-14). Throws E-TEACH-ANSWERS (config)
/// unless there are as many answers as questions.
std::vector<Grade> grade(const std::vector<Question>& questions, const std::vector<std::string>& answers);

/// `solutions` shows the answers of an ungraded quiz; `grades` is empty or has one for each question.
struct QuizSheet {
  uint64_t seed = 0;
  std::vector<Question> questions;
  std::vector<Grade> grades;
  bool solutions = false;
};
std::string quiz_text(const QuizSheet& sheet);
trainer::Json quiz_json(const QuizSheet& sheet);

}  // namespace mixtape::teach
