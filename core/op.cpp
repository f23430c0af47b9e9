#include "core/op.h"

#include <algorithm>

#include "core/context.h"

namespace mixtape {
namespace {

constexpr std::string_view rule_names[] = {"low", "full", "widest", "keep", "low_out", "banned"};
constexpr std::string_view role_names[] = {"data", "parameter", "index", "mask"};

std::vector<const OpSchema*>& table() {
  static std::vector<const OpSchema*> rows;
  return rows;
}

std::string place() {
  const std::string path = scope_path(context().scope.get());
  return path.empty() ? "" : message(" (in ", path, ")");
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

Arg typed(const Shape& shape, std::vector<double> values, DType dtype) {
  Arg a;
  a.shape = shape;
  a.values = std::move(values);
  a.dtype = dtype;
  a.strided = a.perturb = is_float(dtype);
  return a;
}

}  // namespace

void OpSchema::fail_no_kernel(Device device) const {
  mixtape::fail(ErrorKind::internal, "E-DEVICE-KERNEL",
                message(info->name, ": has no kernel for ", name_of(device), place(),
                        ": move its inputs with to(), or compile the op as device code"));
}

std::string_view name_of(Rule rule) { return rule_names[static_cast<size_t>(rule)]; }
std::string_view name_of(Role role) { return role_names[static_cast<size_t>(role)]; }
bool parse_rule(std::string_view name, Rule& out) {
  const auto* found = std::find(std::begin(rule_names), std::end(rule_names), name);
  if (found == std::end(rule_names)) return false;
  out = static_cast<Rule>(found - std::begin(rule_names));
  return true;
}

void Infer::expect(bool ok, int input, std::string_view wanted) const {
  if (ok) return;
  fail(message("input '", op_.info->inputs[input].name, "' has shape ", shape(input).str(), ", expected ", wanted));
}

void Infer::fail(const std::string& what) const {
  mixtape::fail(ErrorKind::internal, "E-SHAPE", message(op_.info->name, ": ", what, place()));
}

Shape Infer::broadcast(int a, int b) const {
  Shape out;
  if (!broadcast_shapes(shape(a), shape(b), out)) {
    fail(message("shapes ", shape(a).str(), " and ", shape(b).str(), " of '", op_.info->inputs[a].name, "' and '",
                 op_.info->inputs[b].name, "' do not broadcast"));
  }
  return out;
}

int Infer::axis(int input, int64_t axis) const {
  const int rank = shape(input).rank();
  if (axis < -rank || axis >= rank) {
    fail(
        message("axis ", axis, " is outside input '", op_.info->inputs[input].name, "' of shape ", shape(input).str()));
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Arg arg(const Shape& shape, double low, double high) {
  Arg a;
  a.shape = shape;
  a.low = low;
  a.high = high;
  return a;
}
Arg fixed(const Shape& shape, std::vector<double> values) { return typed(shape, std::move(values), DType::f32); }
Arg indices(const Shape& shape, std::vector<double> values) { return typed(shape, std::move(values), DType::i64); }
Arg mask(const Shape& shape, std::vector<double> values) { return typed(shape, std::move(values), DType::boolean); }
Arg absent() {
  Arg a;
  a.absent = true;
  a.perturb = false;
  return a;
}

const std::vector<const OpSchema*>& registry() { return table(); }

const OpSchema* find_op(std::string_view name) {  // in order of the names: every fused call looks some up
  const auto row =
      std::lower_bound(table().begin(), table().end(), name,
                       [](const OpSchema* op, std::string_view wanted) { return op->info->name < wanted; });
  return row != table().end() && (*row)->info->name == name ? *row : nullptr;
}

std::string_view nearest_op(std::string_view name) {
  std::string_view best;
  int best_distance = 1 << 20;
  for (const OpSchema* op : table()) {
    const int distance = edit_distance(name, op->info->name);
    if (distance < best_distance) best_distance = distance, best = op->info->name;
  }
  return best;
}

Small<const OpSchema*, 4> absorbed_rows(const OpSchema& op) {
  Small<const OpSchema*, 4> rows;
  std::string_view names = op.info->absorbs;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    const std::string_view name = names.substr(0, end);
    rows.push_back(find_op(name));
    if (!rows[rows.size() - 1]) {
      fail(ErrorKind::internal, "E-OP-ARGS", message(op.info->name, ": absorbs '", name, "', which is no row"));
    }
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return rows;
}

bool CastRule::fuses(const OpSchema& op) const {
  const auto as_in_table = [this](const OpSchema& row) { return of(row) == row.info->precision.rule; };
  if (!as_in_table(op)) return false;
  if (op.info->inputs[0].role == Role::parameter && lowers_parameters(op)) return false;
  for (const OpSchema* row : absorbed_rows(op)) {
    if (!as_in_table(*row)) return false;
  }
  return true;
}

namespace detail {
void register_op(OpSchema& schema, const char* file) {
  if (find_op(schema.info->name)) {
    mixtape::fail(ErrorKind::internal, "E-OP-DUPLICATE",
                  message("two operators are named '", schema.info->name, "': ", file));
  }
  schema.file = file;
  schema.id = static_cast<int>(table().size());  // registration order; rules are looked up by it
  table().push_back(&schema);
  std::sort(table().begin(), table().end(),
            [](const OpSchema* a, const OpSchema* b) { return a->info->name < b->info->name; });
}

const OpSchema* add_device_functions(const OpSchema& compiled) {
  const OpSchema* row = find_op(compiled.info->name);
  if (!row || row->attrs_bytes != compiled.attrs_bytes) return nullptr;
  OpSchema& own = const_cast<OpSchema&>(*row);  // registered by register_op, which was given it to change
  own.device_forward = compiled.device_forward;
  own.device_backward = compiled.device_backward;
  return row;
}
}  // namespace detail

}  // namespace mixtape
