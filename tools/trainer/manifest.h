// Manifest: the last file of a checkpoint, by which a reader knows that the others are complete and untouched.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/safetensors.h"

namespace mixtape::trainer {

/// Of a checkpoint directory. A line of text each, and last the hash of all lines before, so that no flipped bit in it
/// goes unseen either.
struct Manifest {
  struct File {
    std::string name;
    int64_t size = 0;
    std::string hash;  ///< XXH3-128, 32 digits
  };
  int64_t step = 0;
  int64_t best_step = 0;    ///< the step of the best model so far; 0: none yet
  std::string config = {};  ///< hash_of(Trajectory)
  std::vector<File> files = {};

  std::string text() const;
};

/// Exactly what text() makes, and nothing else. Never throws (but bad_alloc) and never trusts a number.
data::Parsed<Manifest> parse_manifest(std::string_view text);

/// Reads and checks DIR/MANIFEST and every file that it names. The error says what is wrong with which file.
data::Parsed<Manifest> verify_directory(const std::string& dir);

}  // namespace mixtape::trainer
