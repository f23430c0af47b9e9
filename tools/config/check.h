// From a document to a Config: every key and value against the field table, then the rules between fields.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tools/config/config.h"
#include "tools/config/fields.h"
#include "tools/config/json_locate.h"

namespace mixtape::config {

/// What checking collects on its way. Nothing is thrown: all problems are wanted at once.
struct Checking {
  std::string name;       ///< of the file, in messages
  std::string directory;  ///< what relative paths start from; absolute or ""
  Config config = {};
  std::vector<Problem> key_problems = {};          ///< unknown keys: they come first, as they explain the others
  std::vector<Problem> value_problems = {};        ///< in the order of the file
  std::set<std::string, std::less<>> spoilt = {};  ///< fields with a problem: no rule is applied to them

  Origin origin_of(Position at) const;
  /// `trainer.warmup_steps = 5 (my.json:3:5)`
  std::string located(std::string_view path) const;
};

/// Puts the argument of one --set ("trainer.seed=7") into the document, over what is there.
void apply_set(Value& root, const std::string& argument, std::vector<Problem>& problems);

/// Every key and value of an object of the file; `section` is "" for the outermost.
void check_object(Checking& checking, const Value& object, const std::string& section);

/// Required fields, contradictions between fields, and warnings about keys that cannot act.
void check_rules(Checking& checking, const Value& root);

/// "my.json:14:5", or "--set" for the command line.
std::string place_text(const std::string& name, Position at);

/// A place line and a text line for each problem.
std::string problem_lines(const std::string& severity, const std::string& name, const std::vector<Problem>& problems);

}  // namespace mixtape::config
