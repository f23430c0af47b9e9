#include "tools/trainer/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "tools/config/build_info.h"
#include "tools/trainer/run_dir.h"
#include "tools/trainer/setup.h"

namespace mixtape::trainer {
namespace {

std::string size_text(double bytes) {
  return bytes < 0x1p30 ? fmt::format("{:.0f} MiB", bytes / 0x1p20) : fmt::format("{:.1f} GiB", bytes / 0x1p30);
}

double states_of(const config::Config& config) { return config.optimizer.type == config::OptimizerType::adamw ? 2 : 0; }

/// Of a weight between steps, with its 16-bit copy and what rounding took.
double weight_bytes(const config::Config& config) {
  if (config.amp.dtype == config::AmpDtype::off) return 4;
  switch (storage_of(config)) {
    case amp::ParameterStorage::f32: return 4;
    case amp::ParameterStorage::f32_with_low_copy: return 6;
    case amp::ParameterStorage::low:
    case amp::ParameterStorage::bf16_stochastic: return 2;
    case amp::ParameterStorage::bf16_kahan: return 4;
  }
  return 4;
}

double parameters_of(const models::BertConfig& bert) {
  const auto h = static_cast<double>(bert.hidden_size), inner = static_cast<double>(bert.intermediate_size);
  const double rows = static_cast<double>(bert.vocab_size + bert.max_position_embeddings + bert.type_vocab_size);
  const double layer = 4 * (h * h + h) + 2 * h * inner + inner + h + 4 * h;
  return rows * h + 2 * h + static_cast<double>(bert.num_hidden_layers) * layer;
}

}  // namespace

int64_t parameter_count(const models::BertConfig& bert) { return static_cast<int64_t>(parameters_of(bert)); }

double memory_estimate(const config::Config& config, const models::BertConfig& bert, int64_t rows, int64_t longest) {
  const bool half = config.amp.dtype != config::AmpDtype::off;
  const double element = half ? 2 : 4;
  const double per_parameter = weight_bytes(config) + 4 + 4 * states_of(config);  // and its gradient and moments
  const double seq = static_cast<double>(longest);
  const double tokens = static_cast<double>(std::min(rows, config.trainer.per_device_train_batch_size)) * seq;
  const auto h = static_cast<double>(bert.hidden_size), inner = static_cast<double>(bert.intermediate_size);
  // Saved by a layer: the inputs of its products and normalisations, both sides of GELU, the probabilities.
  const double layer = tokens * (8 * h + 2 * inner + static_cast<double>(bert.num_attention_heads) * seq) * element;
  const double layers = config.trainer.activation_checkpointing ? 1 : static_cast<double>(bert.num_hidden_layers);
  return parameters_of(bert) * per_parameter + layers * layer;
}

void check_memory(double needed, int64_t available) {
  if (available <= 0 || needed <= static_cast<double>(available)) return;
  fail(ErrorKind::memory, "E-MEMORY",
       message("training needs at least ", size_text(needed), ", but this process can have ",
               size_text(static_cast<double>(available)),
               ". nothing was started.\n  reduce trainer.per_device_train_batch_size or tokenizer.max_length, set "
               "trainer.activation_checkpointing, or take a smaller model"));
}

int64_t checkpoint_estimate(const config::Config& config, const models::BertConfig& bert) {
  constexpr int64_t kRest = 65'536;  // headers, state.json and MANIFEST
  return static_cast<int64_t>(parameters_of(bert) * 4 * (1 + states_of(config))) + kRest;
}

void check_disk(const std::string& dir, int64_t checkpoint, int64_t save_total_limit, int64_t present, int64_t free) {
  const double needed = static_cast<double>(checkpoint) * static_cast<double>(save_total_limit + 2) * 1.1;
  if (free < 0 || needed <= static_cast<double>(free) + static_cast<double>(present)) return;
  fail(ErrorKind::io, "E-IO-NOSPACE",
       message(dir, ": ", size_text(static_cast<double>(free)), " are free on this disk, but ", save_total_limit + 2,
               " checkpoints of ", size_text(static_cast<double>(checkpoint)), " and a tenth more need ",
               size_text(needed), ". nothing was started.\n  make room, choose another -s DIR, or lower ",
               "trainer.save_total_limit"));
}

int64_t bytes_below(const std::string& path) {
  namespace fs = std::filesystem;
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (at->is_regular_file(gone)) bytes += static_cast<int64_t>(at->file_size(gone));
  }
  return bytes;
}

void check_machine(const config::Config& config, const std::string& dir, const models::BertConfig& bert,
                   const std::vector<int64_t>& lengths) {
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  check_memory(memory_estimate(config, bert, std::ssize(lengths), longest), config::machine_info().memory_free);
  check_disk(dir, checkpoint_estimate(config, bert), config.trainer.save_total_limit, bytes_below(dir + "/checkpoints"),
             config::free_disk(RunDir::existing_part(dir)));
}

}  // namespace mixtape::trainer
