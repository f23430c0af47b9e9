#include "nn/token_layout.h"

#include <numeric>

#include "core/factory.h"

namespace mixtape::nn {

TokenLayout to(const TokenLayout& layout, Device device) {
  if (device.is_cpu()) return layout;
  TokenLayout moved = layout;
  moved.sequences.offsets = upload(layout.sequences.offsets, device);
  for (Tensor TokenLayout::*part :
       {&TokenLayout::places, &TokenLayout::first_tokens, &TokenLayout::first_places, &TokenLayout::positions}) {
    if (layout.*part) moved.*part = upload(layout.*part, device);
  }
  return moved;
}

TokenLayout padded_layout(int64_t sequences, int64_t length, const Tensor& visible) {
  std::vector<int64_t> offsets(static_cast<size_t>(sequences) + 1);
  for (size_t s = 0; s < offsets.size(); ++s) offsets[s] = static_cast<int64_t>(s) * length;
  const Tensor all = from_ints(offsets, {sequences + 1});
  offsets.pop_back();
  const Tensor first = from_ints(offsets, {sequences});
  std::vector<int64_t> positions(static_cast<size_t>(length));
  std::iota(positions.begin(), positions.end(), 0);
  return {.sequences = {all, length, visible},
          .places = {},
          .first_tokens = first,
          .first_places = first,
          .positions = from_ints(positions, {length})};
}

TokenLayout packed_layout(const Tensor& offsets, int64_t longest) {
  const std::vector<double> ends = to_vector(offsets);
  std::vector<int64_t> places, positions, first_tokens, first_places;
  for (size_t s = 0; s + 1 < ends.size(); ++s) {
    const int64_t begin = static_cast<int64_t>(ends[s]), end = static_cast<int64_t>(ends[s + 1]);
    first_tokens.push_back(begin);
    first_places.push_back(static_cast<int64_t>(s) * longest);
    for (int64_t i = begin; i < end; ++i) {
      places.push_back(first_places.back() + i - begin);
      positions.push_back(i - begin);
    }
  }
  const int64_t count = std::ssize(first_tokens), tokens = std::ssize(places);
  return {.sequences = {offsets, longest, {}},
          .places = from_ints(places, {tokens}),
          .first_tokens = from_ints(first_tokens, {count}),
          .first_places = from_ints(first_places, {count}),
          .positions = from_ints(positions, {tokens})};
}

}  // namespace mixtape::nn
