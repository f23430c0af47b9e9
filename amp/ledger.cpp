#include "amp/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "amp/products.h"
#include "core/context.h"
#include "core/kernels/gemm.h"

namespace mixtape::amp {
namespace {

using nlohmann::ordered_json;

int64_t bytes_of(const Tensors& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor ? tensor.numel() * size_of(tensor.dtype()) : 0;
  return bytes;
}

std::vector<DType> dtypes_of(const Tensors& tensors) {
  std::vector<DType> all;
  for (const Tensor& tensor : tensors) {
    if (tensor) all.push_back(tensor.dtype());
  }
  return all;
}

// A lookup reads as much of its table as it writes, not the whole of it.
int64_t bytes_read(const CallEvent& event) {
  int64_t bytes = 0;
  bool has_data = false;
  for (int i = 0; i < event.in.size(); ++i) has_data = has_data || event.op.info->inputs[i].role == Role::data;
  for (int i = 0; i < event.in.size(); ++i) {
    const Tensor& in = event.in[i];
    if (!in) continue;
    const bool table = !has_data && event.op.info->inputs[i].role == Role::parameter;
    bytes += (table ? std::min(in.numel(), event.out[0].numel()) : in.numel()) * size_of(in.dtype());
  }
  return bytes;
}

// Products multiply in the dtype of their operands; all other formulas are evaluated in f32 (f64 for f64).
DType compute_of(const CallEvent& event) {
  const DType out = event.out[0].dtype();
  if (event.op.info->precision.rule == Rule::low) return event.in[0].dtype();
  return event.moved && is_float(out) ? wide(out) : out;
}

/// Kernels that add add in f32, or in f64 where the data is that.
std::optional<DType> accum_of(const CallEvent& event) {
  if (!event.moved || !sums(event.op)) return std::nullopt;
  return wide(event.out[0].dtype());
}

int casts_of(const CallEvent& event) {
  int casts = 0;
  for (int i = 0; i < event.in.size(); ++i) {
    casts += event.in[i] && event.in[i].dtype() != event.given[i].dtype() ? 1 : 0;
  }
  return casts;
}

std::string names(const std::vector<DType>& dtypes, const char* between) {
  std::string all;
  for (const DType dtype : dtypes) all += message(all.empty() ? "" : between, name_of(dtype));
  return all;
}

std::string key_of(const LedgerRow& row) {
  return message(row.op, "|", row.scope, "|", names(row.in, ","), "|", names(row.out, ","), "|", name_of(row.rule), "|",
                 name_of(row.compute));  // and with it what sums are in
}

// "encoder.layer.3.output" -> "encoder.layer.*.output"
std::string without_numbers(const std::string& scope) {
  std::string out;
  size_t start = 0;
  while (start <= scope.size() && !scope.empty()) {
    const size_t end = std::min(scope.find('.', start), scope.size());
    const std::string part = scope.substr(start, end - start);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    out += (start == 0 ? "" : ".") + (number ? "*" : part);
    start = end + 1;
  }
  return out;
}

ordered_json to_json(const std::vector<DType>& dtypes) {
  ordered_json all = ordered_json::array();
  for (const DType dtype : dtypes) all.push_back(name_of(dtype));
  return all;
}

ordered_json forward_json(const LedgerRow& row) {
  return {{"op", row.op},
          {"scope", row.scope},
          {"calls", row.calls},
          {"in", to_json(row.in)},
          {"compute", name_of(row.compute)},
          {"accum", row.accum ? ordered_json(name_of(*row.accum)) : ordered_json(nullptr)},
          {"out", name_of(row.out[0])},
          {"rule", name_of(row.rule)},
          {"casts", row.casts},
          {"bytes", row.bytes},
          {"flops", row.flops},
          {"why", why_of(row)}};
}

void take_larger(std::optional<double>& known, const std::optional<double>& found) {
  if (found) known = std::max(known.value_or(0), *found);
}

/// A gradient that is handed on as it came, or in another shape, moves nothing.
int64_t bytes_moved(const BackwardEvent& event) {
  int64_t written = 0;
  for (const Tensor& out : event.outgoing) {
    const auto shares = [&](const Tensor& in) { return in && in.storage().data() == out.storage().data(); };
    const bool handed_on = out && std::any_of(event.incoming.begin(), event.incoming.end(), shares);
    if (out && !handed_on) written += out.numel() * size_of(out.dtype());
  }
  return written == 0 ? 0 : bytes_of(event.incoming) + written;
}

ordered_json to_json(const LedgerTotals& all) {
  return {{"calls", all.calls},           {"casts", all.casts},           {"bytes", all.bytes},
          {"cast_bytes", all.cast_bytes}, {"cast_share", all.cast_share}, {"flops", all.flops},
          {"low_flops", all.low_flops}};
}

/// The 16-bit dtype that a row multiplies; none where no row does.
std::optional<DType> multiplied_low(const std::vector<LedgerRow>& rows) {
  for (const LedgerRow& row : rows) {
    if (row.flops > 0 && is_low(row.compute)) return row.compute;
  }
  return std::nullopt;
}

std::string megabytes(int64_t bytes) { return fmt::format("{:.3f}", static_cast<double>(bytes) / 1e6); }

ordered_json backward_json(const LedgerRow& row) {
  return {{"op", row.op},
          {"scope", row.scope},
          {"calls", row.calls},
          {"in", to_json(row.in)},
          {"compute", name_of(row.compute)},
          {"out", to_json(row.out)},
          {"bytes", row.bytes}};
}

}  // namespace

std::vector<LedgerRow> grouped(const std::vector<LedgerRow>& rows) {
  std::vector<LedgerRow> groups;
  std::map<std::string, size_t> places;
  for (const LedgerRow& row : rows) {
    LedgerRow group = row;
    group.scope = without_numbers(row.scope);
    const auto [place, fresh] = places.try_emplace(key_of(group), groups.size());
    if (fresh) {
      groups.push_back(group);
      continue;
    }
    LedgerRow& known = groups[place->second];
    known.calls += row.calls, known.casts += row.casts, known.bytes += row.bytes, known.flops += row.flops;
    take_larger(known.error, row.error);
  }
  return groups;
}

std::string why_of(const LedgerRow& row) {
  const std::string whose = row.own_rule ? "" : "policy: ";
  if (row.op == "cast") return row.bytes == 0 ? "a weight's copy stands for it" : "for the rule of the next op";
  if (row.bytes == 0) return "a view";
  switch (row.rule) {
    case Rule::low: return whose + (row.compute == DType::f32 ? "product, no guard" : "product of 16-bit values");
    case Rule::full: return whose + "range or sum needs f32";
    case Rule::widest: return whose + "as its widest input";
    case Rule::keep: return whose + "f32 inside, dtype kept";
    case Rule::low_out: return whose + (is_low(row.out[0]) ? "reads f32, writes 16 bits" : "a lookup, no guard");
    case Rule::banned: return whose + "refused under a guard";
  }
  return whose;
}

DType multiplied_in(DType low) { return low == DType::bf16 && kernels::gemm_native_bf16() ? DType::bf16 : DType::f32; }

std::string product_note(const std::vector<LedgerRow>& rows) {
  const std::optional<DType> low = multiplied_low(rows);
  if (!low || multiplied_in(*low) == *low) return "";
  return message(
      "this CPU multiplies ", name_of(*low),
      " values in f32, which is exact, and rounds a result once: the numbers are those of 16-bit products, the "
      "speed is not");
}

std::string first_step_note(const LedgerTotals& first_step, const LedgerTotals& warm) {
  const int64_t more = first_step.cast_bytes - warm.cast_bytes;
  if (more <= 0) return "";
  return fmt::format(
      "the first step moves {} MB more ({:.1f} % of its bytes are casts): it makes the weights' 16-bit copies, which "
      "the optimizer then writes along",
      megabytes(more), 100 * first_step.cast_share);
}

Ledger::Ledger(ErrorMeasure measure)
    : observer_{.on_call = &Ledger::on_call, .on_backward = &Ledger::on_backward, .self = this}, measure_(measure) {}

LedgerRow& Ledger::Book::at(const LedgerRow& row) {
  const auto [place, fresh] = places.try_emplace(key_of(row), rows.size());
  if (fresh) rows.push_back(row);
  return rows[place->second];
}

void Ledger::on_call(void* self, const CallEvent& event) {
  LedgerRow& row = static_cast<Ledger*>(self)->forward_.at({.op = std::string(event.op.info->name),
                                                            .scope = scope_path(context().scope.get()),
                                                            .in = dtypes_of(event.in),
                                                            .out = {event.out[0].dtype()},
                                                            .compute = compute_of(event),
                                                            .accum = accum_of(event),
                                                            .rule = event.rule,
                                                            .own_rule = event.rule == event.op.info->precision.rule});
  ++row.calls;
  row.flops += products_of(event).forward;
  row.casts += casts_of(event);
  if (event.moved) row.bytes += bytes_read(event) + bytes_of(event.out);
  if (const ErrorMeasure measure = static_cast<Ledger*>(self)->measure_) take_larger(row.error, measure(event));
}

void Ledger::on_backward(void* self, const BackwardEvent& event) {
  LedgerRow row{.op = std::string(event.op.info->name),
                .scope = event.scope,
                .in = dtypes_of(event.incoming),
                .out = dtypes_of(event.outgoing)};
  if (row.in.empty()) return;
  row.compute = event.op.info->precision.rule == Rule::low ? row.in[0] : wide(row.in[0]);
  LedgerRow& known = static_cast<Ledger*>(self)->backward_.at(row);
  ++known.calls;
  known.bytes += bytes_moved(event);
}

LedgerTotals Ledger::totals() const {
  LedgerTotals all;
  for (const LedgerRow& row : forward_.rows) {
    all.calls += row.calls, all.casts += row.casts, all.bytes += row.bytes;
    if (row.op == "cast") all.cast_bytes += row.bytes;
    all.flops += row.flops;
    if (is_low(row.compute)) all.low_flops += row.flops;
  }
  if (all.bytes > 0) all.cast_share = static_cast<double>(all.cast_bytes) / static_cast<double>(all.bytes);
  return all;
}

std::string Ledger::json(const LedgerTotals* first_step) const {
  ordered_json ops = ordered_json::array(), sweep = ordered_json::array();
  for (const LedgerRow& row : forward_.rows) {
    ops.push_back(forward_json(row));
    if (measure_ != nullptr) ops.back()["max_rel_err"] = row.error ? ordered_json(*row.error) : ordered_json(nullptr);
  }
  for (const LedgerRow& row : backward_.rows) sweep.push_back(backward_json(row));
  const std::optional<DType> low = multiplied_low(forward_.rows);
  ordered_json out = {{"ops", ops},
                      {"backward", sweep},
                      {"totals", to_json(totals())},
                      {"multiplied_in", low ? ordered_json(name_of(multiplied_in(*low))) : ordered_json(nullptr)}};
  if (first_step != nullptr) out["first_step"] = to_json(*first_step);
  return out.dump();
}

std::string Ledger::text(const LedgerTotals* first_step) const {
  constexpr const char* line = "{:<{}}{:>6}  {:<{}}  {:<9}{:<7}{:<6}{:<9}{:>6}{:>10}{:>9}{}  {:<{}}  {}\n";
  const auto error = [&](std::string_view text) {
    return measure_ == nullptr ? std::string() : fmt::format("{:>13}", text);
  };
  const std::vector<LedgerRow> rows = grouped(forward_.rows);
  size_t op_width = 18, in_width = 14, why_width = 3;  // fused rows have long names and many inputs
  for (const LedgerRow& row : rows) {
    op_width = std::max(op_width, row.op.size());
    in_width = std::max(in_width, names(row.in, " ").size());
    why_width = std::max(why_width, why_of(row).size());
  }
  std::string out = fmt::format(line, "op", op_width, "calls", "in", in_width, "compute", "accum", "out", "rule",
                                "casts", "MB", "GFLOP", error("max rel err"), "why", why_width, "where");
  for (const LedgerRow& row : rows) {
    out += fmt::format(line, row.op, op_width, row.calls, names(row.in, " "), in_width, name_of(row.compute),
                       row.accum ? name_of(*row.accum) : "-", names(row.out, " "), name_of(row.rule), row.casts,
                       megabytes(row.bytes), fmt::format("{:.4f}", row.flops / 1e9),
                       error(row.error ? fmt::format("{:.1e}", *row.error) : "-"), why_of(row), why_width, row.scope);
  }
  const LedgerTotals all = totals();
  out += fmt::format("total: {} calls, {} casts, {} MB moved, {:.1f} % of them by casts\n", all.calls, all.casts,
                     megabytes(all.bytes), 100 * all.cast_share);
  if (all.flops > 0)
    out += fmt::format("products: {:.4f} GFLOP, {:.1f} % of them of 16-bit values\n", all.flops / 1e9,
                       100 * all.low_flops / all.flops);
  for (const std::string& note :
       {first_step == nullptr ? "" : first_step_note(*first_step, all), product_note(forward_.rows)})
    out += note.empty() ? "" : note + "\n";
  return out;
}

}  // namespace mixtape::amp
