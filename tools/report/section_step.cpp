// The precision ledger and the memory of one training step.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "tools/draw/axis.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace mixtape::report {
namespace {

std::string dtypes_html(const std::vector<DType>& dtypes) {
  std::string out;
  for (const DType dtype : dtypes)
    out += fmt::format("{}<span class=\"dtype {}\">{}</span>", out.empty() ? "" : " ", is_low(dtype) ? "low" : "full",
                       name_of(dtype));
  return out;
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.3f}", static_cast<double>(bytes) / 1e6); }

struct Part {
  const char* name;
  int style;
  int64_t bytes;
};

/// What is kept at the same time, as one bar, and the row of each part.
std::string kept_bar(const std::vector<Part>& parts, int64_t all) {
  std::string bar, legend;
  for (const Part& part : parts) {
    if (part.bytes <= 0) continue;
    bar += fmt::format("<span class=\"f{}\" style=\"width:{:.2f}%\"></span>", part.style,
                       100 * static_cast<double>(part.bytes) / static_cast<double>(all));
    legend += fmt::format("<li><span class=\"swatch f{}\"></span>{}, {}</li>", part.style, part.name,
                          in_bytes(static_cast<double>(part.bytes)));
  }
  return "<div class=\"shares tall\" aria-hidden=\"true\">" + bar + "</div>\n<ul class=\"legend\">" + legend +
         "</ul>\n";
}

std::string memory_table(const inspect::MemoryPlan& plan) {
  Table table("Memory of a training step", {{"what"}, {"MiB", true}});
  const auto row = [&](const std::string& name_html, int64_t bytes) {
    table.row({name_html, fmt::format("{:.2f}", static_cast<double>(bytes) / 0x1p20)});
  };
  row("weights", plan.weights);
  row("16-bit copies", plan.copies);
  row("gradients", plan.gradients);
  row("optimizer", plan.optimizer);
  row("saved for backward", plan.all_saved());
  std::vector<std::pair<std::string, int64_t>> ops(plan.saved.begin(), plan.saved.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [op, bytes] : ops) row("<span class=\"inner\">" + code_html(op) + "</span>", bytes);
  row("peak of forward", plan.forward);
  row("peak of backward", plan.backward);
  row("peak of the update", plan.update);
  row("peak of the evaluation", plan.evaluation);
  row("<strong>peak</strong>", plan.peak());
  return table.html();
}

std::string memory_of_step(const inspect::MemoryPlan& plan) {
  const std::vector<Part> parts = {{"weights", 0, plan.weights},
                                   {"16-bit copies", 1, plan.copies},
                                   {"gradients", 2, plan.gradients},
                                   {"optimizer", 3, plan.optimizer},
                                   {"saved for backward", 4, plan.all_saved()}};
  int64_t all = 0;
  for (const Part& part : parts) all += part.bytes;
  return paragraph(fmt::format("A training step of the longest batch, {} of at most {} tokens, {} in all, keeps:",
                               plural(plan.rows, "text"), grouped(plan.longest), grouped(plan.tokens))) +
         kept_bar(parts, std::max<int64_t>(all, 1)) +
         paragraph("Its peak is " + in_bytes(static_cast<double>(plan.peak())) +
                   ", beside the program itself, its data and what the libraries keep.") +
         folded("Every part, and the peaks", memory_table(plan));
}

}  // namespace

std::string ledger_section(const StepLook& look) {
  if (!look.ledger) return section("ledger", "Precision ledger", paragraph("No ledger: " + look.no_ledger));
  const amp::LedgerTotals& totals = look.ledger->totals;
  Table table("What the forward of one training step runs in which dtype", {{"op"},
                                                                            {"calls", true},
                                                                            {"in"},
                                                                            {"computes in"},
                                                                            {"sums in"},
                                                                            {"out"},
                                                                            {"rule"},
                                                                            {"casts", true},
                                                                            {"MB", true},
                                                                            {"where"}});
  for (const amp::LedgerRow& row : look.ledger->rows) {
    table.row({code_html(row.op), grouped(row.calls), dtypes_html(row.in), dtypes_html({row.compute}),
               row.accum ? dtypes_html({*row.accum}) : "", dtypes_html(row.out), draw::escaped(name_of(row.rule)),
               grouped(row.casts), megabytes(row.bytes), row.scope.empty() ? "" : code_html(row.scope)});
  }
  std::string about = fmt::format("{}, {}, {} MB moved, {} of them by casts.", plural(totals.calls, "call"),
                                  plural(totals.casts, "cast"), megabytes(totals.bytes), percent(totals.cast_share));
  for (std::string note :
       {amp::first_step_note(look.ledger->first_step, totals), amp::product_note(look.ledger->rows)}) {
    if (note.empty()) continue;
    note[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(note[0])));
    about += " " + note + ".";
  }
  return section("ledger", "Precision ledger", paragraph(about) + table.html());
}

std::string memory_section(const RunRecord& run, const StepLook& look) {
  std::string body;
  if (run.result && std::isfinite(run.result->peak_bytes)) {
    body = paragraph("At its peak the run held " + in_bytes(run.result->peak_bytes) + " of tensors" +
                     (std::isfinite(run.result->peak_rss_bytes)
                          ? ", and the whole process " + in_bytes(run.result->peak_rss_bytes)
                          : "") +
                     ".");
  }
  body += look.memory ? memory_of_step(*look.memory) : paragraph("No measurement of a step: " + look.no_memory);
  return section("memory", "Memory", body);
}

}  // namespace mixtape::report
