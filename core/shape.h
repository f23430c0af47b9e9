// Shapes and strides: up to eight dimensions, kept inline.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

namespace mixtape {

inline constexpr int max_rank = 8;

/// A list of at most eight int64 values: a shape (sizes) or strides (in elements).
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values);  ///< throws E-RANK beyond eight
  static Dims filled(int rank, int64_t value);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return values_[axis]; }
  int64_t& operator[](int axis) { return values_[axis]; }
  int64_t back() const { return values_[rank_ - 1]; }
  const int64_t* begin() const { return values_; }
  const int64_t* end() const { return values_ + rank_; }
  void push_back(int64_t value);  ///< throws E-RANK beyond eight
  void insert(int axis, int64_t value);
  void erase(int axis);
  int64_t numel() const;    ///< product of all values; 1 for rank 0
  std::string str() const;  ///< "[2, 3]"
  friend bool operator==(const Dims& a, const Dims& b);

 private:
  int rank_ = 0;
  int64_t values_[max_rank] = {};
};
using Shape = Dims;
using Strides = Dims;

Strides contiguous_strides(const Shape& shape);
bool is_contiguous(const Shape& shape, const Strides& strides);
/// The axis counted from the front; negative ones count from the back. Throws E-AXIS naming `what`.
int normalize_axis(int64_t axis, int rank, const char* what);
/// NumPy broadcasting; false when the shapes do not fit.
bool broadcast_shapes(const Shape& a, const Shape& b, Shape& out);
/// Strides that read a tensor of `shape` as if it had the (broadcast) shape `target`.
Strides broadcast_strides(const Shape& shape, const Strides& strides, const Shape& target);

}  // namespace mixtape
