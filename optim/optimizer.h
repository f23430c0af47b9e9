// Optimizer: parameters in groups, their states, and a step that is atomic. AdamW and SGD say only what happens to one
// parameter.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/parameter.h"
#include "optim/device_step.h"
#include "optim/gradients.h"
#include "optim/outcome.h"
#include "optim/rounding.h"

namespace mixtape::optim {

/// Parameters that share their settings.
struct ParameterGroup {
  NamedTensors parameters;
  double weight_decay = 0;
  double lr_multiplier = 1;
};

/// True for the parameters of a normalisation, told by name: "….LayerNorm.bias", "….gamma".
bool is_norm(std::string_view parameter);
/// False for biases and for γ, β of normalisations, told by name: "….bias", "….LayerNorm.weight", "….gamma".
bool is_decayed(std::string_view parameter);
/// Two groups: `weight_decay` for those that is_decayed() says, none for the others.
std::vector<ParameterGroup> default_groups(const NamedTensors& parameters, double weight_decay);

/// What the steps so far tell of the states of one block of a parameter.
enum class Moments : uint8_t { unknown, zero, moving };

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Applies the gradients that are there and clears them. Not finite: a skip, in which parameters, states and counters
  /// keep their bits. amp::GradScaler does the same through the three pieces below.
  Outcome step();

  /// Looks at the gradients: reads each at most once, writes nothing. Waits for a device.
  GradientSurvey survey();
  /// The update without a look at the gradients; clears them. A parameter without one is left alone altogether.
  void apply();
  /// Forgets all gradients: what every skip ends in.
  void clear_gradients();

  /// Of the coming update. Waits where a schedule moves it on a device.
  double lr() const { return lr_is_there_ ? lr_there() : lr_; }
  void set_lr(double lr);  ///< throws E-OPTIM-LR unless finite and >= 0
  const NamedTensors& parameters() const { return reader_.parameters(); }

  // --- for parameters that lie on a device; nothing here waits ---
  bool on_device() const { return device_step_ != nullptr; }
  /// What survey() would find, as a record there. `round`: RoundFlags on the device, which note it; or absent.
  Outcome look(const Tensor& round = {});
  /// step() and what `round` says of the losses: one that was not finite makes it a skip.
  Outcome step(const Tensor& round);
  /// The rate becomes what the plan says, one further if the step was applied; `updates`: i64 on the device, its count.
  void advance(const Outcome& outcome, const SchedulePlan& plan, const Tensor& updates);
  /// Makes gradients smaller where the norm of the look is above the limit.
  void clip(const Outcome& look, double max_norm);

  /// Elements that the last step left at rest: they have neither gradient nor moments yet (optim/pass.h).
  int64_t resting() const;

  /// How parameters of bf16 are rounded; those of f16 always to nearest. Random bits are a pure function of (seed, the
  /// parameter's name, its step, element). Throws E-OPTIM-ROUNDING after a step or a load_state().
  void set_rounding(Rounding rounding, uint64_t seed);
  /// Of the last applied update: the share of the elements of 16-bit parameters with a gradient that it did not move;
  /// absent when there are none. With stochastic rounding these are not lost: others went a whole step of the grid.
  std::optional<double> lost_updates() const;

  /// All that a checkpoint must hold beside the parameters, as the live tensors: "<parameter>.<state>", and
  /// "<parameter>.step" (i64), how often that parameter was updated. Parameters never updated have none. Compensated
  /// ones have "<parameter>.compensation" (bf16) too; without it they go on from what is stored.
  NamedTensors state() const;
  /// Puts a state back, all or nothing. Throws E-OPTIM-STATE (kind model) naming what is unknown, missing or misshapen.
  void load_state(const NamedTensors& state);

 protected:
  /// One parameter, its settings and its states.
  struct Slot {
    std::string name;
    Tensor parameter;
    double weight_decay;
    double lr_multiplier;
    int64_t steps = 0;                  // applied ones: bias correction counts these
    std::vector<Tensor> states;         // f32 (f64 beside f64), one for each of state_names()
    std::vector<Moments> moments = {};  // by block of `states`; update_pass keeps it
    Tensor compensation = {};           // bf16; see Storing
  };

  class Pass;  // optim/pass.h

  /// Throws E-OPTIM-PARAMETER for a parameter that is not a contiguous float tensor or comes twice, E-DEVICE-MIXED for
  /// parameters on several devices.
  Optimizer(std::vector<ParameterGroup> groups, double lr, std::vector<std::string> state_names);
  /// Runs a rule: writes parameters, states and shadows. Counts of steps hold this step already.
  virtual void update(const Pass& pass) = 0;

 private:
  /// The last argument of update_pass.
  Storing storing(Slot& slot);
  // optimizer_device.cpp
  double lr_there() const;
  TableRow row_of(size_t number, Slot& slot);
  void fill_table();
  void update_there(const Outcome& outcome);
  void read_steps() const;
  void write_steps();
  bool compensates(const Slot& slot) const;
  Slot* slot_of(std::string_view entry, std::string_view& state);

  mutable std::vector<Slot> slots_;  // counts of steps are read from a device when somebody asks
  std::vector<std::string> state_names_;
  GradientReader reader_;
  double lr_ = 0;
  Rounding rounding_ = Rounding::nearest;
  uint64_t rounding_seed_ = 0;
  UpdateCount count_;
  std::unique_ptr<DeviceStep> device_step_;  // where parameters lie on a device
  bool lr_is_there_ = false;                 // and a schedule moves the rate
  bool stepped_there_ = false;
};

}  // namespace mixtape::optim
