#include "optim/optimizer.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/kernels/blocks.h"
#include "optim/pass.h"

namespace mixtape::optim {
namespace {

constexpr std::string_view step_name = "step", compensation_name = "compensation";

NamedTensors all_of(const std::vector<ParameterGroup>& groups) {
  NamedTensors all;
  for (const ParameterGroup& group : groups) all.insert(all.end(), group.parameters.begin(), group.parameters.end());
  return all;
}

void check_parameters(const NamedTensors& parameters) {
  std::set<const void*> seen;
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : parameters) {
    const auto refuse = [&, n = &name](std::string_view why) {
      fail(ErrorKind::internal, "E-OPTIM-PARAMETER", message("optimizer: parameter '", *n, "' ", why));
    };
    if (!tensor) refuse("is an absent tensor");
    if (!(tensor.device() == parameters[0].tensor.device())) {
      fail(ErrorKind::internal, "E-DEVICE-MIXED",
           message("optimizer: parameter '", name, "' lies on ", name_of(tensor.device()), ", '", parameters[0].name,
                   "' on ", name_of(parameters[0].tensor.device()), ": move the whole model, Module::to()"));
    }
    if (!tensor.device().is_cpu() && tensor.dtype() == DType::f64) {
      refuse("is f64, which is for gradient checks on the CPU");
    }
    if (!is_float(tensor.dtype())) refuse(message("is ", name_of(tensor.dtype()), ", expected a float dtype"));
    if (!tensor.contiguous()) refuse("is not contiguous: make it a tensor of its own, not a view");
    if (!seen.insert(tensor.identity()).second) refuse("comes twice: it would be updated twice a step");
    if (!names.insert(name).second) refuse("shares its name with another: their states could not be told apart");
  }
}

uint32_t hash_of_name(std::string_view name) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  return hash;
}

[[noreturn]] void refuse_state(const std::string& what) {
  fail(ErrorKind::model, "E-OPTIM-STATE", "optimizer state: " + what);
}

void check_entry(const NamedTensor& entry, DType dtype, const Shape& shape) {
  const Tensor& tensor = entry.tensor;
  if (tensor.dtype() == dtype && tensor.shape() == shape) return;
  refuse_state(message("'", entry.name, "' is ", name_of(tensor.dtype()), tensor.shape().str(), ", expected ",
                       name_of(dtype), shape.str()));
}

// "layer_norm", "LayerNorm", "norm1" and "final_norm" name a normalisation, "normaliser" does not.
bool names_a_norm(std::string_view segment) {
  std::string letters;
  for (const char c : segment) {
    if (std::isalpha(static_cast<unsigned char>(c)))
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters.ends_with("norm");
}

}  // namespace

bool is_norm(std::string_view parameter) {
  const size_t dot = parameter.rfind('.');
  const std::string_view last = parameter.substr(dot + 1);  // npos + 1 == 0: the whole name
  if (last == "gamma" || last == "beta") return true;
  if (dot == std::string_view::npos) return false;
  const std::string_view above = parameter.substr(0, dot);
  return names_a_norm(above.substr(above.rfind('.') + 1));
}

bool is_decayed(std::string_view parameter) {
  return !is_norm(parameter) && parameter.substr(parameter.rfind('.') + 1) != "bias";
}

std::vector<ParameterGroup> default_groups(const NamedTensors& parameters, double weight_decay) {
  ParameterGroup decayed{.parameters = {}, .weight_decay = weight_decay}, plain;
  for (const NamedTensor& parameter : parameters) {
    (is_decayed(parameter.name) ? decayed : plain).parameters.push_back(parameter);
  }
  return {decayed, plain};
}

