#include "tools/inspect/memory_batches.h"

#include <algorithm>
#include <utility>

#include "tools/trainer/setup.h"

namespace mixtape::inspect {
namespace {

struct Size {
  int64_t places = 0, pairs = 0;
};

Size size_of(const BatchRows& rows, const data::EncodedTexts& texts, const data::CollateOptions& collate) {
  int64_t longest = 0, tokens = 0;
  for (const int64_t row : rows) {
    longest = std::max(longest, texts.length(row));
    tokens += texts.length(row);
  }
  if (collate.padding == data::Padding::max_length) longest = collate.max_length;
  const int64_t padded = std::ssize(rows) * longest;
  return {.places = collate.padding == data::Padding::packed ? tokens : padded, .pairs = padded * longest};
}

bool by_places(const Size& a, const Size& b) { return std::pair(a.places, a.pairs) < std::pair(b.places, b.pairs); }
bool by_pairs(const Size& a, const Size& b) { return std::pair(a.pairs, a.places) < std::pair(b.pairs, b.places); }

/// Keeps the largest batches that it was shown; of equal ones the first.
class Largest {
 public:
  explicit Largest(bool (*less)(const Size&, const Size&)) : less_(less) {}

  void look(const BatchRows& rows, const Size& size, bool first) {
    Size& most = first ? first_ : later_;
    if (!less_(most, size)) return;
    most = size;
    (first ? batches_.first : batches_.later) = rows;
  }
  const StepBatches& batches() const { return batches_; }

 private:
  bool (*less_)(const Size&, const Size&);
  Size first_, later_;
  StepBatches batches_;
};

data::PlanOptions plan_options(const config::Config& config) {
  return {.batch_size = config.trainer.per_device_train_batch_size,
          .shuffle = config.data.shuffle,
          .length_bucketing = config.data.length_bucketing,
          .seed = static_cast<uint64_t>(config.trainer.seed)};
}

}  // namespace

RunBatches largest_batches(const config::Config& config, const data::EncodedTexts& texts,
                           const data::CollateOptions& collate) {
  const trainer::RunPlan run = trainer::make_plan(config, texts.rows());
  const std::vector<int64_t> lengths = texts.lengths();
  Largest first_step(by_places), places(by_places), pairs(by_pairs);
  // Unshuffled epochs are all the same, but that the first step of the second is no first step.
  const int64_t epochs = std::min(run.epochs, config.data.shuffle ? most_epochs : 2);
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const data::BatchPlan batches = data::plan_epoch(lengths, plan_options(config), static_cast<uint32_t>(epoch));
    for (const data::Window& window :
         data::accumulation_windows(std::ssize(batches), config.trainer.gradient_accumulation_steps)) {
      if (step == run.steps) break;
      for (int64_t micro = 0; micro < window.count; ++micro) {
        const BatchRows& rows = batches[static_cast<size_t>(window.first + micro)];
        const Size size = size_of(rows, texts, collate);
        if (step == 0) {
          first_step.look(rows, size, micro == 0);
        } else {
          places.look(rows, size, micro == 0);
          pairs.look(rows, size, micro == 0);
        }
      }
      ++step;
    }
  }
  RunBatches out{.first_step = first_step.batches(), .later_steps = {}};
  if (step > 1) out.later_steps.push_back(places.batches());
  if (step > 1 && !(pairs.batches() == places.batches())) out.later_steps.push_back(pairs.batches());
  return out;
}

BatchRows largest_batch(const data::BatchPlan& batches, const data::EncodedTexts& texts,
                        const data::CollateOptions& collate) {
  Largest largest(by_places);
  for (const BatchRows& rows : batches) largest.look(rows, size_of(rows, texts, collate), true);
  return largest.batches().first;
}

}  // namespace mixtape::inspect
