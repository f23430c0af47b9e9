// mixtape doctor: what this program can do on this machine.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "tools/commands.h"
#include "tools/config/build_info.h"

namespace mixtape::tools {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out.empty() ? "none of those that matter here" : out;
}

std::string gibibytes(int64_t bytes) {
  if (bytes < 0) return "unknown";
  return message(std::round(static_cast<double>(bytes) / 0x1p30 * 10) / 10, " GiB");
}

std::string line(const std::string& what, const std::string& text) {
  return what + std::string(std::max<size_t>(18, what.size() + 1) - what.size(), ' ') + text + "\n";
}

std::string threads() {
  const char* limit = std::getenv("OMP_NUM_THREADS");
  return message(kernels::thread_count(), limit == nullptr ? "" : message(" (OMP_NUM_THREADS=", limit, ")"));
}

std::string report() {
  const config::BuildInfo build = config::build_info();
  const config::MachineInfo machine = config::machine_info();
  const int64_t disk = config::free_disk(".");
  std::string out = line("program", message("mixtape ", build.version, ", ", build.compiler));
  out += line("system", machine.system.empty() ? "unknown" : machine.system);
  out += line("processor", message(machine.cpu.empty() ? "unknown" : machine.cpu, ", ", machine.cores,
                                   machine.cores == 1 ? " core" : " cores", " for this process"));
  out += line("instructions", message(build.instructions, " used (-march=", build.architecture, "); the processor has ",
                                      joined(machine.instructions)));
  out += line("matrix products",
              message(build.gemm, kernels::gemm_native_bf16() ? "; bf16 is multiplied directly"
                                                              : "; bf16 goes through f32: it saves memory, not time"));
  out += line("", "fp16 is storage on the CPU: converted, multiplied in f32, rounded once; it does not speed up");
  out += line("threads", threads());
  out += line("memory", gibibytes(machine.memory_free) + " free of " + gibibytes(machine.memory));
  out += line("disk", gibibytes(disk) + " free in the current directory");
  out += line("cuda", "not built yet: everything runs on the CPU");
  return out;
}

}  // namespace

void add_doctor(Program& program) {
  program.root.add("doctor", "what this program can do on this machine").action([] { print(report()); });
}

}  // namespace mixtape::tools
