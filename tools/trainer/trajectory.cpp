#include "tools/trainer/trajectory.h"

#include <map>

#include "core/error.h"
#include "core/kernels/parallel.h"
#include "tools/config/fields.h"
#include "tools/config/show.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/task.h"

namespace mixtape::trainer {
namespace {

std::string content(const std::string& digits) { return "\"xxh3-128 of the content: " + digits + "\""; }

std::string hash_of_data(const config::TaskConfig& task) {
  Hash hash;
  for (const std::string& file : data::data_files(data_format(task), task.data_dir)) {
    hash.add(message(file, " ", hash_of_file(message(task.data_dir, "/", file)), "\n"));
  }
  return hash.digits();
}

std::string value_of(const config::Field& field, const config::Config& config, const std::string& start_weights) {
  const std::string path = field.path();
  if (path == "task.data_dir") return content(hash_of_data(config.task));
  if (path == "tokenizer.vocab") return content(hash_of_file(config.tokenizer.vocab));
  if (path == "model.pretrained") return config.model.pretrained.empty() ? "null" : content(start_weights);
  if (path == "amp.policy" && config.amp.policy.ends_with(".json")) return content(hash_of_file(config.amp.policy));
  if (path == "threads") return message(kernels::thread_count());  // what 0 means depends on the machine
  return field.json(config);
}

}  // namespace

Trajectory trajectory_of(const config::Config& config, const std::string& start_weights) {
  Trajectory out;
  for (const config::Field& field : config::fields()) {
    if (field.trajectory && config::counts(config, field)) {
      out.emplace_back(field.path(), value_of(field, config, start_weights));
    }
  }
  return out;
}

std::string hash_of(const Trajectory& trajectory) {
  Hash hash;
  for (const auto& [key, value] : trajectory) hash.add(message(key, " = ", value, "\n"));
  return hash.digits();
}

std::vector<Change> changes_between(const Trajectory& before, const Trajectory& now) {
  std::vector<Change> changes;
  std::map<std::string, std::string> old(before.begin(), before.end());
  for (const auto& [key, value] : now) {
    const auto was = old.find(key);
    if (was == old.end() || was->second != value) {
      changes.push_back({key, was == old.end() ? "absent" : was->second, value});
    }
    if (was != old.end()) old.erase(was);
  }
  for (const auto& [key, value] : old) changes.push_back({key, value, "absent"});
  return changes;
}

std::string text_of(const std::vector<Change>& changes) {
  std::string out;
  for (const Change& change : changes) {
    out += message(out.empty() ? "" : "\n", "  ", change.key, ": ", change.before, " -> ", change.now);
  }
  return out;
}

}  // namespace mixtape::trainer
