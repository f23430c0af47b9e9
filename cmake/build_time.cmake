# What keeps the full build short: most files are a second of their own code and three of other people's headers.

# Files that are compiled together parse and instantiate those headers once. Anonymous namespaces meet there: a helper
# that two files of a batch both call `parse` needs two names. The presets debug and clang compile each file alone.
# A file's batch depends on its name alone, so that a new file meets one batch and does not deal the others anew.
function(mixtape_compile_together target)
  get_target_property(files ${target} SOURCES)
  list(FILTER files INCLUDE REGEX "\\.cpp$")
  list(LENGTH files count)
  math(EXPR batches "(${count} + 15) / 16 * 2")  # eight files each; moves with every 16th file
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    string(MD5 digits ${name})
    string(SUBSTRING ${digits} 0 6 digits)
    math(EXPR batch "0x${digits} % ${batches}")
    set_property(SOURCE ${file} PROPERTY UNITY_GROUP batch_${batch})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${MIXTAPE_UNITY} UNITY_BUILD_MODE GROUP)
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
