// What the sub-verbs of `mixtape bench` measure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/config/config.h"

namespace mixtape::tools {

struct StepBench {
  int64_t batch = 16, seq = 64;
  int64_t steps = 5, warmup = 2;
  std::vector<int64_t> lengths;  ///< of the texts, in order, the warm-up's first; empty: all have `seq` tokens
  bool has_vocabulary = false;   ///< `config` names one; else BERT's size is taken
  bool infer = false;            ///< a forward without tape and dropout, not a training step
  bool composed = false;         ///< without fused rows
  bool json = false;
};
/// Times training steps, or inference, of the configuration's model on random ids. Returns a report, or a line of JSON.
std::string bench_step(const config::Config& config, const StepBench& options);

/// Times single ops at BERT shapes, in f32 and bf16. Returns a table, or a line of JSON.
std::string bench_ops(int64_t batch, int64_t seq, bool json);

/// The largest errors of core/maths.h over every `every`-th float. Returns a table, or a line of JSON.
std::string bench_maths(int64_t every, bool json);

/// Tokenizes all texts on one core, again and again for a second. Returns a report, or a line of JSON.
std::string bench_tokenize(const std::string& vocab, bool lowercase, int64_t max_length,
                           const std::vector<std::string>& texts, bool json);

}  // namespace mixtape::tools
