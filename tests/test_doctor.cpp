// What doctor reads of a machine: from /proc and /sys of our own making, and from outside.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>

#include "core/device_report.h"
#include "core/machine.h"
#include "tests/tiny_run.h"
#include "tools/config/build_info.h"

namespace mixtape::tests {
namespace {
namespace fs = std::filesystem;
using config::machine_info;
using config::MachineInfo;

/// A machine of 16 GiB, 8 of them available, with the files that a test adds.
class Machine {
 public:
  Machine() {
    file("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:          100 kB\nMemAvailable:    8388608 kB\n");
    file("proc/cpuinfo",
         "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu avx2 avx512f fma\n\nprocessor\t: 1\n");
  }
  Machine& file(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(folder_.path(name)).parent_path());
    folder_.write(name, text);
    return *this;
  }
  std::string path() const { return folder_.path(); }
  MachineInfo read() const { return machine_info(folder_.path()); }

 private:
  TempFolder folder_;
};
constexpr int64_t GiB = int64_t{1} << 30;

/// The program in a folder of its own, bin/mixtape, and what a test puts beside it.
class InstalledProgram {
 public:
  InstalledProgram() {
    for (const char* folder : {"bin", "lib"}) fs::create_directories(folder_.path(folder));
    fs::copy_file(MIXTAPE_PROGRAM, path("bin/mixtape"));
  }
  std::string path(const std::string& name) const { return fs::canonical(folder_.path()).string() + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    folder_.write(name, text);
    return path(name);
  }
  ProgramResult run(const std::string& words) const {
    return run_program(words, "", "sh -c 'exec \"" + path("bin/mixtape") + "\" \"$@\"'");
  }
  nlohmann::json cuda() const { return nlohmann::json::parse(run("doctor --json").out).at("cuda"); }

 private:
  TempFolder folder_;
};

}  // namespace

TEST_CASE("doctor: processor and memory of a machine without limits") {
  const MachineInfo machine = Machine().file("proc/self/cgroup", "0::/\n").read();
  CHECK(machine.cpu == "Some CPU @ 2 GHz");
  CHECK(machine.instructions == std::vector<std::string>{"avx2", "fma", "avx512f"});
  CHECK(machine.memory == 16 * GiB);
  CHECK(machine.memory_total == 16 * GiB);
  CHECK(machine.memory_limit == 0);
  CHECK(machine.memory_free == 8 * GiB);
  CHECK(machine.cpu_limit == 0);
  CHECK(machine.cores == machine.affinity);
  CHECK(machine.cuda_driver.empty());
  CHECK(machine.gpus.empty());
}

TEST_CASE("doctor: a machine that tells nothing is no error") {
  const TempFolder empty;
  const MachineInfo machine = machine_info(empty.path());
  CHECK(machine.cpu.empty());
  CHECK(machine.memory == 0);
  CHECK(machine.memory_free == 0);
}

TEST_CASE("doctor: limits of cgroups, version 2, the tightest of all ancestors") {
  Machine machine;
  machine.file("proc/self/cgroup", "0::/user/run\n");
  machine.file("sys/fs/cgroup/user/memory.max", "4294967296\n")
      .file("sys/fs/cgroup/user/memory.current", "1073741824\n");
  machine.file("sys/fs/cgroup/user/run/memory.max", "max\n").file("sys/fs/cgroup/user/run/cpu.max", "50000 100000\n");
  machine.file("sys/fs/cgroup/user/cpu.max", "max 100000\n");
  CHECK(machine.read().memory_limit == 4 * GiB);
  CHECK(machine.read().memory == 4 * GiB);
  CHECK(machine.read().memory_total == 16 * GiB);
  CHECK(machine.read().memory_free == 3 * GiB);
  CHECK(machine.read().cpu_limit == 0.5);
  CHECK(machine.read().cores == 1);
  machine.file("sys/fs/cgroup/user/memory.stat", "anon 1\ninactive_file_x 5\ninactive_file 536870912\n");
  CHECK(machine.read().memory_free == 3 * GiB + GiB / 2);  // cached files are dropped when memory is wanted
  machine.file("sys/fs/cgroup/user/memory.current", "9000000000\n");
  CHECK(machine.read().memory_free == 0);
}

