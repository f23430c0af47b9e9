#include <map>

#include "core/parameter.h"
#include "data/weight_file.h"
#include "models/pretrained.h"
#include "models/weight_names.h"

namespace mixtape::models {
namespace {

using data::Weight;
using data::WeightFile;
using Entries = std::map<std::string, const Weight*>;  // by the parameter that each is meant for

struct Assignment {
  Tensor parameter;
  const Weight* entry;
};

bool is_head(std::string_view name) { return name.starts_with("classifier."); }
bool is_pooler(std::string_view name) { return name.starts_with("bert.pooler."); }

// W = [0; w], b = [0; b]: the softmax form of one logit.
bool is_two_way_softmax(const WeightFile& file, const Weight& weight, const Weight& bias) {
  if (weight.shape.rank() != 2 || weight.shape[0] != 2 || !(bias.shape == Shape{2})) return false;
  if (!is_float(weight.dtype) || !is_float(bias.dtype)) return false;
  const std::vector<double> w = to_vector(file.read(weight)), b = to_vector(file.read(bias));
  for (size_t i = 0; i < w.size() / 2; ++i) {
    if (w[i] != 0) return false;
  }
  return b[0] == 0;
}

// Puts the head in, or says why not.
std::string load_head(const BertClassifier& model, const WeightFile& file, const NamedTensors& head) {
  const Weight *weight = file.find("classifier.weight"), *bias = file.find("classifier.bias");
  if (!weight || !bias) return "the file has no classifier: the head starts from fresh weights";
  const Tensor &own_weight = head[0].tensor, &own_bias = head[1].tensor;
  if (weight->shape == own_weight.shape() && bias->shape == own_bias.shape()) {
    assign(own_weight, file.read(*weight));
    assign(own_bias, file.read(*bias));
    return "";
  }
  const bool sigmoid = model.config().head == Head::sigmoid;
  if (sigmoid && weight->shape == Shape{2, own_weight.shape()[1]} && is_two_way_softmax(file, *weight, *bias)) {
    assign(own_weight, ops::slice(file.read(*weight), 0, 1));
    assign(own_bias, ops::slice(file.read(*bias), 0, 1));
    return "";
  }
  return message("classifier.weight has shape ", weight->shape.str(), ", this head ", own_weight.shape().str(),
                 ": the head starts from fresh weights");
}

Entries entries_of(const WeightFile& file) {
  Entries entries;
  for (const Weight& weight : file.tensors()) {
    const auto [entry, fresh] = entries.emplace(parameter_name(weight.name), &weight);
    if (fresh) continue;
    fail(ErrorKind::model, "E-MODEL-TENSORS",
         message(file.path(), ": ", entry->second->name, " and ", weight.name, " are both meant for ", entry->first));
  }
  return entries;
}

// What is wrong with the tensor that stands for a parameter, as a line of the error; empty: nothing.
std::string fault_of(const NamedTensor& parameter, const Weight* entry) {
  const std::string shape = parameter.tensor.shape().str();
  if (!entry && is_pooler(parameter.name)) {
    return message("\n  missing: ", parameter.name, " ", shape, " (set model.pooling to cls to do without a pooler)");
  }
  if (!entry) return message("\n  missing: ", parameter.name, " ", shape);
  if (entry->shape == parameter.tensor.shape() && is_float(entry->dtype)) return "";
  return message("\n  misshapen: ", parameter.name, " is ", name_of(entry->dtype), " ", entry->shape.str(),
                 ", the model needs ", shape);
}

// Where each parameter's bytes come from; what is left over in `entries` nobody wants. Throws E-MODEL-TENSORS.
std::vector<Assignment> plan_loading(const NamedTensors& parameters, Entries& entries, const WeightFile& file) {
  std::vector<Assignment> plan;
  std::string faults;
  for (const NamedTensor& parameter : parameters) {
    const auto found = entries.find(parameter.name);
    const Weight* const entry = found == entries.end() ? nullptr : found->second;
    faults += fault_of(parameter, entry);
    if (!entry) continue;
    plan.push_back({parameter.tensor, entry});
    entries.erase(found);
  }
  if (!faults.empty()) {
    for (const auto& [name, entry] : entries) faults += message("\n  not used: ", entry->name);
    fail(ErrorKind::model, "E-MODEL-TENSORS",
         message(file.path(), " does not fit the model (check model.config and config.json):", faults));
  }
  return plan;
}

}  // namespace

LoadReport load_pretrained(const BertClassifier& model, const std::string& dir, const LoadProgress& progress) {
  const WeightFile file = WeightFile::open(dir);
  Entries entries = entries_of(file);
  LoadReport report;
  report.file = file.path();
  report.passed_over = file.passed_over();
  report.has_pooler = entries.count("bert.pooler.dense.weight") > 0;
  NamedTensors encoder, head;
  for (const NamedTensor& parameter : model.parameters()) {
    if (!is_head(parameter.name)) {
      encoder.push_back(parameter);
      continue;
    }
    head.push_back(parameter);
    entries.erase(parameter.name);
  }
  const std::vector<Assignment> plan = plan_loading(encoder, entries, file);
  for (const Assignment& item : plan) {
    if (progress) progress(report.loaded, std::ssize(plan));
    assign(item.parameter, file.read(*item.entry));  // one at a time: memory stays low
    ++report.loaded;
  }
  report.head_note = load_head(model, file, head);
  report.head_loaded = report.head_note.empty();
  for (const auto& [name, entry] : entries) report.unused.push_back(entry->name);
  return report;
}

}  // namespace mixtape::models
