#include "tools/config/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "tools/config/check.h"

namespace mixtape::config {
namespace {

constexpr size_t kMostBytes = 1'000'001;  // one more than the reader takes, so that it can complain
constexpr size_t kMostProblems = 200;     // more is a file of another program
constexpr size_t kLongestSubject = 160;

std::string cut(const std::string& text, size_t length) {
  return text.size() <= length ? text : text.substr(0, length) + "…";
}

std::string read_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail(ErrorKind::config, "E-CONFIG-FILE", message(path, ": this is a directory; give the configuration file"));
  }
  if (!std::filesystem::exists(path, ignored)) {
    fail(ErrorKind::config, "E-CONFIG-FILE", message(path, ": no such configuration file"));
  }
  std::ifstream in(path, std::ios::binary);
  if (!in)
    fail(ErrorKind::io, "E-IO-READ", message(path, ": the configuration file cannot be opened; may it be read?"));
  std::string text(kMostBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) fail(ErrorKind::io, "E-IO-READ", message(path, ": reading failed"));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

std::string directory_of(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.is_absolute()) return file.parent_path().string();
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  return (here / file).parent_path().lexically_normal().string();
}

[[noreturn]] void give_up(const std::string& name, std::vector<Problem> problems) {
  const size_t count = problems.size();
  problems.resize(std::min(count, kMostProblems));
  std::string text = problem_lines("error", name, problems);
  if (count > kMostProblems) text += message("… and ", static_cast<int64_t>(count - kMostProblems), " more\n");
  text += message(static_cast<int64_t>(count), count == 1 ? " error" : " errors", ", nothing was started.");
  throw Error(ErrorKind::config, "E-CONFIG", text);
}

}  // namespace

std::string place_text(const std::string& name, Position at) {
  return at.line == 0 ? "--set" : message(name, ":", at.line, ":", at.column);
}

std::string problem_lines(const std::string& severity, const std::string& name, const std::vector<Problem>& problems) {
  size_t code_width = 0, place_width = 0;
  for (const Problem& problem : problems) {
    code_width = std::max(code_width, problem.code.size());
    place_width = std::max(place_width, place_text(name, problem.at).size());
  }
  std::string out;
  for (const Problem& problem : problems) {
    const std::string place = place_text(name, problem.at);
    out += severity + " " + problem.code + std::string(code_width - problem.code.size(), ' ') + "  " + place;
    if (!problem.subject.empty())
      out += std::string(place_width - place.size(), ' ') + "  " + cut(problem.subject, kLongestSubject);
    out += "\n  " + problem.text + "\n";
  }
  return out;
}

std::string Origin::text() const {
  switch (kind) {
    case Kind::by_default: return "default";
    case Kind::file: return message(file, ":", line, ":", column);
    case Kind::command_line: return "--set";
    case Kind::pretrained: return "model.pretrained";
  }
  return {};
}

Origin Config::origin(std::string_view path) const {
  const auto found = origins.find(path);
  return found == origins.end() ? Origin{} : found->second;
}

bool Config::written(std::string_view path) const {
  const Origin::Kind kind = origin(path).kind;
  return kind == Origin::Kind::file || kind == Origin::Kind::command_line;
}

Config load_config(const std::string& path, const std::vector<std::string>& sets) {
  return parse_config(read_file(path), path, directory_of(path), sets);
}

Config parse_config(std::string_view text, const std::string& name, const std::string& directory,
                    const std::vector<std::string>& sets) {
  Document document = read_json(text);
  if (document.complete && document.root.kind != Kind::object && document.root.kind != Kind::invalid) {
    document.problems.push_back(
        {"E-CONFIG-TYPE", document.root.at, spelling(document.root), "a configuration is one object: { … }"});
    document.complete = false;
  }
  if (!document.complete) give_up(name, std::move(document.problems));
  std::vector<Problem> problems = std::move(document.problems);
  for (const std::string& set : sets) apply_set(document.root, set, problems);
  Checking checking{.name = name, .directory = directory};
  check_object(checking, document.root, "");
  check_rules(checking, document.root);
  for (std::vector<Problem>* more : {&checking.key_problems, &checking.value_problems}) {
    problems.insert(problems.end(), std::make_move_iterator(more->begin()), std::make_move_iterator(more->end()));
  }
  if (!problems.empty()) give_up(name, std::move(problems));
  return std::move(checking.config);
}

}  // namespace mixtape::config
