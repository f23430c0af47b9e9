// What an operator is: a plain struct (its members are its attributes) with a static OpInfo and four functions. This
// file holds the words of an op file: Role, Rule, OpInfo, Meta, Infer, Sample, and the erased form OpSchema.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/device_row.h"
#include "core/tensor.h"

namespace mixtape {

/// What an input is to an op. Only data is ever cast.
enum class Role : uint8_t {
  data,       ///< float values the op computes with: one dtype for all of them after the casts
  parameter,  ///< bias, γ, β, a table: stays f32 (f64 beside f64 data)
  index,      ///< i64
  mask,       ///< bool
};

/// The precision column (docs: precision.md 1.1): which dtype the data inputs are brought to under autocast.
enum class Rule : uint8_t {
  low,      ///< the guard's 16-bit dtype
  full,     ///< f32, and the output is f32
  widest,   ///< the widest input dtype, with or without a guard
  keep,     ///< as they come; f32 inside, the input's dtype outside
  low_out,  ///< nothing; reads f32, writes the 16-bit dtype
  banned,   ///< refused inside a guard
};
std::string_view name_of(Rule rule);
std::string_view name_of(Role role);
bool parse_rule(std::string_view name, Rule& out);

/// A rule that has no default: an OpInfo without `precision` does not compile.
struct Required {
  Rule rule;
  constexpr Required(Rule r) : rule(r) {}
};

struct Input {
  std::string_view name;
  Role role = Role::data;
  bool wide_grad = false;  ///< its gradient is f32 although the data is 16-bit (weights)
  bool optional = false;
};

/// The inputs of an op, in order.
struct InputList {
  Input items[9] = {};
  int count = 0;
  template <class... I>
  constexpr InputList(I... input) : items{input...}, count(sizeof...(I)) {}
  constexpr const Input& operator[](int i) const {
    return items[i < count ? i : count - 1];
  }  // variadic: the last repeats
};

/// Which inputs and outputs backward may read; bit i stands for number i.
struct Saves {
  uint16_t inputs = 0;
  uint8_t outputs = 0;
  bool crosswise = false;  ///< an input is read only for the gradients of the others: not kept when none of them is due
};
template <class... I>
constexpr Saves saves_inputs(I... i) {
  return {static_cast<uint16_t>(((1u << i) | ... | 0u)), 0};
}
/// Of a product: each input is kept for the gradient of the other one.
template <class... I>
constexpr Saves saves_crosswise(I... i) {
  return {static_cast<uint16_t>(((1u << i) | ... | 0u)), 0, true};
}
template <class... I>
constexpr Saves saves_outputs(I... i) {
  return {0, static_cast<uint8_t>(((1u << i) | ... | 0u))};
}
constexpr Saves operator|(Saves a, Saves b) {
  return {static_cast<uint16_t>(a.inputs | b.inputs), static_cast<uint8_t>(a.outputs | b.outputs),
          a.crosswise || b.crosswise};
}

/// The static facts of an op: one row of the table.
struct OpInfo {
  std::string_view name;
  Required precision;
  InputList inputs;
  Saves saves = {};
  std::string_view absorbs = {};  ///< rows that a fused row stands for, separated by spaces; their policy is its own
  int roundings = 0;              ///< of a fused row: how often values inside are rounded to the data dtype, each way
  bool any_dtype = false;         ///< takes integers and booleans as data too
  bool variadic = false;          ///< any number of inputs, all like the last one listed
  bool wide_dy = false;           ///< backward takes an f32 gradient of a 16-bit output as it comes
  bool twice = false;             ///< its backward can be differentiated again
  bool any_device = false;        ///< uses no loops of formulas: the CPU's functions serve the tensors of a device too
  std::string_view doc = {};
};

/// What an output will be: `infer` makes shapes, stage 1 has decided the dtype.
struct Meta {
  Shape shape;
  DType dtype = DType::f32;
  int alias_of = -1;    ///< >= 0: a view of that input, `strides` and `offset` (elements, from its start) say which
  bool shadow = false;  ///< a cast that may alias the parameter's 16-bit twin
  Strides strides = {};
  int64_t offset = 0;
  bool saved_only = false;  ///< kept for backward alone, no kernel result without recording
};
using Metas = Small<Meta, 4>;

struct OpSchema;

/// What `infer` sees. Every shape error is thrown through it, so that all of them name the op, the input and the place.
class Infer {
 public:
  Infer(const OpSchema& op, const Tensors& in, DType out) : op_(op), in_(in), out_(out) {}
  int count() const { return in_.size(); }
  bool has(int i) const { return i < in_.size() && in_[i]; }
  const Shape& shape(int i) const { return in_[i].shape(); }
  const Geometry& geometry(int i) const { return in_[i].geometry(); }
  const Tensor& tensor(int i) const { return in_[i]; }
  DType dtype(int i) const { return in_[i].dtype(); }
  DType out() const { return out_; }                  ///< the data dtype after the casts
  DType wide() const { return mixtape::wide(out_); }  ///< of statistics and parameters
  /// Unless `ok`: throws E-SHAPE "<op>: <input> has shape …, expected <wanted>".
  void expect(bool ok, int input, std::string_view wanted) const;
  [[noreturn]] void fail(const std::string& what) const;
  /// The broadcast of the shapes of inputs a and b; throws when they do not fit.
  Shape broadcast(int a, int b) const;
  int axis(int input, int64_t axis) const;  ///< normalized, or throws

