// An optimizer whose parameters lie on a device: the same step, of which the host learns when it asks.
#include <algorithm>

#include "core/device_module.h"
#include "core/factory.h"
#include "optim/optimizer.h"
#include "optim/pass.h"

namespace mixtape::optim {
namespace {

/// A shadow that the pass may write along: fresh, so that a skip leaves it right, and nobody else's.
void* shadow_to_write(const Tensor& parameter) {
  Shadow& shadow = parameter.leaf().shadow;
  if (shadow.bytes && (shadow.version != parameter.storage().version() || shadow.bytes.use_count() > 1)) shadow = {};
  return shadow.bytes.data();
}

template <class T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor ? tensor.view().data : nullptr);
}

}  // namespace

void Optimizer::Pass::on_device(const char* rule_name, const void* rule) const {
  device_function<UpdateFunction>(optimizer_.device_step_->device(), rule_name)(rule, *device_);
}

double Optimizer::lr_there() const { return device_step_->lr_tensor().item(); }

TableRow Optimizer::row_of(size_t number, Slot& slot) {
  const Gradient& gradient = slot.parameter.leaf().gradient;
  while (slot.states.size() < state_names_.size())
    slot.states.push_back(zeros(slot.parameter.shape(), DType::f32, slot.parameter.device()));
  const Storing how = storing(slot);
  TableRow row;
  row.parameter = slot.parameter.view().data;
  row.raw = data_of<float>(gradient.raw);
  for (size_t i = 0; i < slot.states.size(); ++i) row.state[i] = data_of<float>(slot.states[i]);
  row.shadow = shadow_to_write(slot.parameter);
  row.shadow_dtype = slot.parameter.leaf().shadow.dtype;
  row.rest = data_of<bf16>(slot.compensation);
  row.factor = data_of<double>(gradient.factor);
  row.steps = device_step_->steps(static_cast<int64_t>(number));
  row.multiplier = gradient.multiplier;
  row.weight_decay = slot.weight_decay;
  row.lr_multiplier = slot.lr_multiplier;
  row.count = slot.parameter.numel();
  row.draw = how.draws.draw;
  row.dtype = slot.parameter.dtype();
  return row;
}

void Optimizer::fill_table() {
  std::vector<TableRow> rows;
  std::vector<std::string> names;
  std::vector<Tensor> raws;
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (!slot.parameter.is_leaf() || !slot.parameter.leaf().gradient) continue;
    if (!(slot.parameter.device() == device_step_->device())) {
      fail(ErrorKind::internal, "E-DEVICE-MIXED",
           message("optimizer: parameter '", slot.name, "' lies on ", name_of(slot.parameter.device()),
                   ", its states on ", name_of(device_step_->device()),
                   ": move the model before the optimizer is made"));
    }
    Gradient& gradient = slot.parameter.leaf().gradient;
    if (gradient.rows)
      gradient = {all_rows(gradient, slot.parameter.shape()), gradient.multiplier, {}, gradient.factor};
    rows.push_back(row_of(i, slot));
    names.push_back(slot.name);
    raws.push_back(gradient.raw);
  }
  device_step_->set_table(std::move(rows), std::move(names), raws);
}

Outcome Optimizer::look(const Tensor& round) {
  fill_table();
  return Outcome(device_step_->judge(round, Judging::look));
}

Outcome Optimizer::step(const Tensor& round) {
  fill_table();
  const Outcome outcome(device_step_->judge(round, Judging::decide));
  update_there(outcome);
  clear_gradients();
  return outcome;
}

// Versions move though a skip leaves the bytes: the host does not know. Shadows in the table were fresh, and stay so.
void Optimizer::update_there(const Outcome& outcome) {
  const StepTable& table = device_step_->table();
  if (table.count == 0) return;
  stepped_there_ = true;
  bool low = false;
  for (const Slot& slot : slots_) low = low || is_low(slot.parameter.dtype());
  StepRecord* record = outcome.record()->data();
  UpdateCounts* counts = low ? device_step_->counts() : nullptr;
  const DevicePass pass{table, rounding_, rounding_seed_, device_step_->lr(), record, counts};
  update(Pass(*this, pass));
  if (low) device_function<NoteCountsFunction>(device_step_->device(), "optim.note_counts")(record, counts);
  for (Slot& slot : slots_) {
    if (!slot.parameter.is_leaf() || !slot.parameter.leaf().gradient) continue;
    for (const Tensor& state : slot.states) state.storage().bump_version();
    if (slot.compensation) slot.compensation.storage().bump_version();
    slot.parameter.storage().bump_version();
    mark_shadow_fresh(slot.parameter);
  }
}

void Optimizer::advance(const Outcome& outcome, const SchedulePlan& plan, const Tensor& updates) {
  device_function<AdvanceFunction>(device_step_->device(), "optim.advance")(
      outcome.record()->data(), plan, data_of<int64_t>(updates), device_step_->lr());
  lr_is_there_ = true;
}

void Optimizer::clip(const Outcome& look, double max_norm) {
  const auto clip_one = device_function<ClipFunction>(device_step_->device(), "optim.clip");
  std::vector<std::pair<Tensor, Tensor>> clipped;  // gradients of one sweep share their factor
  for (const NamedTensor& parameter : parameters()) {
    if (!parameter.tensor.is_leaf() || !parameter.tensor.leaf().gradient) continue;
    Tensor& factor = parameter.tensor.leaf().gradient.factor;
    const void* before = factor ? factor.identity() : nullptr;
    const auto known = std::find_if(clipped.begin(), clipped.end(), [&](const auto& pair) {
      return (pair.first ? pair.first.identity() : nullptr) == before;
    });
    if (known != clipped.end()) {
      factor = known->second;
      continue;
    }
    const Tensor smaller = empty({1}, DType::f64, device_step_->device());
    clip_one(look.record()->data(), max_norm, data_of<double>(factor), data_of<double>(smaller));
    clipped.emplace_back(factor, smaller);
    factor = smaller;
  }
}

void Optimizer::write_steps() {
  std::vector<int64_t> steps;
  for (const Slot& slot : slots_) steps.push_back(slot.steps);
  device_step_->write_steps(steps);
}

void Optimizer::read_steps() const {
  const std::vector<int64_t> steps = device_step_->read_steps();
  for (size_t i = 0; i < slots_.size(); ++i) slots_[i].steps = steps[i];
}

}  // namespace mixtape::optim
