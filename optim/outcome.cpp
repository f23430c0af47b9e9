#include "optim/outcome.h"

#include <optional>

#include "optim/device_step.h"

namespace mixtape::optim {

struct Outcome::Pending {
  RecordHandle record;
  std::optional<ReadRecord> known;
};

Outcome::Outcome(RecordHandle record) : pending_(std::make_shared<Pending>(Pending{std::move(record), {}})) {}

StepResult Outcome::get() const { return pending_ ? read()->record.result : result_; }

const RecordHandle* Outcome::record() const { return pending_ ? &pending_->record : nullptr; }

const ReadRecord* Outcome::read() const {
  if (!pending_) return nullptr;
  if (!pending_->known) pending_->known = optim::read(pending_->record);
  return &*pending_->known;
}

double GradientNorm::get() const { return look_ ? look_->read()->record.norm : norm_; }

}  // namespace mixtape::optim
