# What Mixtape is built from, all of it from Debian 12 (tools/setup installs it).
find_package(OpenMP REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(Eigen3 3.4 REQUIRED)
# oneDNN is looked for by hand: Debian's package file insists on OpenCL headers that the package does not depend on.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(DNNL_LIBRARY dnnl)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)
# By hand too: Debian's package file insists on the zip tools of another package.
find_path(ZIP_INCLUDE_DIR zip.h REQUIRED)
find_library(ZIP_LIBRARY zip REQUIRED)

if(MIXTAPE_GEMM STREQUAL "auto")
  if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
    set(MIXTAPE_GEMM_ENGINE onednn)
  else()
    set(MIXTAPE_GEMM_ENGINE eigen)
  endif()
elseif(MIXTAPE_GEMM MATCHES "^(onednn|eigen)$")
  set(MIXTAPE_GEMM_ENGINE ${MIXTAPE_GEMM})
else()
  message(FATAL_ERROR "MIXTAPE_GEMM=${MIXTAPE_GEMM}: must be auto, onednn or eigen")
endif()
if(MIXTAPE_GEMM_ENGINE STREQUAL "onednn" AND NOT (DNNL_INCLUDE_DIR AND DNNL_LIBRARY))
  message(FATAL_ERROR "MIXTAPE_GEMM=onednn, but oneDNN was not found: install libdnnl-dev or use MIXTAPE_GEMM=eigen")
endif()
message(STATUS "matrix products on the CPU by ${MIXTAPE_GEMM_ENGINE}")

add_library(mixtape_dependencies INTERFACE)
target_link_libraries(mixtape_dependencies INTERFACE
  OpenMP::OpenMP_CXX nlohmann_json::nlohmann_json fmt::fmt CLI11::CLI11 Eigen3::Eigen ${XXHASH_LIBRARY}
  ${ZIP_LIBRARY})
if(MIXTAPE_GEMM_ENGINE STREQUAL "onednn")
  target_include_directories(mixtape_dependencies INTERFACE ${DNNL_INCLUDE_DIR})
  target_link_libraries(mixtape_dependencies INTERFACE ${DNNL_LIBRARY})
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache takes a precompiled header only when it is told that its defines and dates may be ignored.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()