 private:
  const OpSchema& op_;
  const Tensors& in_;
  DType out_;
};

// --- samples: what the op-table runner feeds an op ---

/// A dense double-precision array: what oracles compute with.
struct Array {
  Shape shape;
  std::vector<double> values;
};
using Arrays = std::vector<Array>;

/// One input of a sample.
struct Arg {
  Shape shape;
  double low = -2.0, high = 2.0;    ///< range of random values
  bool strided = true;              ///< may be handed over transposed, sliced or broadcast
  bool perturb = true;              ///< finite differences may move it
  bool absent = false;              ///< an optional input that is not given
  DType dtype = DType::f32;         ///< i64, bool: an index or a mask; f32 stands for "the data dtype under test"
  std::vector<double> values = {};  ///< fixed values instead of random ones
};
Arg arg(const Shape& shape, double low = -2.0, double high = 2.0);
Arg fixed(const Shape& shape, std::vector<double> values);    ///< float data with these values
Arg indices(const Shape& shape, std::vector<double> values);  ///< i64
Arg mask(const Shape& shape, std::vector<double> values);     ///< bool
Arg absent();

/// A call that the op-table runner makes. With `error`, the call must throw and its message contain those words.
template <class Op>
struct Sample {
  Op op;
  std::vector<Arg> args;
  std::string_view error = {};  // a std::string here is an internal compiler error in g++ 12
};
template <class Op>
using Samples = std::vector<Sample<Op>>;

/// The erased sample: attrs live as long as the vector that samples() returned.
struct AnySample {
  std::shared_ptr<const void> attrs;
  std::vector<Arg> args;
  std::string error;
};

namespace autograd {
class Grads;
class Node;
}  // namespace autograd

using ForwardFunction = void (*)(const void* attrs, const Views& in, const Views& out);
using BackwardFunction = Tensors (*)(const void* attrs, autograd::Grads& grads);

/// An operator with its type erased: function pointers over `const void*` attributes.
struct OpSchema {
  const OpInfo* info;
  Metas (*infer)(const void* attrs, const Infer& in);
  ForwardFunction forward;
  BackwardFunction backward;  ///< null: not differentiable
  std::shared_ptr<const void> (*clone)(const void* attrs);
  std::vector<AnySample> (*samples)();
  Arrays (*oracle)(const void* attrs, const Arrays& in);  ///< the outputs in double precision, by another formula
  int id = -1;                                            ///< place in the registry, -1 outside it
  const char* file = "";                                  ///< the op's source file
  size_t attrs_bytes = 0;
  /// The same two for the tensors of a device; null until a module of device code has brought them
  /// (core/device_module.h).
  ForwardFunction device_forward = nullptr;
  BackwardFunction device_backward = nullptr;
  bool in_device_module = false;  ///< its file is compiled into libmixtape_cuda too: see Register

