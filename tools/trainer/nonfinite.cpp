#include "tools/trainer/nonfinite.h"

#include "core/context.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/op.h"

namespace mixtape::trainer {
namespace {

bool is_finite(const Tensor& tensor) {
  if (!tensor || !is_float(tensor.dtype())) return true;
  const Tensor dense = tensor.contiguous() ? tensor : copy_of(tensor);  // an output may be a view
  return kernels::census(dense.view()).finite;
}

/// Remembers the first call that made something that is not finite.
struct Search {
  std::string found;
  static void on_call(void* self, const CallEvent& event) {
    Search& search = *static_cast<Search*>(self);
    if (!search.found.empty()) return;
    for (const Tensor& out : event.out) {
      if (is_finite(out)) continue;
      const std::string place = scope_path(context().scope.get());
      search.found = message("the output of ", event.op.info->name, place.empty() ? "" : " in " + place);
      return;
    }
  }
};

}  // namespace

std::string first_nonfinite(const NamedTensors& parameters, const std::function<void()>& forward) {
  for (const NamedTensor& parameter : parameters) {
    if (!is_finite(parameter.tensor)) return "parameter '" + parameter.name + "'";
  }
  Search search;
  Observer observer{.on_call = &Search::on_call, .self = &search};
  const ObserverGuard guard(observer);
  const NoGradGuard no_grad;
  forward();
  return search.found;
}

}  // namespace mixtape::trainer
