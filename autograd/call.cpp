#include "autograd/call.h"

#include "autograd/cast.h"
#include "autograd/node.h"
#include "core/context.h"
#include "core/factory.h"
#include "core/parameter.h"

namespace mixtape::autograd {
namespace {

[[noreturn]] void fail_input(const OpSchema& op, int i, const std::string& what, const char* code = "E-DTYPE") {
  const std::string path = scope_path(context().scope.get());
  fail(ErrorKind::internal, code,
       message(op.info->name, ": input '", op.info->inputs[i].name, "' ", what,
               path.empty() ? "" : " (in " + path + ")"));
}

[[noreturn]] void fail_devices(const OpSchema& op, const Tensors& in, int i) {
  fail_input(op, i,
             message("lies on ", name_of(in[i].device()), ", the first input on ", name_of(in[0].device()),
                     ": move one of them with to()"),
             "E-DEVICE-MIXED");
}

void check_inputs(const OpSchema& op, const Tensors& in) {
  const OpInfo& info = *op.info;
  if (info.variadic ? in.empty() : in.size() != info.inputs.count) {
    fail(ErrorKind::internal, "E-OP-ARGS",
         message(info.name, ": got ", in.size(), " inputs, expected ",
                 info.variadic ? "at least one" : message(info.inputs.count)));
  }
  for (int i = 0; i < in.size(); ++i) {
    if (in[i] ? false : !info.inputs[i].optional) fail_input(op, i, "is absent");
    if (!in[i]) continue;
    const DType dtype = in[i].dtype();
    if (!(in[i].device() == in[0].device())) fail_devices(op, in, i);
    switch (info.inputs[i].role) {
      case Role::index:
        if (dtype != DType::i64) fail_input(op, i, message("is an index and must be i64, got ", name_of(dtype)));
        break;
      case Role::mask:
        if (dtype != DType::boolean) fail_input(op, i, message("is a mask and must be bool, got ", name_of(dtype)));
        break;
      case Role::parameter:
      case Role::data:
        if (!info.any_dtype && !is_float(dtype))
          fail_input(op, i, message("must be a float tensor, got ", name_of(dtype)));
        break;
    }
  }
}

// What all data inputs together are: their one dtype, or the widest of different ones.
struct DataTypes {
  DType widest = DType::f32;
  int first = -1;      // position of the first data input
  int different = -1;  // position of one with another dtype
};
DataTypes survey(const OpSchema& op, const Tensors& in) {
  DataTypes found;
  for (int i = 0; i < in.size(); ++i) {
    if (!in[i] || op.info->inputs[i].role != Role::data) continue;
    if (found.first < 0) {
      found.first = i;
      found.widest = in[i].dtype();
    } else if (in[i].dtype() != in[found.first].dtype()) {
      found.different = i;
      if (!is_float(in[i].dtype()) || !is_float(found.widest)) {
        fail_input(op, i,
                   message("is ", name_of(in[i].dtype()), ", but '", op.info->inputs[found.first].name, "' is ",
                           name_of(in[found.first].dtype())));
      }
      found.widest = widest(found.widest, in[i].dtype());
    }
  }
  return found;
}

[[noreturn]] void fail_mixed(const OpSchema& op, const Tensors& in, const DataTypes& data) {
  fail_input(op, data.different,
             message("is ", name_of(in[data.different].dtype()), " (", origin(in[data.different]), "), but '",
                     op.info->inputs[data.first].name, "' is ", name_of(in[data.first].dtype()), " (",
                     origin(in[data.first]), "): cast one of them, or run the op under an autocast guard"));
}

void check_parameters(const OpSchema& op, const Tensors& in, DType data) {
  for (int i = 0; i < in.size(); ++i) {
    if (!in[i] || op.info->inputs[i].role != Role::parameter || in[i].dtype() == wide(data)) continue;
    fail_input(op, i,
               message("is kept in ", name_of(wide(data)), " beside ", name_of(data), " data, got ",
                       name_of(in[i].dtype()), " (", origin(in[i]), ")"));
  }
}

// Parameters stay f32 under a guard, whatever they are stored in; a 16-bit model sees their 16-bit values.
void lower_parameters(const CastRule& guard, const OpSchema& op, Tensors& in) {
  const bool through = guard.lowers_parameters(op);
  for (int i = 0; i < in.size(); ++i) {
    if (!in[i] || op.info->inputs[i].role != Role::parameter) continue;
    if (is_low(in[i].dtype()) || (through && in[i].dtype() == DType::f32)) {
      in[i] = parameter_through(in[i], guard.low);
    }
  }
}

// A lookup takes rows of a parameter. The 16-bit values of a table are those of its shadow: the rows are not cast.
Precision table_lookup(const CastRule* guard, const OpSchema& op, Rule rule, Tensors& in) {
  if (guard && guard->lowers_parameters(op) && in[0].dtype() == DType::f32) in[0] = cast(in[0], guard->low);
  const DType table = in[0].dtype();
  const bool low = guard && rule == Rule::low_out && table != DType::f64;
  return {rule, low ? guard->low : table};
}

}  // namespace

std::string origin(const Tensor& tensor) {
  if (tensor.node()) return "the result of " + tensor.node()->place();
  if (!tensor.is_leaf()) return "a constant";
  const std::string& name = tensor.leaf().name;
  return name.empty() ? "a leaf" : "leaf '" + name + "'";
}

Precision cast_inputs(const OpSchema& op, Tensors& in) {
  check_inputs(op, in);
  const CastRule* guard = context().cast_rule.get();
  const Rule rule = guard ? guard->of(op) : op.info->precision.rule;
  const DataTypes data = survey(op, in);
  if (data.first < 0) return table_lookup(guard, op, rule, in);  // no data: the first parameter decides
  if (!is_float(data.widest)) return {rule, data.widest};
  if (rule == Rule::banned && guard) {
    fail(ErrorKind::internal, "E-BANNED", message(op.info->name, ": refused under autocast. ", op.info->doc));
  }
  DType wanted = data.widest;
  bool cast_all = rule == Rule::widest;
  if (guard && data.widest != DType::f64 && (rule == Rule::low || rule == Rule::full)) {
    wanted = rule == Rule::low ? guard->low : DType::f32;
    cast_all = true;
  }
  if (!cast_all && data.different >= 0) fail_mixed(op, in, data);
  if (cast_all) {
    for (int i = 0; i < in.size(); ++i) {
      if (in[i] && op.info->inputs[i].role == Role::data && in[i].dtype() != wanted) in[i] = cast(in[i], wanted);
    }
  }
  if (guard && wanted != DType::f64) lower_parameters(*guard, op, in);
  check_parameters(op, in, wanted);
  const bool low_out = guard && rule == Rule::low_out && wanted != DType::f64;
  return {rule, low_out ? guard->low : wanted};
}

namespace {

bool should_record(const OpSchema& op, const Tensors& in, const Metas& metas) {
  if (!context().grad_enabled || !is_float(metas[0].dtype)) return false;
  for (int i = 0; i < in.size(); ++i) {
    const Role role = op.info->inputs[i].role;
    if (in[i].requires_grad() && (role == Role::data || role == Role::parameter)) return true;
  }
  return false;
}

// Fills `out`; returns whether a kernel has to run.
bool allocate(const Metas& metas, const Tensors& in, bool recording, Tensors& out) {
  bool needs_kernel = false;
  const Device device = in[0].device();
  for (const Meta& meta : metas) {
    if (meta.alias_of >= 0) {
      const Tensor& source = in[meta.alias_of];
      out.push_back(
          Tensor(source.storage(), {meta.shape, meta.strides, source.geometry().offset + meta.offset, meta.dtype}));
    } else if (meta.shadow) {
      out.push_back(
          Tensor(shadow_bytes(in[0], meta.dtype), {meta.shape, contiguous_strides(meta.shape), 0, meta.dtype}));
    } else if (meta.saved_only && !recording) {
      out.push_back(Tensor());
    } else {
      out.push_back(empty(meta.shape, meta.dtype, device));
      needs_kernel = true;
    }
  }
  return needs_kernel;
}

Views views_of(const Tensors& tensors) {
  Views views;
  for (const Tensor& tensor : tensors) views.push_back(tensor ? tensor.view() : View{});
  return views;
}

// What is not kept is absent, and says what it would have been: loops of rows ask for its shape.
Views views_of_results(const Tensors& out, const Metas& metas) {
  Views views = views_of(out);
  for (int i = 0; i < out.size(); ++i) {
    if (views[i]) continue;
    views[i].dtype = metas[i].dtype;
    views[i].shape = metas[i].shape;
    views[i].strides = contiguous_strides(metas[i].shape);
  }
  return views;
}

// Whether backward will read input i: `saves` says so and, for a product, another input is on the tape.
bool keeps_input(const OpInfo& info, const Tensors& in, int i) {
  if (!in[i] || !(info.saves.inputs >> (info.variadic ? 0 : i) & 1)) return false;
  bool others = !info.saves.crosswise;
  for (int k = 0; k < in.size(); ++k) others = others || (k != i && in[k].requires_grad());
  return others;
}

Saved save(const Tensor& tensor) { return {tensor.storage(), tensor.geometry(), tensor.storage().version()}; }

void record(const OpSchema& op, const void* attrs, const Tensors& in, const Metas& metas, Tensors& out) {
  const auto node = std::make_shared<Node>();
  node->op = &op;
  node->attrs = op.clone(attrs);
  node->modes = context();
  node->modes.observer = nullptr;
  for (int i = 0; i < in.size(); ++i) {
    node->edges.push_back(edge_of(in[i]));
    const Edge& edge = node->edges[i];
    if (edge.node && edge.node->order >= node->order) node->order = edge.node->order + 1;
    node->input_metas.push_back(in[i] ? TensorMeta{in[i].shape(), in[i].dtype()} : TensorMeta{});
    node->inputs.push_back(keeps_input(*op.info, in, i) ? save(in[i]) : Saved{});
  }
  for (int i = 0; i < out.size(); ++i) {
    node->output_metas.push_back({metas[i].shape, metas[i].dtype});
    const bool wanted = metas[i].saved_only || (op.info->saves.outputs >> i & 1);
    node->outputs.push_back(wanted ? save(out[i]) : Saved{});
    if (metas[i].saved_only) continue;
    out[i].set_node(node, i);
    node->extras_from = i + 1;
  }
}

}  // namespace

Tensors call(const OpSchema& op, const void* attrs, Tensors in) {
  Observer* observer = context().observer;
  const Tensors given = observer ? in : Tensors{};
  const Precision precision =
      is_cast(op) ? Precision{op.info->precision.rule, DType::f32} : cast_inputs(op, in);  // 1 cast
  const Metas metas = op.infer(attrs, Infer(op, in, precision.out));                       // 2 infer
  const bool recording = should_record(op, in, metas);
  const bool converts = observer && metas[0].shadow && !shadow_is_fresh(in[0], metas[0].dtype);
  Tensors out;
  bool runs = false;
  {
    const Working working(observer, op.info->name);
    runs = allocate(metas, in, recording, out);
    if (runs) op.forward_on(in[0].device())(attrs, views_of(in), views_of_results(out, metas));  // 3 run
  }
  if (recording) record(op, attrs, in, metas, out);  // 4 record, after the casts
  Tensors results;
  for (int i = 0; i < out.size(); ++i) {
    if (!metas[i].saved_only) results.push_back(std::move(out[i]));
  }
  if (observer && observer->on_call) {
    observer->on_call(observer->self, {op, given, in, results, precision.rule, runs || converts, attrs});
  }
  return results;
}

}  // namespace mixtape::autograd
