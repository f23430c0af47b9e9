// Confusion matrices and scores by class: of the best model, or of the last evaluation.
#include <fmt/format.h>

#include <algorithm>

#include "tools/draw/axis.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace mixtape::report {
namespace {

std::string confusion_table(const std::string& split, const Scores& scores) {
  std::string head = "<th scope=\"col\">truth</th>";
  for (const ClassRow& row : scores.classes)
    head += "<th scope=\"col\" class=\"number\">" + draw::escaped(row.label) + "</th>";
  std::string rows;
  for (size_t truth = 0; truth < scores.classes.size(); ++truth) {
    rows += "<tr><th scope=\"row\">" + draw::escaped(scores.classes[truth].label) + "</th>";
    const auto support = static_cast<double>(std::max<int64_t>(scores.classes[truth].support, 1));
    for (size_t taken = 0; taken < scores.classes.size(); ++taken) {
      const int64_t count = scores.confusion[truth][taken];
      rows += fmt::format("<td class=\"number cell{}\" style=\"--share:{:.3f}\">{}<small>{}</small></td>",
                          truth == taken ? " hit" : "", std::min(1.0, static_cast<double>(count) / support),
                          grouped(count), percent(static_cast<double>(count) / support));
    }
    rows += "</tr>\n";
  }
  const std::string caption = draw::escaped(split + ": the class of a text, and what it was taken for");
  return fmt::format(
      "<div class=\"wide\" role=\"region\" aria-label=\"{0}\" tabindex=\"0\">\n<table class=\"confusion\">\n"
      "<caption>{0}</caption>\n<thead><tr>{1}</tr></thead>\n<tbody>\n{2}</tbody>\n</table>\n</div>\n",
      caption, head, rows);
}

std::string class_table(const std::string& split, const Scores& scores) {
  Table table(
      split + ": scores by class",
      {{"class"}, {"precision", true}, {"recall", true}, {"F1", true}, {"texts", true}, {"taken for it", true}});
  for (const ClassRow& row : scores.classes)
    table.row({draw::escaped(row.label), fmt::format("{:.4f}", row.precision), fmt::format("{:.4f}", row.recall),
               fmt::format("{:.4f}", row.f1), grouped(row.support), grouped(row.predicted)});
  return table.html();
}

std::string scores_of_split(const std::string& title, const std::string& split, const Scores& scores) {
  const std::string summary = fmt::format("Loss {}, accuracy {}, macro-F1 {} over {} of {} classes, {}.",
                                          figure(scores.loss), figure(scores.accuracy), figure(scores.macro_f1),
                                          scores.macro_over, scores.classes.size(), plural(scores.rows, "text"));
  std::string tables = class_table(split, scores);
  if (!scores.confusion.empty()) tables = confusion_table(split, scores) + tables;
  return "<div>\n" + subsection(title, paragraph(summary) + tables) + "</div>\n";
}

}  // namespace

std::string scores_section(const RunRecord& run) {
  std::string body;
  if (run.result && run.result->test)
    body +=
        scores_of_split(fmt::format("test, by the model of step {}", run.result->best_step), "test", *run.result->test);
  if (run.result && run.result->val)
    body +=
        scores_of_split(fmt::format("val, by the model of step {}", run.result->best_step), "val", *run.result->val);
  if (body.empty() && !run.evals.empty()) {
    const EvalEvent& last = run.evals.back();
    body = scores_of_split(fmt::format("{}, at step {}", last.split, last.step), last.split, last.scores);
  }
  if (body.empty()) body = paragraph("Nothing was evaluated yet.");
  return section("scores", "Confusion matrix", "<div class=\"charts\">\n" + body + "</div>\n");
}

}  // namespace mixtape::report
