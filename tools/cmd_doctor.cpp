// mixtape doctor: what this program can do on this machine.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>

#include "core/device_report.h"
#include "core/error.h"
#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "tools/commands.h"
#include "tools/config/build_info.h"
#include "tools/config/fields.h"
#include "tools/trainer/json.h"

namespace mixtape::tools {
namespace {
using trainer::Json;

struct Facts {
  config::BuildInfo build = config::build_info();
  config::MachineInfo machine = config::machine_info();
  int threads = kernels::thread_count();
  const char* omp_num_threads = std::getenv("OMP_NUM_THREADS");
  bool native_bf16 = kernels::gemm_native_bf16();
  int64_t disk = config::free_disk(".");
  DeviceReport device = device_report();
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(text.empty() ? 0 : 1);
  for (const char c : text) {
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  }
  return words;
}

/// Instruction sets that the processor has and this build's own loops do not use.
std::vector<std::string> unused_instructions(const Facts& facts) {
  const std::vector<std::string> used = words_of(facts.build.instructions);
  std::vector<std::string> out;
  for (const std::string& set : facts.machine.instructions) {
    if (std::find(used.begin(), used.end(), set) == used.end()) out.push_back(set);
  }
  return out;
}

std::string gibibytes(int64_t bytes) {
  if (bytes < 0) return "unknown";
  return message(std::round(static_cast<double>(bytes) / 0x1p30 * 10) / 10, " GiB");
}

std::string line(const std::string& what, const std::string& text) {
  return what + std::string(std::max<size_t>(18, what.size() + 1) - what.size(), ' ') + text + "\n";
}

std::string version_of(int cuda) { return message(cuda / 1000, ".", cuda % 1000 / 10); }

std::string driver(const config::MachineInfo& machine) {
  if (machine.cuda_driver.empty()) return "this machine has no NVIDIA driver";
  return message("the machine has driver ", machine.cuda_driver, " and ", config::joined(machine.gpus, ", ", "no GPU"));
}

/// Why everything runs on the CPU; empty when a device can be used.
std::string why_cpu_alone(const Facts& facts) {
  const std::string why = why_no_device(facts.device);
  if (why.empty()) return "";
  const bool is_driver_asked = facts.device.module.empty() || facts.device.has_facts;
  return message("everything runs on the CPU: ", why, is_driver_asked ? "; " + driver(facts.machine) : "");
}

std::string name_of(const DeviceFacts& facts, int i) {
  const DeviceFacts::Gpu& gpu = facts.devices[i];
  const std::string codes = facts.architectures;
  const bool runs = codes.empty() || runs_on(codes, gpu.major, gpu.minor);
  return message("cuda:", i, " ", gpu.name, ", compute capability ", gpu.major, ".", gpu.minor, ", ",
                 gibibytes(gpu.memory_bytes),
                 i > 0  ? "; not used: one device a process, CUDA_VISIBLE_DEVICES says which"
                 : runs ? ""
                        : "; the module has no code for it: build with MIXTAPE_CUDA_ARCHITECTURES=" +
                              std::to_string(10 * gpu.major + gpu.minor));
}

/// One line for each thing that was found, the first of which names it.
std::string cuda(const Facts& facts) {
  const DeviceReport& device = facts.device;
  const std::string why = why_cpu_alone(facts);
  std::string out;
  const auto add = [&](const std::string& text) { out += line(out.empty() ? "cuda" : "", text); };
  if (!why.empty()) add(why);
  if (device.module.empty()) {
    add(message("looked for ", config::joined(device.looked, ", ", "nothing"),
                " (the last one where the system looks)"));
    return out;
  }
  if (device.has_facts) {
    const std::string codes = device.facts.architectures;
    add(message("module ", device.module, codes.empty() ? "" : ", compiled for " + codes));
    add(message("CUDA ", version_of(device.facts.runtime), " in the module, ",
                device.facts.driver > 0 ? "the driver knows CUDA up to " + version_of(device.facts.driver)
                                        : std::string("no driver that it could ask")));
    for (int i = 0; i < device.facts.count; ++i) add(name_of(device.facts, i));
  }
  return out;
}

std::string cores(const config::MachineInfo& machine) {
  std::string out = message(machine.affinity, machine.affinity == 1 ? " core" : " cores", " for this process");
  if (machine.cpu_limit > 0) out += message(", its cgroup allows the time of ", machine.cpu_limit);
  return out;
}

std::string instructions(const Facts& facts) {
  const std::string unused = config::joined(unused_instructions(facts), " ", "");
  return message(facts.build.instructions, " used (-march=", facts.build.architecture, ")",
                 unused.empty() ? "; the processor has no more of those that matter here"
                                : message("; the processor also has ", unused));
}

std::string report(const Facts& facts) {
  const auto& [build, machine, threads, omp_num_threads, native_bf16, disk, device] = facts;
  std::string out = line("program", message("mixtape ", build.version, ", ", build.compiler));
  out += line("system", machine.system.empty() ? "unknown" : machine.system);
  out += line("processor", message(machine.cpu.empty() ? "unknown" : machine.cpu, ", ", cores(machine)));
  out += line("instructions", instructions(facts));
  out += line("matrix products", message(build.gemm, " ", build.gemm_version,
                                         native_bf16 ? "; bf16 is multiplied directly"
                                                     : "; bf16 goes through f32: it saves memory, not time"));
  out += line("", "fp16 is storage on the CPU: converted, multiplied in f32, rounded once; it does not speed up");
  out += line("threads", message(threads, omp_num_threads ? message(" (OMP_NUM_THREADS=", omp_num_threads, ")") : ""));
  out += line("memory", message(gibibytes(machine.memory_free), " available of ", gibibytes(machine.memory_total),
                                machine.memory_limit > 0
                                    ? message(", of which the cgroup allows ", gibibytes(machine.memory_limit))
                                    : ", no cgroup limit"));
  out += line("disk", gibibytes(disk) + " free in the current directory");
  out += cuda(facts);
  return out;
}

Json limit(double value) { return value > 0 ? Json(value) : Json(); }
Json limit(int64_t value) { return value > 0 ? Json(value) : Json(); }

Json cuda_as_json(const Facts& facts) {
  const DeviceReport& device = facts.device;
  const std::string why = why_cpu_alone(facts);
  const auto text = [](const std::string& value) { return value.empty() ? Json() : Json(value); };
  Json devices = Json::array();
  for (int i = 0; i < device.facts.count; ++i) {
    const DeviceFacts::Gpu& gpu = device.facts.devices[i];
    devices.push(Json::object()
                     .set("name", std::string(gpu.name))
                     .set("compute_capability", message(gpu.major, ".", gpu.minor))
                     .set("memory_bytes", gpu.memory_bytes)
                     .set("has_code", runs_on(device.facts.architectures, gpu.major, gpu.minor)));
  }
  return Json::object()
      .set("built", device.has_facts)
      .set("usable", why.empty())
      .set("reason", text(why))
      .set("looked_for", device.looked)
      .set("module", text(device.module))
      .set("architectures", words_of(device.has_facts ? device.facts.architectures : ""))
      .set("error", device.has_facts && device.facts.status != 0 ? Json(device.facts.error) : Json())
      .set("driver", text(facts.machine.cuda_driver))
      .set("driver_cuda", device.facts.driver > 0 ? Json(version_of(device.facts.driver)) : Json())
      .set("runtime_cuda", device.has_facts ? Json(version_of(device.facts.runtime)) : Json())
      .set("gpus", facts.machine.gpus)
      .set("devices", devices);
}

Json as_json(const Facts& facts) {
  const auto& [build, machine, threads, omp_num_threads, native_bf16, disk, device] = facts;
  Json out = Json::object();
  out.set("version", build.version).set("compiler", build.compiler).set("system", machine.system);
  out.set("processor", Json::object()
                           .set("name", machine.cpu)
                           .set("cores", machine.cores)
                           .set("affinity", machine.affinity)
                           .set("cgroup_limit", limit(machine.cpu_limit))
                           .set("instructions", machine.instructions));
  out.set("build", Json::object()
                       .set("architecture", build.architecture)
                       .set("instructions", words_of(build.instructions))
                       .set("unused_instructions", unused_instructions(facts)));
  out.set("gemm",
          Json::object().set("engine", build.gemm).set("version", build.gemm_version).set("native_bf16", native_bf16));
  out.set("threads", threads).set("omp_num_threads", omp_num_threads ? Json(omp_num_threads) : Json());
  out.set("memory", Json::object()
                        .set("total_bytes", machine.memory_total)
                        .set("available_bytes", machine.memory_free)
                        .set("limit_bytes", limit(machine.memory_limit)));
  out.set("disk", Json::object().set("free_bytes", disk < 0 ? Json() : Json(disk)));
  out.set("cuda", cuda_as_json(facts));
  return out;
}

}  // namespace

void add_doctor(Program& program) {
  Verb verb = program.root.add("doctor", "what this program can do on this machine");
  const auto json = std::make_shared<bool>(false);
  verb.flag("--json", *json, "the same as one line of JSON");
  verb.action([json] { print(*json ? as_json(Facts{}).line() + "\n" : report({})); });
}

}  // namespace mixtape::tools
