// What the sub-verbs of `mixtape bench` measure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "tools/config/config.h"

namespace mixtape::tools {

struct StepBench {
  int64_t batch = 16, seq = 64;
  int64_t steps = 5, warmup = 2;
  std::vector<int64_t> lengths;  ///< of the texts, in order, the warm-up's first; empty: all have `seq` tokens
  bool has_vocabulary = false;   ///< `config` names one; else BERT's size is taken
  bool infer = false;            ///< a forward without tape and dropout, not a training step
  std::string composed = "";     ///< fused rows that run as the ops they stand for: "a,b", "all" or none
  bool floor = true;             ///< measure the machine too, and say how far the step is from its best
  bool json = false;
};
/// Times training steps, or inference, of the configuration's model on random ids. Returns a report, or a line of JSON.
std::string bench_step(const config::Config& config, const StepBench& options);

/// What this machine does at best: matrix products in f32 and bf16, and memory. Returns a table, or a line of JSON.
std::string bench_machine(bool json);
/// Operations a second of one large product by the engine of this build: the median of some.
double gemm_rate(DType dtype);
/// Bytes a second of a[i] = b[i] + s·c[i] over arrays much larger than the cache, by all threads: 24 an element, as in
/// McCalpin's STREAM, which does not count that a line is read before it is written.
double triad_rate();
int64_t triad_array_bytes();  ///< of each of its three

/// Times single ops at BERT shapes, in f32 and bf16. Returns a table, or a line of JSON.
std::string bench_ops(int64_t batch, int64_t seq, bool json);

/// The largest errors of core/maths.h over every `every`-th float. Returns a table, or a line of JSON.
std::string bench_maths(int64_t every, bool json);

/// Tokenizes all texts on one core, again and again for a second. Returns a report, or a line of JSON.
std::string bench_tokenize(const std::string& vocab, bool lowercase, int64_t max_length,
                           const std::vector<std::string>& texts, bool json);

}  // namespace mixtape::tools
