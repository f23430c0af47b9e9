#include "data/batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/factory.h"
#include "core/rng.h"

namespace mixtape::data {
namespace {
constexpr int64_t bucket_batches = 50;
constexpr uint32_t draw_rows = 0, draw_batches = 1;

void check_batch_size(int64_t size) {
  if (size < 1) fail(ErrorKind::config, "E-BATCH-SIZE", message("a batch needs at least one row, got ", size));
}

BatchPlan cut(const std::vector<int64_t>& order, int64_t batch_size) {
  BatchPlan plan;
  const int64_t rows = static_cast<int64_t>(order.size());
  batch_size = std::min(batch_size, rows);  // so that no sum below can overflow
  for (int64_t first = 0; first < rows; first += batch_size) {
    plan.emplace_back(order.begin() + first, order.begin() + std::min(rows, first + batch_size));
  }
  return plan;
}

void sort_by_length(std::span<int64_t> rows, std::span<const int64_t> lengths) {
  std::stable_sort(rows.begin(), rows.end(), [&lengths](int64_t a, int64_t b) {
    return lengths[static_cast<size_t>(a)] < lengths[static_cast<size_t>(b)];
  });
}

int64_t width_of(const EncodedTexts& texts, std::span<const int64_t> rows, const CollateOptions& options) {
  int64_t longest = 0;
  for (const int64_t row : rows) longest = std::max(longest, texts.length(row));
  const bool packed = options.padding == Padding::packed;
  if (longest == 0 ||
      (packed && std::any_of(rows.begin(), rows.end(), [&](int64_t r) { return texts.length(r) == 0; }))) {
    fail(ErrorKind::internal, "E-BATCH-EMPTY", "collate: a batch needs a row, and a row a token");
  }
  if (options.padding != Padding::max_length) return longest;
  if (longest > options.max_length) {
    fail(ErrorKind::internal, "E-BATCH-LENGTH",
         message("collate: a row has ", longest, " tokens, more than max_length ", options.max_length,
                 "; give the tokenizer that limit too"));
  }
  return options.max_length;
}

Tensor empty_labels(int64_t rows, DType dtype) {
  if (dtype != DType::i64 && dtype != DType::f32) {
    fail(ErrorKind::internal, "E-DTYPE", message("collate: labels are i64 or f32, not ", name_of(dtype)));
  }
  return empty({rows}, dtype);
}
}  // namespace

std::vector<int64_t> EncodedTexts::lengths() const {
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(rows()));
  for (int64_t row = 0; row < rows(); ++row) out.push_back(length(row));
  return out;
}

std::span<const int32_t> EncodedTexts::ids(int64_t row) const {
  const int64_t begin = ends_[static_cast<size_t>(row)];
  return std::span(ids_).subspan(static_cast<size_t>(begin), static_cast<size_t>(length(row)));
}

void EncodedTexts::append(std::span<const int32_t> ids) {
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ends_.push_back(static_cast<int64_t>(ids_.size()));
}

void EncodedTexts::set_labels(std::vector<int32_t> labels) {
  if (static_cast<int64_t>(labels.size()) != rows()) {
    fail(ErrorKind::internal, "E-BATCH-LABELS",
         message("set_labels: ", labels.size(), " labels for ", rows(), " rows"));
  }
  labels_ = std::move(labels);
}

EncodedTexts encode_texts(const std::vector<std::string>& texts, const Tokenizer& tokenizer,
                          const std::function<void(int64_t)>& progress) {
  EncodedTexts encoded;
  for (const std::string& text : texts) {
    encoded.append(tokenizer.encode(text));
    if (progress && encoded.rows() % 1024 == 0) progress(encoded.rows());
  }
  if (progress) progress(encoded.rows());
  return encoded;
}

std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint32_t epoch, uint32_t draw) {
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), int64_t{0});
  const RngCoordinates at{seed, rng_stream::shuffle, epoch, 0, draw};
  for (size_t i = order.size(); i > 1; --i) {
    const Philox bits = philox_block(at, i);
    const uint64_t random = uint64_t{bits.word[1]} << 32 | bits.word[0];
    std::swap(order[i - 1], order[random % i]);  // of 2^64 values: the remainder is uneven by less than i / 2^64
  }
  return order;
}

