#include "tools/inspect/watch.h"

#include "autograd/checkpoint.h"
#include "core/context.h"
#include "core/error.h"

namespace mixtape::inspect {
namespace {

bool is_seen(const Tensor& tensor) { return tensor && is_float(tensor.dtype()) && tensor.numel() > 0; }

bool is_cast(const OpSchema& op) { return op.info->name == "cast"; }

/// Whether the gradient of this input goes to a parameter.
bool is_of_parameter(const OpInfo& info, int input) {
  return info.inputs[input].role == Role::parameter || info.inputs[input].wide_grad;
}

}  // namespace

StepWatch::StepWatch(See see)
    : see_(std::move(see)), observer_{.on_call = &StepWatch::on_call, .on_backward = &StepWatch::on_backward} {
  observer_.self = this;
}

void StepWatch::on_call(void* self, const CallEvent& event) { static_cast<StepWatch*>(self)->call(event); }
void StepWatch::on_backward(void* self, const BackwardEvent& event) { static_cast<StepWatch*>(self)->backward(event); }

std::string StepWatch::place(char way, const std::string& scope, const OpSchema& op) {
  const std::string where = message(way, "|", scope, "|", op.info->name);
  return message(where, "|", runs_[where]++);
}

void StepWatch::call(const CallEvent& event) {
  if (is_cast(event.op)) return;
  known_gradients_.clear();  // of a sweep that is over
  const std::string scope = scope_path(context().scope.get());
  const std::string at = place('f', scope, event.op);
  for (int i = 0; i < event.in.size(); ++i) {
    if (!is_seen(event.in[i])) continue;
    const auto open = open_activations_.find(event.given[i].storage().data());
    if (open == open_activations_.end()) continue;
    if (see_({Passing::activation, scope, message(at, "|in ", i), event.in[i]})) open_activations_.erase(open);
  }
  for (int i = 0; i < event.out.size(); ++i) {
    const Tensor& out = event.out[i];
    if (!event.moved || !is_seen(out)) continue;
    if (!see_({Passing::activation, scope, message(at, "|out ", i), out}))
      open_activations_[out.storage().data()] = out;
  }
}

void StepWatch::backward(const BackwardEvent& event) {
  // A checkpoint only hands on what the ops inside of it got and gave.
  if (is_cast(event.op) || autograd::is_checkpoint(event.op)) return;
  open_activations_.clear();  // the forward is over
  const std::string at = place('b', event.scope, event.op);
  const auto offer = [&](const std::string& key, const Tensor& tensor) {
    return see_({Passing::gradient, event.scope, message(at, "|", key), tensor});
  };
  std::map<const void*, bool> arrived;  // the bytes of what came in, and whether they are dealt with
  for (int i = 0; i < event.incoming.size(); ++i) {
    const Tensor& dy = event.incoming[i];
    if (!is_seen(dy)) continue;
    const auto known = known_gradients_.find(dy.identity());  // none: a sum of several, or the seed
    const bool before = known != known_gradients_.end() && known->second.dealt_with;
    const bool now = before || offer(message("dy ", i), dy);
    arrived[dy.storage().data()] = now;
    if (known == known_gradients_.end()) continue;
    known->second.dealt_with = now;
    if (--known->second.ways == 0) known_gradients_.erase(known);
  }
  for (int i = 0; i < event.outgoing.size(); ++i) {
    const Tensor& dx = event.outgoing[i];
    if (!is_seen(dx) || is_of_parameter(*event.op.info, i)) continue;
    const auto view_of = arrived.find(dx.storage().data());
    Known& known = known_gradients_[dx.identity()];
    known.tensor = dx;
    ++known.ways;
    known.dealt_with = known.dealt_with || (view_of != arrived.end() && view_of->second);
    if (!known.dealt_with) known.dealt_with = offer(message("dx ", i), dx);
  }
}

}  // namespace mixtape::inspect
