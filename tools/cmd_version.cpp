// mixtape --version
#include "core/error.h"
#include "tools/commands.h"
#include "tools/config/build_info.h"

namespace mixtape::tools {

std::string version_text() {
  const config::BuildInfo build = config::build_info();
  return message("mixtape ", build.version, "\ncompiler         ", build.compiler, "\ninstructions     ",
                 build.instructions, " (-march=", build.architecture, ")\nmatrix products  ", build.gemm, "\n");
}

}  // namespace mixtape::tools
