#include "nn/module.h"

namespace mixtape::nn {

NamedTensors Module::parameters() const {
  NamedTensors all;
  collect("", all);
  for (const NamedTensor& parameter : all) {
    if (parameter.tensor.is_leaf()) parameter.tensor.leaf().name = parameter.name;  // a frozen one is none
  }
  return all;
}

int64_t Module::parameter_count() const {
  int64_t count = 0;
  for (const NamedTensor& parameter : parameters()) count += parameter.tensor.numel();
  return count;
}

void Module::to(Device device) const {
  for (const NamedTensor& parameter : parameters()) parameter.tensor.move_to(device);
}

Device Module::device() const {
  const Tensor first = first_parameter();
  return first ? first.device() : Device{};
}

Tensor Module::first_parameter() const {
  if (!parameters_.empty()) return parameters_[0].tensor;
  for (const Child& child : children_) {
    if (const Tensor found = child.module->first_parameter()) return found;
  }
  return {};
}

Tensor Module::add_parameter(std::string name, Tensor value) {
  value.set_requires_grad();
  parameters_.push_back({std::move(name), value});
  return value;
}

void Module::add_child(std::string name, Module& child) {
  child.name_ = name;
  children_.push_back({std::move(name), &child});
}

void Module::collect(const std::string& prefix, NamedTensors& all) const {
  for (const NamedTensor& parameter : parameters_) all.push_back({prefix + parameter.name, parameter.tensor});
  for (const Child& child : children_) child.module->collect(prefix + child.name + ".", all);
}

}  // namespace mixtape::nn
