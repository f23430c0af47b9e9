// Preflight: what would only fail after hours is looked at before the start: memory and disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/bert_config.h"
#include "tools/config/config.h"

namespace mixtape::trainer {

/// Elements of all parameters.
int64_t parameter_count(const models::BertConfig& bert);

/// Bytes that training needs at least: parameters, their gradients, moments and 16-bit twins, and what the backward of
/// the largest batch reads. `rows` is how many training texts there are, `longest` the tokens of the longest.
double memory_estimate(const config::Config& config, const models::BertConfig& bert, int64_t rows, int64_t longest);

/// Throws E-MEMORY (memory) when that is more than this process can have: Linux would grant it and kill the run later.
void check_memory(double needed, int64_t available);

/// Bytes of one checkpoint.
int64_t checkpoint_estimate(const config::Config& config, const models::BertConfig& bert);

/// Throws E-IO-NOSPACE (io) unless `free` bytes and the `present` ones of older checkpoints hold save_total_limit + 2
/// checkpoints (the best one, and the one that is being written) and a tenth more. `free` < 0: not known.
void check_disk(const std::string& dir, int64_t checkpoint, int64_t save_total_limit, int64_t present, int64_t free);

/// Both checks, for a run in `dir` with training texts of so many tokens each.
void check_machine(const config::Config& config, const std::string& dir, const models::BertConfig& bert,
                   const std::vector<int64_t>& lengths);

/// Bytes of all files below `path`; 0 when it is not there.
int64_t bytes_below(const std::string& path);

}  // namespace mixtape::trainer
