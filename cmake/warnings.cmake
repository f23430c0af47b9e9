add_library(mixtape_flags INTERFACE)
target_compile_options(mixtape_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor)
if(MIXTAPE_WERROR)
  target_compile_options(mixtape_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports a false -Wrestrict on "literal" + std::string at -O2 and above.
  target_compile_options(mixtape_flags INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # "This loop is independent" is a hint: the double version of a formula calls libm and stays scalar.
  target_compile_options(mixtape_flags INTERFACE -Wno-pass-failed)
endif()
# The same bits on every machine: no fast-math, contraction pinned. errno and trap flags of maths functions are never
# read, and keeping them would stop every elementary function from being vectorised.
set(MIXTAPE_NUMERIC_FLAGS -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(NOT MIXTAPE_ARCH STREQUAL "")
  list(APPEND MIXTAPE_NUMERIC_FLAGS -march=${MIXTAPE_ARCH})
endif()
target_compile_options(mixtape_flags INTERFACE ${MIXTAPE_NUMERIC_FLAGS})
