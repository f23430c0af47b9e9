// The doctest runner; `--fault NAME` runs one planted fault instead, for the process that looks at what it says. On a
// GPU there are no planted faults: they would end the process, or hang it.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "core/kernels/parallel.h"
#include "tests/simt/machine.h"
#include "tests/simt/tally.h"

#if !defined(MIXTAPE_GPU)
#include "tests/simt/faults.h"

namespace mixtape::simt_tests {
namespace {

int run_fault(const std::string& name) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  for (const PlantedFault& fault : planted_faults()) {
    if (fault.name != name) continue;
    fault.run();
    return 0;
  }
  std::fprintf(stderr, "no planted fault is called '%s'\n", name.c_str());
  return 2;
}

}  // namespace

TEST_CASE("every planted fault is found, with its place") {
  for (const PlantedFault& fault : planted_faults()) {
    if (std::find(fault.shows_in.begin(), fault.shows_in.end(), this_build) == fault.shows_in.end()) continue;
    ++faults_planted;
    const std::string output = output_of_fault(fault.name);
    bool all = true;
    for (const std::string& words : fault.words) {
      if (output.find(words) != std::string::npos) continue;
      all = false;
      CHECK_MESSAGE(false, std::string(fault.name), " does not say '", words, "', but:\n", output);
    }
    faults_found += all;
  }
}

}  // namespace mixtape::simt_tests
#endif

int main(int count, char** arguments) {
  using namespace mixtape;
#if !defined(MIXTAPE_GPU)
  if (count == 3 && std::string(arguments[1]) == "--fault") return simt_tests::run_fault(arguments[2]);
  kernels::set_thread_count(1);  // the race detector does not see OpenMP's barriers
#endif
  simt_tests::prepare_machine();
  const int status = doctest::Context(count, arguments).run();
  const simt_tests::Tally& tally = simt_tests::tally();
  std::printf("%s: %zu rows, %zu kernels, %d cases", simt_tests::machine_name, tally.rows.size(),
              simt_tests::kernels_launched(), tally.cases);
#if !defined(MIXTAPE_GPU)
  std::printf(", planted faults found: %d of %d", simt_tests::faults_found, simt_tests::faults_planted);
#endif
  std::printf("\n");
  if (simt_tests::races_reported() == 0) return status;
  std::printf("data races reported: %d\n", simt_tests::races_reported());
  return 1;
}
