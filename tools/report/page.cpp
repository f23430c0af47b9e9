#include "tools/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/embedded.h"
#include "tools/config/build_info.h"
#include "tools/draw/axis.h"
#include "tools/report/markup.h"

namespace mixtape {
EmbeddedFiles embedded_styles();  // tools/report/style.css
}

namespace mixtape::report {
namespace {

std::string badge(const RunRecord& run) {
  const auto of = [](const char* css, const char* text) {
    return fmt::format("<span class=\"badge {}\">{}</span>", css, text);
  };
  switch (run.outcome) {
    case Outcome::finished:
      return run.result && run.result->stopped_early ? of("good", "finished, stopped early") : of("good", "finished");
    case Outcome::interrupted: return of("warn", "interrupted");
    case Outcome::diverged: return of("bad", "diverged");
    case Outcome::unfinished: break;
  }
  return of("warn", "not finished");
}

std::string lead(const RunRecord& run) {
  const int64_t last = run.result ? run.result->steps : run.last_step();
  std::string out = run.steps_planned > 0 ? fmt::format("{} of {} steps", grouped(last), grouped(run.steps_planned))
                                          : plural(last, "step");
  if (run.result) out += " in " + duration(run.result->seconds);
  out += ".";
  if (run.result && run.result->val)
    out += fmt::format(" The best model is that of step {}: macro-F1 {} on val.", grouped(run.result->best_step),
                       figure(run.result->val->macro_f1));
  if (run.outcome == Outcome::unfinished)
    out += " The run goes on, or was killed: mixtape train … --recover goes on with it.";
  if (run.outcome == Outcome::interrupted) out += " mixtape train … --recover goes on with it.";
  return fmt::format("<p class=\"lead\">{} {}</p>\n", badge(run), draw::escaped(out));
}

std::string tile(std::string_view name, const std::string& value, const std::string& more = "") {
  return fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n", draw::escaped(name), draw::escaped(value),
                     more.empty() ? "" : "<small>" + draw::escaped(more) + "</small>");
}

std::string precision_tile(const config::AmpConfig& amp) {
  const char* const names[] = {"f32", "bf16", "fp16"};
  return tile("precision", names[static_cast<size_t>(amp.dtype)],
              amp.dtype == config::AmpDtype::off ? "no mixed precision" : "policy " + amp.policy);
}

/// The last evaluation of a run that has no result yet.
std::string eval_tiles(const RunRecord& run) {
  const auto last =
      std::find_if(run.evals.rbegin(), run.evals.rend(), [](const EvalEvent& e) { return e.split == "val"; });
  if (last == run.evals.rend()) return "";
  return tile("val macro-F1", figure(last->scores.macro_f1), fmt::format("at step {}", grouped(last->step))) +
         tile("val accuracy", figure(last->scores.accuracy));
}

std::string result_tiles(const Result& result) {
  std::string out;
  if (result.test) {
    out += tile("test macro-F1", figure(result.test->macro_f1),
                fmt::format("{} of {} classes", result.test->macro_over, result.test->classes.size()));
    out += tile("test accuracy", figure(result.test->accuracy), plural(result.test->rows, "text"));
  }
  out += tile("tokens a second", grouped(result.tokens_per_s), grouped(result.tokens) + " tokens");
  out += tile("training time", duration(result.seconds));
  return out + tile("peak of tensors", in_bytes(result.peak_bytes));
}

std::string tiles(const RunRecord& run, const RunConfig& config) {
  std::string out = run.result ? result_tiles(*run.result) : eval_tiles(run);
  const int64_t steps = std::max<int64_t>(run.last_step(), 1), skipped = run.skipped();
  out += tile("skipped steps", grouped(skipped), percent(static_cast<double>(skipped) / static_cast<double>(steps)));
  if (config.config) out += precision_tile(config.config->amp);
  return "<dl class=\"tiles\">\n" + out + "</dl>\n";
}

std::string remarks(const RunRecord& run) {
  std::string out;
  for (const std::string& damage : run.damages) out += warning_html(damage);
  std::string items;
  for (const Remark& remark : run.remarks)
    items += fmt::format("<li>Step {}: {}</li>\n", grouped(remark.step), draw::escaped(remark.text));
  return items.empty() ? out : out + "<ul class=\"remarks\">\n" + items + "</ul>\n";
}

std::string navigation() {
  constexpr std::pair<const char*, const char*> links[] = {
      {"curves", "Loss and metrics"}, {"scale", "Loss scale"}, {"histograms", "Numbers in 16 bits"},
      {"ledger", "Ledger"},           {"memory", "Memory"},    {"scores", "Confusion matrix"},
      {"config", "Configuration"},    {"machine", "Machine"}};
  std::string out;
  for (const auto& [id, name] : links) out += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", id, name);
  return "<nav aria-label=\"Sections\">\n<ul>\n" + out + "</ul>\n</nav>\n";
}

}  // namespace

std::string page(const RunRecord& run, const RunConfig& config, const StepLook& look) {
  const std::string name = draw::escaped(run.name.empty() ? run.dir : run.name);
  std::string out = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      // The page asks nobody for anything, and the browser holds it to that.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{} – mixtape report</title>\n<style>{}</style>\n</head>\n<body>\n",
      name, embedded_styles().begin()->bytes);
  out += "<header>\n<p class=\"kicker\">mixtape report</p>\n<h1>" + name + "</h1>\n" + lead(run) + remarks(run) +
         tiles(run, config) + navigation() + "</header>\n<main>\n";
  out += curves_section(run, config) + scale_section(run, config) + histogram_section(look) + ledger_section(look) +
         memory_section(run, look) + scores_section(run) + config_section(run, config) + machine_section(run);
  return out + fmt::format("</main>\n<footer>\n<p>Made by mixtape {} from {}.</p>\n</footer>\n</body>\n</html>\n",
                           config::build_info().version, code_html(run.dir));
}

}  // namespace mixtape::report
