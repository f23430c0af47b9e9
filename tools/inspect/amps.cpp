#include "tools/inspect/amps.h"

#include <algorithm>

#include "core/error.h"
#include "tools/trainer/setup.h"

namespace mixtape::inspect {

std::vector<std::string> parse_amps(const std::string& list) {
  std::vector<std::string> amps;
  for (size_t start = 0, end = 0; start <= list.size(); start = end + 1) {
    end = std::min(list.find(',', start), list.size());
    std::string amp = list.substr(start, end - start);
    if (amp == "fp32") amp = "off";
    const bool known = amp == "off" || amp == "bf16" || amp == "fp16";
    if (!known || std::find(amps.begin(), amps.end(), amp) != amps.end()) {
      fail(ErrorKind::config, "E-USAGE",
           message("--amp ", list, ": \"", amp, known ? "\" comes twice" : "\" is none of off, bf16 and fp16",
                   ": write --amp off,bf16,fp16, or some of these"));
    }
    amps.push_back(std::move(amp));
  }
  return amps;
}

config::Config amp_config(const std::string& file, std::vector<std::string> sets, const std::string& amp) {
  sets.push_back("amp.dtype=" + amp);
  config::Config config = config::load_config(file, sets);
  trainer::take_from_pretrained(config);
  return config;
}

}  // namespace mixtape::inspect
