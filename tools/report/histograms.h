// Histograms of the numbers of a training step over powers of two, and what a 16-bit format makes of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mixtape::report {

/// Of all numbers of a place, those that are not zero by themselves, by what the format makes of them.
struct FormatShares {
  double flush = 0;      ///< becomes 0
  double subnormal = 0;  ///< keeps fewer digits
  double normal = 0;
  double overflow = 0;  ///< becomes inf, or was not finite
};

/// The numbers of one kind at one place of the model.
struct Distribution {
  std::string place;  ///< "encoder.layer.7.*"; "" for the whole model
  int64_t count = 0;
  double zero = 0;           ///< the share of zeros; with each of the two below it makes 1
  int lowest = 0;            ///< the power of two of the first bin: it holds |x| in [2^lowest, 2^(lowest + 1))
  std::vector<double> bins;  ///< shares; empty: there is nothing but zeros
  FormatShares before;       ///< at scale 1
  FormatShares after;        ///< at the scale of the step
};

/// All places of one kind, the whole model first.
struct Kind {
  std::string name;       ///< "activation gradients"
  std::string note = {};  ///< how the program keeps these numbers: "weight gradients; this program keeps them in f32"
  bool scaled = false;    ///< a loss scale multiplies it
  std::vector<Distribution> places;
};

struct Histograms {
  std::string dtype;  ///< the format that is asked about: "f16", "bf16"
  int64_t step = 0;
  double scale = 1;
  int flush_below = -24;      ///< |x| < 2^this becomes 0 (what is above half of it rounds up)
  int subnormal_below = -14;  ///< |x| < 2^this loses digits
  int overflow_from = 16;     ///< |x| >= 2^this becomes inf
  std::vector<Kind> kinds;
};

}  // namespace mixtape::report
