#include "tools/trainer/run_state.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "tools/config/json_locate.h"
#include "tools/trainer/json.h"

namespace mixtape::trainer {
namespace {

/// A number that reads back as itself, also when it is not finite.
Json exact(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

/// Members of one object, by name; whatever is wrong throws.
class Members {
 public:
  Members(const config::Value& object, const std::string& path) : object_(object), path_(path) {
    if (object.kind != config::Kind::object) refuse("an object is missing");
  }

  const config::Value& at(std::string_view key) const {
    for (const config::Member& member : object_.members) {
      if (member.key == key) return member.value;
    }
    refuse(message("\"", key, "\" is missing"));
  }
  bool has(std::string_view key) const { return at(key).kind != config::Kind::null; }
  Members object(std::string_view key) const { return {at(key), path_}; }
  const std::vector<config::Value>& items(std::string_view key) const {
    if (at(key).kind != config::Kind::array) refuse(message("\"", key, "\" is no array"));
    return at(key).items;
  }
  std::string text(std::string_view key) const {
    if (at(key).kind != config::Kind::string) refuse(message("\"", key, "\" is no string"));
    return at(key).text;
  }
  int64_t integer(std::string_view key) const { return integer(at(key)); }
  int64_t integer(const config::Value& value) const {
    int64_t out = 0;
    const char* end = value.text.data() + value.text.size();
    if (value.kind != config::Kind::number || std::from_chars(value.text.data(), end, out).ptr != end || out < 0) {
      refuse(message("\"", value.text, "\" is no counter"));
    }
    return out;
  }
  double number(std::string_view key) const {
    const config::Value& value = at(key);
    if (value.kind == config::Kind::number) return value.number;
    if (text(key) == "nan") return std::numeric_limits<double>::quiet_NaN();
    return (text(key) == "-inf" ? -1 : 1) * std::numeric_limits<double>::infinity();
  }
  const std::vector<config::Member>& all() const { return object_.members; }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(ErrorKind::model, "E-CHECKPOINT", message(path_, ": ", what));
  }

  const config::Value& object_;
  const std::string& path_;
};

Json scaler_json(const amp::ScalerState& state) {
  return Json::object()
      .set("scale", state.scale.scale)
      .set("clean", state.scale.clean)
      .set("hysteresis_left", state.scale.hysteresis_left)
      .set("rounds", state.rounds)
      .set("skipped_overflow", state.skipped_overflow)
      .set("skipped_nonfinite", state.skipped_nonfinite)
      .set("consecutive_skips", state.consecutive_skips);
}

amp::ScalerState scaler_of(const Members& json) {
  amp::ScalerState state;
  state.scale = {.scale = json.number("scale"),
                 .clean = json.integer("clean"),
                 .hysteresis_left = json.integer("hysteresis_left")};
  state.rounds = json.integer("rounds");
  state.skipped_overflow = json.integer("skipped_overflow");
  state.skipped_nonfinite = json.integer("skipped_nonfinite");
  state.consecutive_skips = json.integer("consecutive_skips");
  return state;
}

Json best_json(const RunState::Best& best) {
  const Confusion& counts = best.metrics.confusion;
  Json rows = Json::array();
  for (int64_t truth = 0; truth < counts.classes(); ++truth) {
    Json row = Json::array();
    for (int64_t taken = 0; taken < counts.classes(); ++taken) row.push(counts.at(truth, taken));
    rows.push(std::move(row));
  }
  return Json::object()
      .set("step", best.step)
      .set("weights", best.weights)
      .set("loss", exact(best.metrics.loss))
      .set("confusion", std::move(rows));
}

RunState::Best best_of(const Members& json) {
  const std::vector<config::Value>& rows = json.items("confusion");
  Confusion counts(std::ssize(rows));
  for (int64_t truth = 0; truth < std::ssize(rows); ++truth) {
    const std::vector<config::Value>& row = rows[static_cast<size_t>(truth)].items;
    for (int64_t taken = 0; taken < std::ssize(row); ++taken) {
      counts.add(truth, taken, json.integer(row[static_cast<size_t>(taken)]));
    }
  }
  return {.step = json.integer("step"),
          .weights = json.text("weights"),
          .metrics = Metrics(std::move(counts), json.number("loss"))};
}

}  // namespace

std::string RunState::json() const {
  Json keys = Json::object();
  for (const auto& [key, value] : trajectory) keys.set(key, value);
  Json state = Json::object()
                   .set("step", step)
                   .set("updates", updates)
                   .set("tokens", tokens)
                   .set("skipped", skipped)
                   .set("evaluated_at", evaluated_at)
                   .set("evaluations_since_best", evaluations_since_best)
                   .set("scaler", scaler_json(scaler))
                   .set("culprit", culprit)
                   .set("best", best ? best_json(*best) : Json())
                   .set("trajectory", std::move(keys));
  if (!more_scalers.empty()) {
    Json others = Json::object();
    for (const auto& [name, other] : more_scalers) others.set(name, scaler_json(other));
    state.set("more_scalers", std::move(others));
  }
  return state.pretty();
}

RunState parse_run_state(std::string_view text, const std::string& path) {
  const config::Document document = config::read_json(text);
  if (!document.problems.empty()) {
    fail(ErrorKind::model, "E-CHECKPOINT", message(path, ": is no JSON: ", document.problems.front().text));
  }
  const Members json(document.root, path);
  RunState state;
  state.step = json.integer("step");
  state.updates = json.integer("updates");
  state.tokens = json.integer("tokens");
  state.skipped = json.integer("skipped");
  state.evaluated_at = json.integer("evaluated_at");
  state.evaluations_since_best = json.integer("evaluations_since_best");
  state.scaler = scaler_of(json.object("scaler"));
  if (config::find_member(document.root, "more_scalers") != nullptr) {
    const Members others = json.object("more_scalers");
    for (const config::Member& member : others.all()) {
      state.more_scalers[member.key] = scaler_of(others.object(member.key));
    }
  }
  state.culprit = json.text("culprit");
  if (json.has("best")) state.best = best_of(json.object("best"));
  const Members keys = json.object("trajectory");
  for (const config::Member& member : keys.all()) state.trajectory.emplace_back(member.key, keys.text(member.key));
  return state;
}

}  // namespace mixtape::trainer