  /// What runs for tensors of `device`. Throws E-DEVICE-KERNEL where there is nothing: no row falls back on the CPU.
  ForwardFunction forward_on(Device device) const {
    return device.is_cpu() && forward ? forward : of_device(device, device_forward);
  }
  BackwardFunction backward_on(Device device) const {
    return device.is_cpu() && backward ? backward : of_device(device, device_backward);
  }

 private:
  template <class Function>
  Function of_device(Device device, Function function) const {
    if (device.is_cpu() || !function) fail_no_kernel(device);
    return function;
  }
  [[noreturn]] void fail_no_kernel(Device device) const;
};

/// What an op file must define.
template <class Op>
concept Operator = std::copy_constructible<Op> &&
    requires(const Op& op, const Infer& infer, const Views& views, const Arrays& arrays) {
  requires std::same_as<decltype(Op::info), const OpInfo>;
  { op.infer(infer) } -> std::same_as<Metas>;
  { op.forward(views, views) } -> std::same_as<void>;
  { Op::samples() } -> std::same_as<Samples<Op>>;
  { op.oracle(arrays) } -> std::same_as<Arrays>;
};

/// A `backward` member that is not this signature is an error, not a silently non-differentiable op.
template <class Op>
concept NamesBackward = requires {
  &Op::backward;
};
template <class Op>
concept Differentiable = requires(const Op& op, autograd::Grads& grads) {
  { op.backward(grads) } -> std::same_as<Tensors>;
};

namespace detail {
template <class Op>
std::vector<AnySample> erase_samples() {
  std::vector<AnySample> all;
  for (Sample<Op>& s : Op::samples()) {
    all.push_back({std::make_shared<const Op>(std::move(s.op)), std::move(s.args), std::string(s.error)});
  }
  return all;
}

template <Operator Op>
constexpr OpSchema make_schema() {
  static_assert(!NamesBackward<Op> || Differentiable<Op>, "backward must be: Tensors backward(autograd::Grads&) const");
  OpSchema schema{};
  schema.info = &Op::info;
  schema.infer = [](const void* a, const Infer& in) { return static_cast<const Op*>(a)->infer(in); };
  ForwardFunction forward = [](const void* a, const Views& in, const Views& out) {
    static_cast<const Op*>(a)->forward(in, out);
  };
  BackwardFunction backward = nullptr;
  if constexpr (Differentiable<Op>) {
    backward = [](const void* a, autograd::Grads& g) -> Tensors { return static_cast<const Op*>(a)->backward(g); };
  }
  if (!is_device_code) schema.forward = forward, schema.backward = backward;
  if (is_device_code || Op::info.any_device) schema.device_forward = forward, schema.device_backward = backward;
  schema.attrs_bytes = sizeof(Op);
  schema.clone = [](const void* a) -> std::shared_ptr<const void> {
    return std::make_shared<const Op>(*static_cast<const Op*>(a));
  };
  schema.samples = &erase_samples<Op>;
  schema.oracle = [](const void* a, const Arrays& in) { return static_cast<const Op*>(a)->oracle(in); };
  return schema;
}
template <class Op>
inline OpSchema schema_storage = make_schema<Op>();
template <class Op>
inline const OpSchema* row_of_program = nullptr;  // in device code: what the program knows this row by
}  // namespace detail

template <Operator Op>
const OpSchema& schema_of() {
  if constexpr (detail::is_device_code) {
    if (detail::row_of_program<Op>) return *detail::row_of_program<Op>;
  }
  return detail::schema_storage<Op>;
}

/// The rows that a fused one absorbs; none of another. Throws E-OP-ARGS for a name that is no row's.
Small<const OpSchema*, 4> absorbed_rows(const OpSchema& op);

/// All rows, in the order of their names. Constant once main runs.
const std::vector<const OpSchema*>& registry();
const OpSchema* find_op(std::string_view name);  ///< null when there is none
/// The registered name nearest to `name` (edit distance), for error messages.
std::string_view nearest_op(std::string_view name);

namespace detail {
void register_op(OpSchema& schema, const char* file);
/// The program's row of that name gets the functions; null when it has none, or one with other attributes.
const OpSchema* add_device_functions(const OpSchema& compiled);
}  // namespace detail

/// At namespace scope of an op file: `static const Register<Gelu> gelu_row;` adds it to the table. Duplicate names
/// throw. In device code: to the list that a module hands to the program. The build defines MIXTAPE_IN_DEVICE_MODULE
/// for the files that it compiles both ways, so that the table can name a row's devices before a module is loaded.
template <Operator Op>
struct Register {
  explicit Register([[maybe_unused]] const char* file = __builtin_FILE()) {
#if defined(MIXTAPE_DEVICE_MODULE)
    detail::device_rows().push_back({&detail::schema_storage<Op>, &detail::row_of_program<Op>});
#else
#if defined(MIXTAPE_IN_DEVICE_MODULE)
    detail::schema_storage<Op>.in_device_module = true;
#endif
    detail::register_op(detail::schema_storage<Op>, file);
#endif
  }
};

// --- observing ---

/// One forward call, after it ran.
struct CallEvent {
  const OpSchema& op;
  const Tensors& given;  ///< as the caller passed them
  const Tensors& in;     ///< after stage 1's casts
  const Tensors& out;
  Rule rule;          ///< the rule that was in force
  bool moved;         ///< bytes were: false for views, and for a cast that a fresh shadow stood for
  const void* attrs;  ///< of the op: with `in`, all that the call rests on
};
/// One node of a sweep, after its backward ran.
struct BackwardEvent {
  const OpSchema& op;
  std::string scope;
  const Tensors& incoming;  ///< gradients of its outputs
  const Tensors& outgoing;  ///< gradients of its inputs
  const autograd::Node& node;
};
/// The hook of ledger, histograms, diagnosis and timing: null functions are not called.
struct Observer {
  void (*on_call)(void* self, const CallEvent& event) = nullptr;
  void (*on_backward)(void* self, const BackwardEvent& event) = nullptr;
  /// Between these two runs what `work` names: a row's kernel, either way, or what a sweep does of its own accord, a
  /// "cast" or a "gradient sum". They nest. `on_leave` must be there when `on_enter` is.
  void (*on_enter)(void* self, std::string_view work) = nullptr;
  void (*on_leave)(void* self) = nullptr;
  void* self = nullptr;
};
/// Tells the observer what runs while this lives; nothing when there is none.
class Working {
 public:
  Working(const Observer* observer, std::string_view work)
      : observer_(observer && observer->on_enter ? observer : nullptr) {
    if (observer_) observer_->on_enter(observer_->self, work);
  }
  ~Working() {
    if (observer_) observer_->on_leave(observer_->self);
  }
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;

 private:
  const Observer* observer_;
};

/// What autocast installs: the 16-bit dtype and the rule of each row, by op id. Immutable.
struct CastRule {
  DType low = DType::bf16;
  std::vector<Rule> rules;
  std::vector<bool> low_parameters = {};  ///< by op id: its parameters too are seen with values of 16 bits
  std::string policy;                     ///< its name, for messages
  Rule of(const OpSchema& op) const {
    return op.id >= 0 && op.id < static_cast<int>(rules.size()) ? rules[static_cast<size_t>(op.id)]
                                                                : op.info->precision.rule;
  }
  bool lowers_parameters(const OpSchema& op) const {
    return op.id >= 0 && op.id < static_cast<int>(low_parameters.size()) && low_parameters[static_cast<size_t>(op.id)];
  }
  /// Whether a fused row may stand for the rows that it absorbs: none of them, nor itself, has another rule here than
  /// in the table, and it would not have to bring whole tables to 16 bits.
  bool fuses(const OpSchema& op) const;
};

}  // namespace mixtape