TEST_CASE("doctor: limits of cgroups, version 1") {
  Machine machine;
  machine.file("proc/self/cgroup", "4:memory:/a/b\n3:cpu,cpuacct:/a\n0::/\n");
  machine.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2147483648\n");
  machine.file("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "536870912\n");
  machine.file("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n")
      .file("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  machine.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "25000\n").file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(machine.read().memory_limit == 2 * GiB);
  CHECK(machine.read().memory_free == 2 * GiB - GiB / 2);
  CHECK(machine.read().cpu_limit == 0.25);
  // A limit above what the machine has limits nothing.
  machine.file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "99999999999999\n");
  CHECK(machine.read().memory_limit == 0);
  CHECK(machine.read().memory_free == 8 * GiB);
}

TEST_CASE("doctor: a GPU and its driver are named") {
  Machine machine;
  machine.file(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:\n");
  machine.file("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ:   1\n");
  CHECK(machine.read().cuda_driver == "550.54.15");
  CHECK(machine.read().gpus == std::vector<std::string>{"NVIDIA H200"});
}

TEST_CASE("doctor: as JSON, one line, the same whatever the locale, in a directory that is gone too") {
  const ProgramResult result = run_program("doctor --json");
  REQUIRE(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 1);
  const nlohmann::json facts = nlohmann::json::parse(result.out);
  CHECK(facts["gemm"]["version"].get<std::string>().find('.') != std::string::npos);
  CHECK(facts["gemm"]["native_bf16"].is_boolean());
  CHECK(facts["build"]["instructions"].is_array());
  CHECK(facts["threads"].get<int>() >= 1);
  CHECK(facts["processor"]["cores"].get<int>() >= 1);
  CHECK(facts["memory"]["total_bytes"].get<int64_t>() >= facts["memory"]["available_bytes"].get<int64_t>());
  CHECK(facts["disk"]["free_bytes"].get<int64_t>() > 0);
  CHECK(facts["cuda"]["built"].is_boolean());
  CHECK(facts["cuda"]["usable"] == facts["cuda"]["reason"].is_null());
  const ProgramResult german = run_program("doctor", "", "LC_ALL=de_DE.UTF-8");
  CHECK(german.exit_code == 0);
  CHECK(contains(german.out, "GiB available of "));
  CHECK_FALSE(contains(german.out, ",0 GiB"));
  const ProgramResult gone = run_program("doctor", "", "d=$(mktemp -d) && cd \"$d\" && rmdir \"$d\" &&");
  CHECK(gone.exit_code == 0);
}

TEST_CASE("doctor: where a module of device code was looked for") {
  const InstalledProgram program;
  const std::string bin = program.path("bin/libmixtape_cuda.so"), lib = program.path("lib/libmixtape_cuda.so");
  const nlohmann::json cuda = program.cuda();
  CHECK(cuda["looked_for"] == nlohmann::json{bin, lib, "libmixtape_cuda.so"});
  CHECK(cuda["built"] == false);
  CHECK(cuda["module"].is_null());
  CHECK(cuda["devices"].empty());
  CHECK(cuda["architectures"].empty());
  CHECK(contains(cuda["reason"].get<std::string>(), "everything runs on the CPU: no module of device code was found"));
  const std::string text = program.run("doctor").out;
  CHECK(contains(text, "\ncuda              everything runs on the CPU"));
  CHECK(contains(text, "\n                  looked for " + bin + ", " + lib + ", libmixtape_cuda.so"));
}

TEST_CASE("doctor: a module that cannot be used says why") {
  const InstalledProgram program;
  const std::string module = program.write("lib/libmixtape_cuda.so", "no library");
  nlohmann::json cuda = program.cuda();
  CHECK(cuda["module"] == module);
  CHECK(cuda["built"] == false);
  CHECK(cuda["usable"] == false);
  CHECK(contains(cuda["reason"].get<std::string>(), "device module '" + module + "': cannot be loaded: "));
  Dl_info libm{};
  REQUIRE(dladdr(dlsym(RTLD_DEFAULT, "cbrt"), &libm) != 0);
  fs::create_symlink(libm.dli_fname, program.path("bin/libmixtape_cuda.so"));
  cuda = program.cuda();
  CHECK(cuda["module"] == program.path("bin/libmixtape_cuda.so"));
  CHECK(contains(cuda["reason"].get<std::string>(), "is no module of Mixtape"));
}

TEST_CASE("doctor: which devices a module has code for") {
  const std::string release = "sm_80 sm_90a sm_100 ptx_100", ci = "sm_90a ptx_90a";
  CHECK(runs_on(release, 8, 0));
  CHECK(runs_on(release, 8, 9));  // machine code of the same major version
  CHECK(runs_on(release, 9, 0));
  CHECK(runs_on(release, 12, 0));  // PTX is compiled when it is loaded
  CHECK_FALSE(runs_on(release, 7, 5));
  CHECK_FALSE(runs_on("sm_89", 8, 6));
  CHECK(runs_on(ci, 9, 0));
  CHECK_FALSE(runs_on(ci, 10, 0));  // neither is for anything but 9.0
  CHECK_FALSE(runs_on("sm_90", 10, 0));
  CHECK_FALSE(runs_on("", 9, 0));
}

TEST_CASE("doctor: OMP_NUM_THREADS is shown with its effect") {
  const ProgramResult result = run_program("doctor", "", "OMP_NUM_THREADS=3");
#if defined(__SANITIZE_THREAD__)
  CHECK(contains(result.out, "\nthreads           1 (OMP_NUM_THREADS=3)\n"));
#else
  CHECK(contains(result.out, "\nthreads           3 (OMP_NUM_THREADS=3)\n"));
#endif
}

TEST_CASE("threads 0: the cores that affinity and the cgroup leave, unless OMP_NUM_THREADS says another number") {
  CHECK(usable_cores(Machine().file("proc/self/cgroup", "0::/\n").path()) == affinity_cores());
  Machine second;
  second.file("proc/self/cgroup", "0::/run\n").file("sys/fs/cgroup/run/cpu.max", "50000 100000\n");
  CHECK(usable_cores(second.path()) == 1);
  second.file("sys/fs/cgroup/run/cpu.max", "999900000 100000\n");  // more than there is limits nothing
  CHECK(usable_cores(second.path()) == affinity_cores());
  Machine first;
  first.file("proc/self/cgroup", "3:cpu,cpuacct:/a\n").file("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  first.file("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100001\n");
  CHECK(usable_cores(first.path()) == std::min(2, affinity_cores()));  // rounded up
}

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("threads 0 of a run in a cgroup, with affinity, and with OMP_NUM_THREADS") {
  const std::string step =
      "bench step --json --no-floor --batch 1 --seq 2 --steps 1 --warmup 0 --set model.config.num_hidden_layers=1 "
      "--set "
      "model.config.hidden_size=16 --set model.config.num_attention_heads=2 --set model.config.intermediate_size=16";
  const auto threads = [&](const std::string& before, const std::string& more = "") -> int64_t {
    const ProgramResult result = run_program(step + more, "", before);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out).at("threads");
  };
  CHECK(threads("env -u OMP_NUM_THREADS") == usable_cores());
  CHECK(threads("env -u OMP_NUM_THREADS taskset -c $(taskset -cp $$ | grep -oE '[0-9]+' | tail -n 1)") == 1);
  CHECK(threads("OMP_NUM_THREADS=3") == 3);
  CHECK(threads("OMP_NUM_THREADS=3", " --set threads=2") == 2);
}
#endif

TEST_CASE("more threads than cores are warned about, once, before anything starts") {
  const TinyRun tiny;
  const auto told = [&](int64_t threads, const std::string& verb) {
    const ProgramResult result = run_program(verb + " --set threads=" + std::to_string(threads));
    CHECK(result.exit_code == 0);
    const size_t at = result.err.find("warning W-THREADS  threads = " + std::to_string(threads) + " (--set)");
    if (at != std::string::npos) CHECK(at == result.err.rfind("warning W-THREADS"));
    return at != std::string::npos;
  };
  for (const std::string& verb :
       {"config show '" + tiny.config_path() + "'",
        "train '" + tiny.config_path() + "' --dry-run -s '" + tiny.path("run") + "'",
        std::string("bench step --no-floor --batch 1 --seq 2 --steps 1 --warmup 0 --set "
                    "model.config.num_hidden_layers=1 --set model.config.hidden_size=16 --set "
                    "model.config.num_attention_heads=2")}) {
    CAPTURE(verb);
    CHECK(told(usable_cores() + 1, verb));
    CHECK(!told(usable_cores(), verb));
    CHECK(!told(0, verb));
  }
}

}  // namespace mixtape::tests
