// What libFuzzer calls, the same for every target.
#include <cstddef>
#include <cstdint>

#include "core/error.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace mixtape;
  try {
    fuzz::check({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    const bool told = !error.code().empty() && error.what()[0] != '\0';
    fuzz::require(told && error.kind() != ErrorKind::internal, "a refusal says why, and does not call itself a fault");
  }
  return 0;
}
