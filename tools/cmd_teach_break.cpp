// mixtape teach break --no-master | --no-scale | …: a mechanism of mixed precision taken out, and the damage.
#include <array>
#include <memory>
#include <optional>

#include "core/error.h"
#include "core/kernels/parallel.h"
#include "tools/commands.h"
#include "tools/teach/break.h"
#include "tools/teach/number.h"
#include "tools/teach_pictures.h"

namespace mixtape::tools {
namespace {

struct BreakArguments {
  std::array<bool, 7> asked{};  // in the order of teach::Break
  std::string scale, svg;
  int64_t seed = 42;
  bool json = false;
};

/// The one that is asked for; none: the list.
std::optional<teach::Break> asked_break(const BreakArguments& arguments) {
  std::optional<teach::Break> out;
  for (const teach::BreakFacts& facts : teach::break_facts()) {
    if (!arguments.asked[static_cast<size_t>(facts.what)]) continue;
    if (out) {
      fail(ErrorKind::config, "E-TEACH-BREAK",
           message("--", teach::break_facts()[static_cast<size_t>(*out)].name, " and --", facts.name,
                   ": one mechanism at a time, so that the damage has one cause"));
    }
    out = facts.what;
  }
  return out;
}

void show_break(const BreakArguments& arguments) {
  const std::optional<teach::Break> what = asked_break(arguments);
  if (!what) {
    if (!arguments.svg.empty())
      fail(ErrorKind::config, "E-TEACH-BREAK", "--svg draws a lesson: name what to break, --no-master for instance");
    return print(arguments.json ? teach::breaks_json().pretty() : teach::breaks_text());
  }
  teach::BreakOptions options{.what = *what, .seed = static_cast<uint64_t>(arguments.seed)};
  if (*what == teach::Break::fixed_scale) options.scale = teach::parse_finite("--scale", arguments.scale);
  kernels::set_thread_count(1);  // the models are too small to share
  const teach::BreakLesson lesson = teach::break_lesson(options);
  print(arguments.json ? break_json(lesson).pretty() : break_text(lesson));
  if (!arguments.svg.empty()) write_picture(arguments.svg, teach_picture(lesson));
}

}  // namespace

void add_teach_break(Verb& teach) {
  Verb verb = teach.add("break", "a mechanism of mixed precision taken out, and what training makes of that");
  const auto arguments = std::make_shared<BreakArguments>();
  for (const teach::BreakFacts& facts : teach::break_facts()) {
    const std::string option = "--" + std::string(facts.name);
    if (facts.what == teach::Break::fixed_scale)
      verb.option(option, arguments->scale, {.doc = facts.about, .placeholder = "NUMBER"});
    else
      verb.flag(option, arguments->asked[static_cast<size_t>(facts.what)], std::string(facts.about));
  }
  verb.option("--seed", arguments->seed,
              {.doc = "of weights and sentences", .shows_default = true, .range = {0, INT64_MAX}});
  verb.option("--svg", arguments->svg, {.doc = "draw both losses there", .placeholder = "FILE"});
  verb.flag("--json", arguments->json, "as one JSON document: {\"break\", \"seed\", \"seen\", \"off\", \"on\", …}");
  verb.action([arguments] {
    arguments->asked[static_cast<size_t>(teach::Break::fixed_scale)] = !arguments->scale.empty();
    show_break(*arguments);
  });
}

}  // namespace mixtape::tools
