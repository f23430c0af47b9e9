// teach swallow: small updates of a weight that is held in 16 bits, and of one with an fp32 master.
#pragma once

#include "tools/teach/format.h"
#include "tools/trainer/json.h"

namespace mixtape::teach {

struct SwallowOptions {
  DType dtype = DType::f16;
  double weight = 1;
  double update = 2e-5;  ///< added at each step
  int64_t steps = 100;
};

/// One weight on its way: [step], the start first.
struct Walk {
  std::vector<double> weight;
  int64_t moved = 0;  ///< steps that changed it
};

struct Swallow {
  SwallowOptions options;
  Format format;
  Walk low;                  ///< held in the format alone
  Walk master;               ///< held in fp32
  std::vector<double> copy;  ///< what the model sees of the master: the nearest number of the format
  double start = 0;          ///< the weight as the format holds it
  double half_ulp_above = 0, half_ulp_below = 0;  ///< around the start: smaller updates are lost there
};

/// Both weights are stepped by optim::SGD, which computes in fp32 and rounds once to what the weight is held in.
Swallow swallow(const SwallowOptions& options);

std::string swallow_text(const Swallow& lesson);
trainer::Json swallow_json(const Swallow& lesson);

}  // namespace mixtape::teach
