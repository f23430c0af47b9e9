// Batches: which rows stand together in an epoch (a pure function), and the padded tensors of such a group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "data/tokenizer.h"

namespace mixtape::data {

/// Texts as token ids, all in one buffer, with a label each (or none at all).
class EncodedTexts {
 public:
  int64_t rows() const { return static_cast<int64_t>(ends_.size()) - 1; }
  int64_t length(int64_t row) const { return ends_[static_cast<size_t>(row) + 1] - ends_[static_cast<size_t>(row)]; }
  std::vector<int64_t> lengths() const;
  std::span<const int32_t> ids(int64_t row) const;
  int64_t tokens() const { return ends_.back(); }
  const std::vector<int32_t>& labels() const { return labels_; }
  /// Throws E-BATCH-LABELS (internal) unless there are as many labels as rows.
  void set_labels(std::vector<int32_t> labels);
  void append(std::span<const int32_t> ids);

 private:
  std::vector<int32_t> ids_;
  std::vector<int64_t> ends_{0};
  std::vector<int32_t> labels_;
};

/// Tokenizes all texts with their special tokens. `progress(rows done)` is called now and then; it may throw to stop.
EncodedTexts encode_texts(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                          const std::function<void(int64_t)>& progress = {});

/// Row numbers of each batch, in the order in which they are used.
using BatchPlan = std::vector<std::vector<int64_t>>;

struct PlanOptions {
  int64_t batch_size = 16;
  bool shuffle = true;
  bool length_bucketing = true;
  uint64_t seed = 42;
};

/// A permutation of 0..count-1 (Fisher and Yates), a pure function of its arguments.
std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint32_t epoch, uint32_t draw);

/// The batches of one epoch: every row once, all batches full but one. With `shuffle` rows are permuted; with
/// `length_bucketing` chunks of 50 batches are sorted by length, so that rows of like length meet, and with both the
/// order of the batches is permuted too. With neither it is the order of the file. Throws E-BATCH-SIZE (config) for a
/// size below 1.
BatchPlan plan_epoch(std::span<const int64_t> lengths, const PlanOptions& options, uint32_t epoch);

/// All rows sorted by length, ties in file order: evaluation wants little padding and no chance.
BatchPlan plan_sorted(std::span<const int64_t> lengths, int64_t batch_size);

/// Consecutive batches whose gradients make one update.
struct Window {
  int64_t first = 0, count = 0;
};
/// Cuts an epoch's batches into windows of `accumulation`; the last may be short, none crosses the epoch.
std::vector<Window> accumulation_windows(int64_t batches, int64_t accumulation);

enum class Padding { longest, max_length, packed };

struct CollateOptions {
  Padding padding = Padding::longest;
  int64_t max_length = 0;          ///< of Padding::max_length
  int32_t pad_id = 0;              ///< special().pad of the vocabulary
  DType label_dtype = DType::i64;  ///< i64 (classes), or f32 (a target for one logit)
};

struct Batch {
  Tensor input_ids;       ///< i64 [rows, seq]; packed: [tokens], row after row
  Tensor attention_mask;  ///< bool [rows, seq]: true where a token stands; absent when packed
  Tensor token_type_ids;  ///< i64, the shape of input_ids: zeros, there is one segment
  Tensor labels;          ///< i64 or f32 [rows]; absent when the texts have none
  Tensor offsets;         ///< packed: i64 [rows + 1], row r is input_ids[offsets[r]] to input_ids[offsets[r + 1]]
  int64_t longest = 0;    ///< tokens of the longest row; all rows' when padded
  int64_t rows = 0;
  int64_t tokens = 0;                ///< without padding
  std::vector<int64_t> row_numbers;  ///< of the texts
};

/// The tensors of the given rows, padded or, with Padding::packed, end to end: empty_batch(), then fill_batch(). Throws
/// (internal) E-BATCH-EMPTY for no rows or rows without a token, E-BATCH-LENGTH for a row longer than
/// Padding::max_length allows, E-DTYPE for labels that are neither i64 nor f32.
Batch collate(const EncodedTexts& texts, std::span<const int64_t> rows, const CollateOptions& options);

/// The same batch for a model on `device`. `offsets` stay on the CPU: where a batch is cut, the host must know.
Batch to(const Batch& batch, Device device);

/// collate() in two halves. This one throws and allocates; the tensors have their sizes and no values yet.
Batch empty_batch(const EncodedTexts& texts, std::span<const int64_t> rows, const CollateOptions& options);
/// This one writes the values and does nothing else, nor does it share the work: a thread beside the training may.
void fill_batch(const EncodedTexts& texts, int32_t pad_id, const Batch& batch) noexcept;

}  // namespace mixtape::data
