// Every value of the configuration with its origin; machine, versions and hashes.
#include <algorithm>
#include <charconv>

#include "tools/config/show.h"
#include "tools/draw/axis.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace mixtape::report {
namespace {

/// config.json is the effective one: where its values came from stands in run.json.
std::string origin_of(const RunRecord& run, const config::ShownValue& row) {
  if (!run.origins) return row.is_default ? "default" : "set (an older run: not known where)";
  const auto found = run.origins->find(row.key);
  return found == run.origins->end() ? "default" : found->second;
}

std::string values_of(const RunRecord& run, const std::vector<config::ShownValue>& rows, const std::string& title) {
  Table table(title, {{"key"}, {"value"}, {"origin"}});
  for (const config::ShownValue& row : rows) {
    const std::string origin = origin_of(run, row);
    table.row({code_html(row.key), code_html(row.value),
               origin == "default" ? "<span class=\"soft\">default</span>" : draw::escaped(origin)});
  }
  return table.html();
}

/// The locale has no say in it.
double number_of(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

std::string config_section(const RunRecord& run, const RunConfig& config) {
  if (!config.config)
    return section("config", "Configuration", paragraph("config.json cannot be read: " + config.fault));
  std::vector<config::ShownValue> set, defaults;
  for (config::ShownValue& row : config::shown_values(*config.config))
    (origin_of(run, row) == "default" ? defaults : set).push_back(std::move(row));
  std::string body =
      set.empty() ? paragraph("Everything is as by default.") : values_of(run, set, "What somebody wrote, and where");
  if (!defaults.empty())
    body += folded(plural(std::ssize(defaults), "value") + " by default", values_of(run, defaults, "Defaults"));
  return section("config", "Configuration", body);
}

std::string machine_section(const RunRecord& run) {
  Table table("Machine, program and hashes of what went in (XXH3-128)", {{"what"}, {"value"}});
  for (const auto& [name, value] : run.machine) {
    const bool bytes = name.ends_with("memory_bytes");
    table.row({draw::escaped(name), bytes ? in_bytes(number_of(value)) : draw::escaped(value)});
  }
  return section("machine", "Machine and versions",
                 table.empty() ? paragraph("run.json says nothing of the machine.") : table.html());
}

}  // namespace mixtape::report
