// A step's tensors, one after the other: what its ops put out, and the activation gradients of its sweep.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "core/op.h"

namespace mixtape::inspect {

enum class Passing { activation, gradient };

/// One place where a tensor was seen. The key is the same in every precision, so that two runs of a step can be laid
/// beside each other: scope, op, how often that op ran there before, and which input, output or gradient it is.
struct Sight {
  Passing what = Passing::activation;
  std::string scope;
  std::string key;
  const Tensor& tensor;
};

/// Hears a step as an observer, casts left out. Each float tensor is offered where it is made and again where it is
/// used, until `see` returns true: it has been dealt with. Views of it are not offered by themselves. Parameters and
/// their gradients are left out.
class StepWatch {
 public:
  using See = std::function<bool(const Sight&)>;
  explicit StepWatch(See see);
  StepWatch(const StepWatch&) = delete;
  StepWatch& operator=(const StepWatch&) = delete;

  Observer& observer() { return observer_; }

 private:
  static void on_call(void* self, const CallEvent& event);
  static void on_backward(void* self, const BackwardEvent& event);
  void call(const CallEvent& event);
  void backward(const BackwardEvent& event);
  /// "scope|op|3": how often the op ran in this scope before.
  std::string place(char way, const std::string& scope, const OpSchema& op);

  /// Held so that no other tensor takes its identity.
  struct Known {
    Tensor tensor;
    bool dealt_with = false;
    int64_t ways = 0;  // nodes that it goes to
  };
  See see_;
  Observer observer_;
  std::unordered_map<std::string, int64_t> runs_;
  std::map<const void*, Tensor> open_activations_;          // not dealt with yet, by their bytes
  std::unordered_map<const void*, Known> known_gradients_;  // on their way, by identity
};

}  // namespace mixtape::inspect
