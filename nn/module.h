// Module: named parameters and children. A forward takes what it needs as arguments, train or evaluation among them;
// a module has no modes.
#pragma once

#include <string>
#include <vector>

#include "core/context.h"
#include "core/parameter.h"

namespace mixtape::nn {

class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;  // parents hold pointers to their children
  Module& operator=(const Module&) = delete;

  /// All parameters, its own before its children's, under dotted names: "encoder.layer.0.output.dense.weight". Each
  /// leaf carries that name too, once this was called on the root. Frozen ones (set_requires_grad(false)) stay listed.
  NamedTensors parameters() const;
  int64_t parameter_count() const;  ///< elements
  /// Moves all parameters, frozen ones too, under all their handles. Their gradients go. Before an optimizer is made:
  /// its states lie where the parameters do. Throws E-DEVICE where there is no such device.
  void to(Device device) const;
  Device device() const;  ///< of its first parameter

 protected:
  Module() = default;
  /// A leaf of the tape, known as `name`. Returns it.
  Tensor add_parameter(std::string name, Tensor value);
  /// A part of this module; `name` may hold dots ("attention.output.LayerNorm"). The child must outlive the parent.
  void add_child(std::string name, Module& child);
  /// The first line of every forward: names what runs now in errors, nodes and the ledger.
  [[nodiscard]] Scope enter() const { return Scope(name_); }

 private:
  struct Child {
    std::string name;
    Module* module;
  };
  void collect(const std::string& prefix, NamedTensors& all) const;
  Tensor first_parameter() const;

  std::string name_;
  NamedTensors parameters_;
  std::vector<Child> children_;
};

}  // namespace mixtape::nn
