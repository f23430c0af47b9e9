#include "tools/teach/quiz.h"

#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "tools/teach/number.h"

namespace mixtape::teach {
namespace {

std::string in_lower_case(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

/// A yes-or-no answer as 1 or 0.
std::optional<double> truth_of(const std::string& text) {
  const std::string word = in_lower_case(text);
  if (word == "yes" || word == "y" || word == "true") return 1;
  if (word == "no" || word == "n" || word == "false") return 0;
  return std::nullopt;
}

Grade grade_one(const Question& question, const std::string& given) {
  Grade out{given, false, {}};
  if (question.yes_or_no) {
    const std::optional<double> truth = truth_of(given);
    if (!truth) out.remark = "expected yes or no";
    out.right = truth == question.answer;
    return out;
  }
  try {
    const double value = parse_number(given).value;
    out.right = value == question.answer || std::abs(value - question.answer) <= question.tolerance;
  } catch (const Error& error) {
    if (error.code() != "E-TEACH-VALUE") throw;
    out.remark = error.what();
  }
  return out;
}

int64_t right_ones(const std::vector<Grade>& grades) {
  int64_t count = 0;
  for (const Grade& grade : grades) count += grade.right;
  return count;
}

}  // namespace

std::string Question::answer_text() const { return yes_or_no ? (answer == 1 ? "yes" : "no") : decimal(answer); }

std::vector<Grade> grade(const std::vector<Question>& questions, const std::vector<std::string>& answers) {
  if (answers.size() != questions.size()) {
    fail(ErrorKind::config, "E-TEACH-ANSWERS",
         message(std::ssize(answers), " answers to ", std::ssize(questions),
                 " questions: give one for each, in their order", ", or ask fewer with --questions ",
                 std::ssize(answers)));
  }
  std::vector<Grade> out;
  for (size_t i = 0; i < questions.size(); ++i) out.push_back(grade_one(questions[i], answers[i]));
  return out;
}

std::string quiz_text(const QuizSheet& sheet) {
  std::string out = fmt::format("{} questions, seed {}\n", sheet.questions.size(), sheet.seed);
  for (size_t i = 0; i < sheet.questions.size(); ++i) {
    const Question& question = sheet.questions[i];
    out += fmt::format("\n{}. {}{}\n", i + 1, question.text, question.yes_or_no ? " (yes or no)" : "");
    if (!sheet.grades.empty()) {
      const Grade& grade = sheet.grades[i];
      out += fmt::format("   {}: {}{}\n", grade.right ? "right" : "wrong", grade.given,
                         grade.remark.empty() ? "" : " (" + grade.remark + ")");
    }
    if (sheet.solutions || !sheet.grades.empty())
      out += fmt::format("   answer: {}\n   {}\n", question.answer_text(), question.explanation);
  }
  if (!sheet.grades.empty())
    return out + fmt::format("\n{} of {} right\n", right_ones(sheet.grades), sheet.grades.size());
  if (sheet.solutions) return out;
  return out +
         fmt::format("\nto have answers graded, one for each question: mixtape teach quiz --seed {}{} --answer A …\n",
                     sheet.seed,
                     sheet.questions.size() == 8 ? "" : fmt::format(" --questions {}", sheet.questions.size()));
}

trainer::Json quiz_json(const QuizSheet& sheet) {
  trainer::Json questions = trainer::Json::array();
  for (size_t i = 0; i < sheet.questions.size(); ++i) {
    const Question& question = sheet.questions[i];
    trainer::Json row = trainer::Json::object()
                            .set("number", i + 1)
                            .set("kind", question.kind)
                            .set("question", question.text)
                            .set("takes", question.yes_or_no ? "yes or no" : "a number");
    if (!sheet.grades.empty()) row.set("given", sheet.grades[i].given).set("right", sheet.grades[i].right);
    if (sheet.solutions || !sheet.grades.empty()) {
      row.set("answer", question.yes_or_no ? trainer::Json(question.answer == 1) : trainer::Json(question.answer))
          .set("explanation", question.explanation);
    }
    questions.push(std::move(row));
  }
  trainer::Json out = trainer::Json::object().set("seed", sheet.seed).set("questions", std::move(questions));
  if (!sheet.grades.empty()) out.set("right", right_ones(sheet.grades)).set("of", std::ssize(sheet.grades));
  return out;
}

}  // namespace mixtape::teach
