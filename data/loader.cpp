#include "data/loader.h"

#include <utility>

namespace mixtape::data {

Loader::Loader(EncodedTexts texts, LoaderOptions options)
    : texts_(std::move(texts)), options_(options), lengths_(texts_.lengths()) {
  batches_per_epoch_ = static_cast<int64_t>(plan(0).size());
}

Loader::Iterator Loader::begin() const { return Iterator(*this); }

Loader::Iterator::Iterator(const Loader& loader) : loader_(&loader) {
  if (loader.options_.epochs > 0) plan_ = loader.plan(0);
  settle();
}

Loader::Iterator& Loader::Iterator::operator++() {
  ++at_;
  if (at_ == plan_.size() && epoch_ + 1 < loader_->options_.epochs) {
    plan_ = loader_->plan(++epoch_);
    at_ = 0;
  }
  settle();
  return *this;
}

void Loader::Iterator::settle() {
  if (at_ < plan_.size()) batch_ = loader_->batch(plan_[at_]);
}

}  // namespace mixtape::data