Optimizer::Optimizer(std::vector<ParameterGroup> groups, double lr, std::vector<std::string> state_names)
    : state_names_(std::move(state_names)), reader_(all_of(groups)) {
  check_parameters(reader_.parameters());
  const Device device = parameters().empty() ? Device{} : parameters()[0].tensor.device();
  if (!device.is_cpu()) device_step_ = std::make_unique<DeviceStep>(device, std::ssize(parameters()));
  set_lr(lr);
  for (const ParameterGroup& group : groups) {
    const bool valid = std::isfinite(group.weight_decay) && group.weight_decay >= 0 &&
                       std::isfinite(group.lr_multiplier) && group.lr_multiplier >= 0;
    if (!valid) {
      fail(ErrorKind::config, "E-OPTIM-GROUP",
           message("optimizer: weight_decay = ", group.weight_decay, ", lr_multiplier = ", group.lr_multiplier,
                   ": both must be finite and >= 0"));
    }
    for (const auto& [name, tensor] : group.parameters) {
      slots_.push_back({name, tensor, group.weight_decay, group.lr_multiplier, 0, {}, {}});
    }
  }
}

void Optimizer::set_lr(double lr) {
  if (!std::isfinite(lr) || lr < 0) {
    fail(ErrorKind::config, "E-OPTIM-LR", message("optimizer: lr = ", lr, ": must be finite and >= 0"));
  }
  lr_ = lr;
  lr_is_there_ = false;
  if (device_step_) kernels::fill(device_step_->lr_tensor().view(), lr);
}

GradientSurvey Optimizer::survey() {
  if (!device_step_) return reader_.read();
  const Outcome found = look();
  const ReadRecord& seen = *found.read();
  return {device_step_->table().count, seen.record.nonfinite == 0, seen.record.norm, seen.nonfinite};
}

Outcome Optimizer::step() {
  if (device_step_) return step(Tensor());
  const GradientSurvey found = survey();
  if (found.count > 0 && found.finite) {
    apply();
    return Outcome(StepResult::applied);
  }
  clear_gradients();
  return Outcome(found.count == 0 ? StepResult::no_gradients : StepResult::skipped_overflow);
}

void Optimizer::set_rounding(Rounding rounding, uint64_t seed) {
  if (std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.steps > 0; }) || stepped_there_) {
    fail(ErrorKind::internal, "E-OPTIM-ROUNDING",
         "optimizer: set_rounding after a step: parameters have been rounded in another way by then");
  }
  rounding_ = rounding;
  rounding_seed_ = seed;
}

std::optional<double> Optimizer::lost_updates() const {
  const auto share = [](auto lost, auto wanted) -> std::optional<double> {
    if (wanted == 0) return std::nullopt;
    return static_cast<double>(lost) / static_cast<double>(wanted);
  };
  if (!device_step_) return share(count_.lost.load(), count_.wanted.load());
  const UpdateCounts counts = device_step_->read_counts();
  return share(counts.lost, counts.wanted);
}

bool Optimizer::compensates(const Slot& slot) const {
  return rounding_ == Rounding::compensated && slot.parameter.dtype() == DType::bf16;
}

Storing Optimizer::storing(Slot& slot) {
  Storing out;
  if (!is_low(slot.parameter.dtype())) return out;
  out.count = &count_;
  if (slot.parameter.dtype() != DType::bf16) return out;
  out.rounding = rounding_;
  out.draws = {.seed = rounding_seed_,
               .stream = rng_stream::rounding,
               .step = static_cast<uint32_t>(slot.steps),
               .draw = hash_of_name(slot.name)};
  if (compensates(slot)) {
    if (!slot.compensation) slot.compensation = zeros(slot.parameter.shape(), DType::bf16, slot.parameter.device());
    out.compensation = slot.compensation;
  }
  return out;
}

void Optimizer::apply() {
  if (device_step_) {
    fill_table();
    update_there(Outcome(device_step_->judge({}, Judging::force)));
    return clear_gradients();
  }
  count_.wanted = count_.lost = 0;
  for (Slot& slot : slots_) {
    if (!slot.parameter.is_leaf() || !slot.parameter.leaf().gradient) continue;
    if (slot.states.empty()) {
      for (size_t i = 0; i < state_names_.size(); ++i) {
        slot.states.push_back(zeros(slot.parameter.shape(), wide(slot.parameter.dtype()), slot.parameter.device()));
      }
    }
    ++slot.steps;
    update(Pass(*this, slot));
  }
  clear_gradients();
}

