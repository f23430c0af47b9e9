#include "core/kernels/plan.h"

#include "core/error.h"

namespace mixtape::kernels {
namespace {

bool mergeable(const Plan& plan, const Strides* strides, int operands, int axis, int64_t size) {
  if (plan.rank == 0) return false;
  for (int k = 0; k < operands; ++k) {
    if (plan.stride[k][plan.rank - 1] != strides[k][axis] * size) return false;
  }
  return true;
}

}  // namespace

Plan make_plan(const Shape& shape, const View* views, int operands, uint32_t keep) {
  if (operands > max_operands) fail(ErrorKind::internal, "E-KERNEL", "a loop has too many operands");
  Strides strides[max_operands];
  for (int k = 0; k < operands; ++k) {
    strides[k] =
        views[k] ? broadcast_strides(views[k].shape, views[k].strides, shape) : Strides::filled(shape.rank(), 0);
  }
  Plan plan;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (!(keep >> axis & 1u) || shape[axis] == 1) continue;
    if (mergeable(plan, strides, operands, axis, shape[axis])) {
      plan.size[plan.rank - 1] *= shape[axis];
      for (int k = 0; k < operands; ++k) plan.stride[k][plan.rank - 1] = strides[k][axis];
      continue;
    }
    plan.size[plan.rank] = shape[axis];
    for (int k = 0; k < operands; ++k) plan.stride[k][plan.rank] = strides[k][axis];
    ++plan.rank;
  }
  return plan;
}

Plan make_plan(const Shape& shape, const View* views, int operands) { return make_plan(shape, views, operands, ~0u); }

int64_t Plan::split_inner(int64_t* inner_strides, int operands) {
  if (rank == 0) {
    for (int k = 0; k < operands; ++k) inner_strides[k] = 0;
    return 1;
  }
  --rank;
  for (int k = 0; k < operands; ++k) inner_strides[k] = stride[k][rank];
  return size[rank];
}

}  // namespace mixtape::kernels
