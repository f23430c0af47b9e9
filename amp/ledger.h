// Ledger: what ran in which dtype, by which rule, with which casts, and how many bytes that moved. It sits behind the
// observer of the context and costs nothing where none is installed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/op.h"

namespace mixtape::amp {

/// All calls that agree in everything but their number.
struct LedgerRow {
  std::string op, scope;
  std::vector<DType> in;            ///< after the casts; absent inputs are left out. Backward: the incoming gradients
  std::vector<DType> out;           ///< one: all outputs of an op share it. Backward: the gradients of the inputs
  DType compute = DType::f32;       ///< the dtype of what is multiplied or evaluated. A machine without 16-bit products
                                    ///< multiplies the same values in f32, which is exact: multiplied_in()
  std::optional<DType> accum = {};  ///< of sums; none where nothing is added up. Forward only
  Rule rule = Rule::keep;           ///< that was in force; forward only
  bool own_rule = true;             ///< that rule is the table's, not one of the policy or an override
  int64_t calls = 0;
  double flops = 0;   ///< multiplications and additions in products; forward only
  int64_t casts = 0;  ///< inputs that stage 1 cast for these calls
  int64_t bytes =
      0;  ///< inputs and outputs, without what is only saved; 0 for views and for a cast that a fresh shadow stood for
  std::optional<double> error = {};  ///< the largest of its calls, where errors are measured; forward only
};

/// Rows whose scopes differ in numbers alone as one, in the order of the first: "layer.3" becomes "layer.*".
std::vector<LedgerRow> grouped(const std::vector<LedgerRow>& rows);

struct LedgerTotals {
  int64_t calls = 0, casts = 0;
  double flops = 0, low_flops = 0;  ///< of the forward; with operands of 16 bits
  int64_t bytes = 0;                ///< of the forward
  int64_t cast_bytes = 0;           ///< of these, moved by casts
  double cast_share = 0;            ///< cast_bytes / bytes
};

/// Why a row runs in these dtypes, in some words: "policy: product of 16-bit values".
std::string why_of(const LedgerRow& row);

/// What this CPU multiplies values of a 16-bit dtype in: itself where it has an instruction, else f32, which holds each
/// such product exactly, so that the result is the same.
DType multiplied_in(DType low);
/// "" or the sentence that says so, where a row multiplies 16-bit values and this CPU takes them as f32.
std::string product_note(const std::vector<LedgerRow>& rows);
/// "" or what the first step of a run casts more than a later one, `warm`.
std::string first_step_note(const LedgerTotals& first_step, const LedgerTotals& warm);

///   amp::Ledger ledger;
///   { const ObserverGuard guard(ledger.observer()); autograd::backward(scaler.scale(loss())); }
///   std::cout << ledger.text();
class Ledger {
 public:
  /// How far a call is from its exact result, relative to the largest element of that; absent where nothing can be
  /// compared (views).
  using ErrorMeasure = std::optional<double> (*)(const CallEvent& event);

  Ledger() : Ledger(nullptr) {}
  /// With a measure rows have errors, and text and JSON ("max_rel_err", null where there is none) show them.
  explicit Ledger(ErrorMeasure measure);
  Ledger(const Ledger&) = delete;  // the observer points here
  Ledger& operator=(const Ledger&) = delete;

  Observer& observer() { return observer_; }
  const std::vector<LedgerRow>& forward() const { return forward_.rows; }    ///< in the order of their first calls
  const std::vector<LedgerRow>& backward() const { return backward_.rows; }  ///< the same of the sweep
  LedgerTotals totals() const;

  /// {"ops":[{"op","scope","calls","in":[…],"compute","accum","out","rule","casts","bytes","flops","why"}],
  ///  "backward":[{"op","scope","calls","in":[…],"compute","out":[…],"bytes"}],
  ///  "totals":{"calls","casts","bytes","cast_bytes","cast_share","flops","low_flops"},"multiplied_in"}, the totals
  ///  those
  /// of "ops"; "multiplied_in" null without 16-bit products. Given the totals of a run's first step, "first_step" too.
  std::string json(const LedgerTotals* first_step = nullptr) const;
  /// A table, one line an op and kind of place: numbered parts of the model ("layer.3") stand together as "layer.*".
  std::string text(const LedgerTotals* first_step = nullptr) const;

 private:
  struct Book {
    std::vector<LedgerRow> rows;
    std::map<std::string, size_t> places;
    LedgerRow& at(const LedgerRow& row);
  };
  static void on_call(void* self, const CallEvent& event);
  static void on_backward(void* self, const BackwardEvent& event);

  Observer observer_;
  ErrorMeasure measure_;
  Book forward_, backward_;
};

}  // namespace mixtape::amp