int64_t Optimizer::resting() const {
  int64_t count = 0;
  for (const Slot& slot : slots_) {
    for (size_t b = 0; b < slot.moments.size(); ++b) {
      const int64_t start = static_cast<int64_t>(b) * kernels::block_size;
      if (slot.moments[b] == Moments::zero) count += std::min(kernels::block_size, slot.parameter.numel() - start);
    }
  }
  return count;
}

void Optimizer::clear_gradients() {
  reader_.forget();
  if (device_step_) device_step_->forget();
  for (const Slot& slot : slots_) {
    if (slot.parameter.is_leaf()) slot.parameter.leaf().gradient = {};
  }
}

NamedTensors Optimizer::state() const {
  NamedTensors all;
  if (device_step_) read_steps();
  for (const Slot& slot : slots_) {
    if (slot.steps == 0) continue;
    for (size_t i = 0; i < slot.states.size(); ++i) all.push_back({slot.name + "." + state_names_[i], slot.states[i]});
    if (slot.compensation) all.push_back({message(slot.name, ".", compensation_name), slot.compensation});
    all.push_back({message(slot.name, ".", step_name), from_ints({slot.steps}, {})});
  }
  return all;
}

Optimizer::Slot* Optimizer::slot_of(std::string_view entry, std::string_view& state) {
  const size_t dot = entry.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  state = entry.substr(dot + 1);
  const auto found =
      std::find_if(slots_.begin(), slots_.end(), [&](const Slot& slot) { return slot.name == entry.substr(0, dot); });
  return found == slots_.end() ? nullptr : &*found;
}

void Optimizer::load_state(const NamedTensors& state) {
  std::vector<Slot> fresh = slots_;  // handles; nothing of this optimizer changes before all is checked
  for (Slot& slot : fresh) {
    slot.steps = 0;
    slot.states.assign(state_names_.size(), Tensor());
    slot.moments.clear();
    slot.compensation = {};
  }
  for (const auto& [name, tensor] : state) {
    std::string_view what;
    const Slot* here = slot_of(name, what);
    if (!here) refuse_state(message("'", name, "' belongs to no parameter of this optimizer"));
    Slot& slot = fresh[static_cast<size_t>(here - slots_.data())];
    const auto known = std::find(state_names_.begin(), state_names_.end(), what);
    if (what == step_name) {
      if (tensor.dtype() != DType::i64 || tensor.numel() != 1) refuse_state(message("'", name, "' must be one i64"));
      slot.steps = static_cast<int64_t>(tensor.item());
    } else if (what == compensation_name && compensates(slot)) {
      check_entry({name, tensor}, DType::bf16, slot.parameter.shape());
      slot.compensation = copy_of(to(tensor, slot.parameter.device()));
    } else if (known == state_names_.end()) {
      refuse_state(message("'", name, "': this optimizer has no state of that name"));
    } else {
      check_entry({name, tensor}, wide(slot.parameter.dtype()), slot.parameter.shape());
      slot.states[static_cast<size_t>(known - state_names_.begin())] = copy_of(to(tensor, slot.parameter.device()));
    }
  }
  for (Slot& slot : fresh) {
    const auto present = std::count_if(slot.states.begin(), slot.states.end(), [](const Tensor& t) { return !!t; });
    const bool all = slot.steps > 0 && present == static_cast<int64_t>(state_names_.size());
    if (!all && (slot.steps != 0 || present != 0 || slot.compensation)) {
      refuse_state(message("'", slot.name, "' is incomplete: it needs ", step_name, " >= 1 and every moment"));
    }
    if (!all) slot.states.clear();
  }
  slots_ = std::move(fresh);
  if (device_step_) write_steps();
}

}  // namespace mixtape::optim
