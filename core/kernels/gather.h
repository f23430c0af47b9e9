// Loops whose places are data: rows and single elements picked by an i64 index, and the sums that are their way back.
// Sums are taken in f32 (f64) in the order of the index, so that neither threads nor repeated indices change their
// bits.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/view.h"

namespace mixtape::kernels {

/// Throws E-INDEX "<op>: index 7 at [0, 3] is outside [0, 5)" for the first index, in row-major order, that does not
/// lie in [0, size). A device's indices are not looked at, which would make the host wait: there one outside picks NaN
/// (0 of an integer type), and a gradient adds to nothing.
void check_indices(const View& index, int64_t size, std::string_view op);

/// out[i, …] = source[index[i], …]: source [v, …], index of n elements in any shape, out [n, …]. Where the dtypes
/// differ, f32 is rounded once to out's. Indices must be in range.
void gather_rows(const View& source, const View& index, const View& out);
/// out[v, …] = the sum of in[i, …] over the i with index[i] == v, 0 where there is none; nothing is added to row
/// `skipped`. Rounded once to out's dtype.
void sum_rows(const View& in, const View& index, const View& out, int64_t skipped = -1);

/// The rows of a table of `size` that an index names, sorted once: sum_rows without those that stay 0. On the CPU only:
/// how many rows there are, the host would have to wait for.
class TouchedRows {
 public:
  TouchedRows(const View& index, int64_t size, int64_t skipped = -1);
  ~TouchedRows();
  /// The distinct indices, ascending, without `skipped`.
  const std::vector<int64_t>& rows() const;
  /// The rows of sum_rows into [size, …] with these numbers, one after the other, to the bit: out [rows, …].
  void sum(const View& in, const View& out) const;

  struct Sorted;

 private:
  std::unique_ptr<const Sorted> sorted_;
};

/// out[…, j, …] = source[…, index[…, j, …], …] along `axis`; index and out have one shape, which may be smaller than
/// source's along the other axes.
void gather_elements(const View& source, const View& index, int axis, const View& out);
/// The adjoint: out[…, index[…, j, …], …] is the sum of in[…, j, …], 0 where nothing points. Rounded once.
void sum_elements(const View& in, const View& index, int axis, const View& out);

}  // namespace mixtape::kernels
