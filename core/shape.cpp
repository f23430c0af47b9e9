#include "core/shape.h"

#include <algorithm>

#include "core/error.h"

namespace mixtape {

Dims::Dims(std::initializer_list<int64_t> values) {
  for (int64_t value : values) push_back(value);
}

Dims Dims::filled(int rank, int64_t value) {
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) {
  if (rank_ == max_rank) fail(ErrorKind::internal, "E-RANK", message("a tensor has at most ", max_rank, " dimensions"));
  values_[rank_++] = value;
}

void Dims::insert(int axis, int64_t value) {
  push_back(value);
  std::rotate(values_ + axis, values_ + rank_ - 1, values_ + rank_);
}

void Dims::erase(int axis) {
  std::copy(values_ + axis + 1, values_ + rank_, values_ + axis);
  --rank_;
}

int64_t Dims::numel() const {
  int64_t product = 1;
  for (int64_t value : *this) product *= value;
  return product;
}

std::string Dims::str() const {
  std::string out = "[";
  for (int i = 0; i < rank_; ++i) out += message(i ? ", " : "", values_[i]);
  return out + "]";
}

bool operator==(const Dims& a, const Dims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Strides::filled(shape.rank(), 1);
  for (int i = shape.rank() - 2; i >= 0; --i) strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

int normalize_axis(int64_t axis, int rank, const char* what) {
  const int64_t positive = axis < 0 ? axis + rank : axis;
  if (positive < 0 || positive >= rank) {
    fail(ErrorKind::internal, "E-AXIS", message(what, ": axis ", axis, " is outside a tensor of rank ", rank));
  }
  return static_cast<int>(positive);
}

bool broadcast_shapes(const Shape& a, const Shape& b, Shape& out) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = Shape::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int from_a = i - (rank - a.rank()), from_b = i - (rank - b.rank());
    const int64_t da = from_a < 0 ? 1 : a[from_a], db = from_b < 0 ? 1 : b[from_b];
    if (da != db && da != 1 && db != 1) return false;
    result[i] = da == 1 ? db : da;
  }
  out = result;
  return true;
}

Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target) {
  Strides result = Strides::filled(target.rank(), 0);
  const int missing = target.rank() - shape.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != 1 || target[i + missing] == 1) result[i + missing] = strides[i];
  }
  return result;
}

}  // namespace mixtape
