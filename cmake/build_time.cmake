# What keeps the full build short: most files are a second of their own code and three of other people's headers.

# Files that are compiled together parse and instantiate those headers once. Anonymous namespaces meet there: a helper
# that two files of a batch both call `parse` needs two names. The presets debug and clang compile each file alone.
function(mixtape_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MIXTAPE_UNITY} UNITY_BUILD_BATCH_SIZE 8)
endfunction()

# Only g++ gets precompiled headers: with other compilers a forgotten #include shows.
function(mixtape_precompile target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_precompile_headers(${target} PRIVATE
      <algorithm> <cmath> <cstdint> <functional> <map> <memory> <optional> <span> <string> <vector> ${ARGN})
  endif()
endfunction()

mixtape_compile_together(mixtape_objects)
mixtape_precompile(mixtape_objects)
mixtape_compile_together(mixtape_text)
mixtape_compile_together(mixtape_program)
mixtape_precompile(mixtape_program <nlohmann/json.hpp> <fmt/format.h>)
