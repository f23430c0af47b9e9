#include "tools/trainer/step_profile.h"

#include <algorithm>

#include "amp/products.h"

namespace mixtape::trainer {
namespace {

std::string_view class_of(std::string_view work) {
  for (const std::string_view product : {"linear", "joint_linear", "matmul", "batched_matmul", "feed_forward"}) {
    if (work == product) return "matrix products";
  }
  for (const std::string_view view : {"reshape", "transpose", "permute", "slice", "split", "expand"}) {
    if (work == view) return "views";
  }
  if (work == "cast") return Profile::casts;
  return work == "gradient sum" ? "gradient sums" : work;
}

}  // namespace

Profile::Profile()
    : observer_{
          .on_call = &Profile::on_call, .on_enter = &Profile::on_enter, .on_leave = &Profile::on_leave, .self = this} {
  for (const std::string_view name : {batch, tape, casts, clipping, optimizer}) (void)times_of(name);
}

ClassTimes& Profile::times_of(std::string_view name) {
  auto found = times_.find(name);
  if (found == times_.end()) found = times_.emplace(name, ClassTimes{std::string(name)}).first;
  return found->second;
}

void Profile::charge() {
  const Clock::time_point now = Clock::now();
  if (!running_.empty()) {
    ClassTimes& times = *running_.back();
    (backward_ ? times.backward : times.forward) += std::chrono::duration<double>(now - last_).count();
  }
  last_ = now;
}

void Profile::phase(std::string_view name, bool backward) {
  charge();
  running_.assign(1, &times_of(name));
  backward_ = backward;
  trains_ |= backward;
}

void Profile::end_step() {
  charge();
  running_.clear();
  ++steps_;
}

void Profile::on_enter(void* self, std::string_view work) {
  auto& profile = *static_cast<Profile*>(self);
  profile.charge();
  profile.running_.push_back(&profile.times_of(class_of(work)));
  profile.recomputes_ |= work == "checkpoint";
}

void Profile::on_leave(void* self) {
  auto& profile = *static_cast<Profile*>(self);
  profile.charge();
  profile.running_.pop_back();
}

void Profile::on_call(void* self, const CallEvent& event) {
  auto& profile = *static_cast<Profile*>(self);
  profile.charge();
  const amp::Products products = amp::products_of(event);
  if (products.forward > 0) {
    const auto dtype = static_cast<size_t>(event.in[0].dtype());
    profile.forward_flops_[dtype] += products.forward;
    profile.backward_flops_[dtype] += products.backward;
  }
  if (!event.op.info->absorbs.empty()) profile.fused_.emplace(event.op.info->name);
  profile.last_ = Clock::now();  // what is done here is no part of the step
}

double Profile::seconds() const {
  double all = 0;
  for (const auto& [name, times] : times_) all += times.sum();
  return all / static_cast<double>(steps_);
}

std::vector<ClassTimes> Profile::classes() const {
  std::vector<ClassTimes> out;
  for (const auto& [name, times] : times_) {
    const auto steps = static_cast<double>(steps_);
    out.push_back({name, times.forward / steps, times.backward / steps});
  }
  std::stable_sort(out.begin(), out.end(), [](const ClassTimes& a, const ClassTimes& b) { return a.sum() > b.sum(); });
  return out;
}

double Profile::seconds_of(std::string_view name) const {
  const auto found = times_.find(name);
  return found == times_.end() ? 0 : found->second.sum() / static_cast<double>(steps_);
}

double Profile::flops(DType dtype) const {
  const auto i = static_cast<size_t>(dtype);
  const double all = forward_flops_[i] * (recomputes_ ? 2 : 1) + (trains_ ? backward_flops_[i] : 0);
  return all / static_cast<double>(steps_);
}

}  // namespace mixtape::trainer
