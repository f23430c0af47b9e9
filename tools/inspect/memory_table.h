// inspect memory --amp: the same step in several dtypes, beside each other and by parameter.
#pragma once

#include <string>
#include <vector>

#include "tools/inspect/memory.h"

namespace mixtape::inspect {

struct AmpMemory {
  std::string amp;  ///< "off", "bf16", "fp16"
  MemoryPlan plan;
};

/// A part of the memory of a step, its bytes in each of the dtypes.
struct MemoryPart {
  std::string name;
  std::vector<int64_t> bytes;
};
/// What is held by parameters, then what the forward saves: parts that lie beside each other in memory.
std::vector<MemoryPart> memory_parts(const std::vector<AmpMemory>& runs);

/// Measures each of `amps` as measure_memory() does; their configurations are all read before.
std::vector<AmpMemory> measure_memory_of(const std::string& file, const std::vector<std::string>& sets,
                                         const std::vector<std::string>& amps, trainer::Progress& progress);

std::string memory_table_text(const std::vector<AmpMemory>& runs);
/// {"runs":[{"amp", …the plan}]}
trainer::Json memory_table_json(const std::vector<AmpMemory>& runs);

}  // namespace mixtape::inspect
