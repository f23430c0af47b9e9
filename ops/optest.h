// The op-table runner: everything that a row of the table gets from its samples alone. Installed, so that ops outside
// this tree are held to the same standard. Bounds and checks: docs of the project, "an op, end to end".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/op.h"

namespace mixtape::optest {

struct Report {
  std::string op;
  int passed = 0;
  std::vector<std::string> failures;  ///< "sample 3, backward bf16: …"
};

/// Runs every check of one row.
Report check_op(const OpSchema& op);

/// The program: `--op NAME` (may be repeated) for single rows, all rows without; prints a line a row and ends in
/// "N passed, N failed". Returns the exit code.
int run(int argc, char** argv);

}  // namespace mixtape::optest