BatchPlan plan_epoch(std::span<const int64_t> lengths, const PlanOptions& options, uint32_t epoch) {
  check_batch_size(options.batch_size);
  const int64_t rows = static_cast<int64_t>(lengths.size());
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  if (options.shuffle) order = permutation(rows, options.seed, epoch, draw_rows);
  if (!options.length_bucketing) return cut(order, options.batch_size);

  const int64_t chunk = bucket_batches * std::min(rows, options.batch_size);
  for (int64_t first = 0; first < rows; first += chunk) {
    sort_by_length(
        std::span(order).subspan(static_cast<size_t>(first), static_cast<size_t>(std::min(chunk, rows - first))),
        lengths);
  }
  BatchPlan plan = cut(order, options.batch_size);
  if (!options.shuffle) return plan;
  BatchPlan shuffled;
  for (const int64_t batch : permutation(static_cast<int64_t>(plan.size()), options.seed, epoch, draw_batches)) {
    shuffled.push_back(std::move(plan[static_cast<size_t>(batch)]));
  }
  return shuffled;
}

BatchPlan plan_sorted(std::span<const int64_t> lengths, int64_t batch_size) {
  check_batch_size(batch_size);
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  sort_by_length(order, lengths);
  return cut(order, batch_size);
}

std::vector<Window> accumulation_windows(int64_t batches, int64_t accumulation) {
  if (accumulation < 1) {
    fail(ErrorKind::config, "E-BATCH-SIZE",
         message("an accumulation window needs at least one batch, got ", accumulation));
  }
  accumulation = std::min(accumulation, batches);
  std::vector<Window> windows;
  for (int64_t first = 0; first < batches; first += accumulation) {
    windows.push_back({first, std::min(accumulation, batches - first)});
  }
  return windows;
}

Batch empty_batch(const EncodedTexts& texts, std::span<const int64_t> rows, const CollateOptions& options) {
  Batch batch;
  batch.longest = width_of(texts, rows, options);
  batch.rows = std::ssize(rows);
  batch.row_numbers.assign(rows.begin(), rows.end());
  for (const int64_t row : rows) batch.tokens += texts.length(row);
  const bool packed = options.padding == Padding::packed;
  const Shape shape = packed ? Shape{batch.tokens} : Shape{batch.rows, batch.longest};
  batch.input_ids = empty(shape, DType::i64);
  batch.token_type_ids = empty(shape, DType::i64);
  if (packed) {
    batch.offsets = empty({batch.rows + 1}, DType::i64);
  } else {
    batch.attention_mask = empty(shape, DType::boolean);
  }
  if (!texts.labels().empty()) batch.labels = empty_labels(batch.rows, options.label_dtype);
  return batch;
}

namespace {

void fill_padded(const EncodedTexts& texts, int32_t pad_id, const Batch& batch) {
  int64_t* ids = batch.input_ids.data<int64_t>();
  bool* mask = batch.attention_mask.data<bool>();
  for (const int64_t row : batch.row_numbers) {
    const std::span<const int32_t> tokens = texts.ids(row);
    const int64_t padding = batch.longest - std::ssize(tokens);
    ids = std::fill_n(std::copy(tokens.begin(), tokens.end(), ids), padding, pad_id);
    mask = std::fill_n(std::fill_n(mask, tokens.size(), true), padding, false);
  }
}

void fill_packed(const EncodedTexts& texts, const Batch& batch) {
  int64_t* const begin = batch.input_ids.data<int64_t>();
  int64_t* ids = begin;
  int64_t* offset = batch.offsets.data<int64_t>();
  *offset = 0;
  for (const int64_t row : batch.row_numbers) {
    const std::span<const int32_t> tokens = texts.ids(row);
    ids = std::copy(tokens.begin(), tokens.end(), ids);
    *++offset = ids - begin;
  }
}

template <class T>
void fill_labels(const EncodedTexts& texts, const Batch& batch) {
  T* label = batch.labels.data<T>();
  for (const int64_t row : batch.row_numbers) *label++ = static_cast<T>(texts.labels()[static_cast<size_t>(row)]);
}

}  // namespace

void fill_batch(const EncodedTexts& texts, int32_t pad_id, const Batch& batch) noexcept {
  std::fill_n(batch.token_type_ids.data<int64_t>(), batch.token_type_ids.numel(), 0);
  batch.offsets ? fill_packed(texts, batch) : fill_padded(texts, pad_id, batch);
  if (!batch.labels) return;
  batch.labels.dtype() == DType::f32 ? fill_labels<float>(texts, batch) : fill_labels<int64_t>(texts, batch);
}

Batch collate(const EncodedTexts& texts, std::span<const int64_t> rows, const CollateOptions& options) {
  Batch batch = empty_batch(texts, rows, options);
  fill_batch(texts, options.pad_id, batch);
  return batch;
}

Batch to(const Batch& batch, Device device) {
  Batch moved = batch;
  for (Tensor Batch::*part : {&Batch::input_ids, &Batch::attention_mask, &Batch::token_type_ids, &Batch::labels}) {
    if (batch.*part) moved.*part = upload(batch.*part, device);
  }
  return moved;
}

}  // namespace mixtape::data
