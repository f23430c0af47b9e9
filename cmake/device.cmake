# The module of device code, which the program loads when a device is asked for (core/device_module.h).
#
# MIXTAPE_CUDA=AUTO adds the target mixtape_cuda where nvcc is found, built when somebody asks for it; ON makes it part of
# the whole; OFF leaves it out.
set(MIXTAPE_CUDA "AUTO" CACHE STRING "the module for NVIDIA GPUs: AUTO (target mixtape_cuda, where nvcc is), ON or OFF")
set(MIXTAPE_CUDA_ARCHITECTURES "90a" CACHE STRING "compute capabilities to compile for; of the last one PTX is kept too")

# What is compiled as device code: every op, whose loops are then launches, and what a device needs beside them.
function(mixtape_device_sources output)
  file(GLOB ops CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ops/*.cpp)
  list(FILTER ops EXCLUDE REGEX "/(optest[^/]*|attention_blocks)\\.cpp$")
  set(backend ${CMAKE_SOURCE_DIR}/core/kernels/backend.cu ${CMAKE_SOURCE_DIR}/core/kernels/device_facts.cu
    ${CMAKE_SOURCE_DIR}/ops/attention_blocks.cu ${CMAKE_SOURCE_DIR}/optim/step.cu ${CMAKE_SOURCE_DIR}/amp/scaler.cu)
  set(rules ${CMAKE_SOURCE_DIR}/optim/adamw.cpp ${CMAKE_SOURCE_DIR}/optim/sgd.cpp)
  set_source_files_properties(${backend} PROPERTIES LANGUAGE CXX)  # where the device-on-CPU runner takes it
  set(${output} ${ops} ${rules} ${backend} PARENT_SCOPE)
endfunction()

# Lets a module that is loaded later find core and autograd in this program.
function(mixtape_export_core target)
  target_link_options(${target} PRIVATE "LINKER:--dynamic-list=${CMAKE_SOURCE_DIR}/cmake/exports.list")
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/exports.list)
endfunction()

# What nvcc compiles for: machine code of each architecture, and PTX of the last.
function(mixtape_cuda_codes output)
  set(codes "")
  foreach(architecture ${MIXTAPE_CUDA_ARCHITECTURES})
    list(APPEND codes -gencode=arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  list(GET MIXTAPE_CUDA_ARCHITECTURES -1 last)
  list(APPEND codes -gencode=arch=compute_${last},code=compute_${last})
  set(${output} ${codes} PARENT_SCOPE)
endfunction()

# Adds the object of a list of files, which nvcc compiles together with these options, to `objects`. What the assembler
# says of registers and spills stays in build/<preset>/cuda/<name>.log, for tools/kernel_report.
macro(mixtape_cuda_object nvcc name files options)
  set(text "")
  foreach(file ${files})
    string(APPEND text "#include \"${file}\"\n")
  endforeach()
  set(unit ${CMAKE_BINARY_DIR}/cuda/${name}.cu)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
  add_custom_command(OUTPUT ${unit}.o DEPENDS ${unit} DEPFILE ${unit}.d VERBATIM COMMENT "Compiling as CUDA: ${name}"
    COMMAND sh -c "\"$@\" 2>\"$0\" || { cat \"$0\"; exit 1; }" ${CMAKE_BINARY_DIR}/cuda/${name}.log
      ${nvcc} -std=c++20 -O3 -DNDEBUG ${options} -I${CMAKE_SOURCE_DIR}
      -Xcompiler=-fPIC,-fvisibility=hidden,-fopenmp,-ffp-contract=off -Werror all-warnings -Xptxas -v
      -diag-suppress=177  # what only the program uses of a row: its oracle, its helpers on the host
      -MD -MF ${unit}.d -c ${unit} -o ${unit}.o)
  list(APPEND objects ${unit}.o)
endmacro()

# Objects of all sources, eight of which nvcc compiles at a time: most of its time goes into headers.
function(mixtape_cuda_objects nvcc output)
  mixtape_device_sources(sources)
  mixtape_cuda_codes(codes)
  list(GET MIXTAPE_CUDA_ARCHITECTURES -1 last)
  list(TRANSFORM MIXTAPE_CUDA_ARCHITECTURES PREPEND "sm_" OUTPUT_VARIABLE names)
  list(JOIN names " " names)
  set(options -DMIXTAPE_DEVICE_MODULE "-DMIXTAPE_DEVICE_ARCHITECTURES=\"${names} ptx_${last}\"" ${codes})
  set(objects "")
  list(LENGTH sources count)
  math(EXPR last "(${count} - 1) / 8")
  foreach(batch RANGE ${last})
    math(EXPR first "${batch} * 8")
    list(SUBLIST sources ${first} 8 files)
    mixtape_cuda_object(${nvcc} batch_${batch} "${files}" "${options}")
  endforeach()
  mixtape_cuda_object(${nvcc} gemm_cuda ${CMAKE_SOURCE_DIR}/core/kernels/gemm_cuda.cpp "${options}")
  set(${output} ${objects} PARENT_SCOPE)
endfunction()

function(mixtape_add_cuda_module)
  if(NOT MIXTAPE_CUDA MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "MIXTAPE_CUDA=${MIXTAPE_CUDA}: must be AUTO, ON or OFF")
  endif()
  find_program(MIXTAPE_NVCC nvcc HINTS /usr/local/cuda/bin)
  if(MIXTAPE_CUDA STREQUAL "OFF" OR (MIXTAPE_CUDA STREQUAL "AUTO" AND (NOT MIXTAPE_NVCC OR MIXTAPE_SANITIZE)))
    return()
  endif()
  if(NOT MIXTAPE_NVCC)
    message(FATAL_ERROR "MIXTAPE_CUDA=ON, but nvcc was not found: put it into the PATH, or set MIXTAPE_NVCC")
  endif()
  get_filename_component(toolkit ${MIXTAPE_NVCC} REALPATH)
  get_filename_component(toolkit ${toolkit}/../.. ABSOLUTE)
  set(MIXTAPE_CUDA_TOOLKIT ${toolkit} PARENT_SCOPE)
  find_library(MIXTAPE_CUDART cudart_static HINTS ${toolkit}/lib64 REQUIRED)
  find_library(MIXTAPE_CUBLASLT cublasLt HINTS ${toolkit}/lib64)
  if(NOT MIXTAPE_CUBLASLT)
    if(MIXTAPE_CUDA STREQUAL "ON")
      message(FATAL_ERROR "MIXTAPE_CUDA=ON, but cublasLt was not found beside ${MIXTAPE_NVCC}: install cuBLAS")
    endif()
    return()
  endif()
  mixtape_cuda_objects(${MIXTAPE_NVCC} objects)
  add_library(mixtape_cuda MODULE ${objects} ${CMAKE_SOURCE_DIR}/core/kernels/gemm_cublaslt.cpp)
  target_include_directories(mixtape_cuda PRIVATE ${CMAKE_SOURCE_DIR})
  target_include_directories(mixtape_cuda SYSTEM PRIVATE ${toolkit}/include)
  target_compile_options(mixtape_cuda PRIVATE -O2 -fvisibility=hidden)
  set_target_properties(mixtape_cuda PROPERTIES LINKER_LANGUAGE CXX LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
  target_link_libraries(mixtape_cuda PRIVATE ${MIXTAPE_CUDART} ${MIXTAPE_CUBLASLT} ${CMAKE_DL_LIBS} rt pthread)
  # Whatever else is static in it stays in it.
  target_link_options(mixtape_cuda PRIVATE LINKER:--exclude-libs,ALL)
  if(MIXTAPE_CUDA STREQUAL "AUTO")
    set_target_properties(mixtape_cuda PROPERTIES EXCLUDE_FROM_ALL ON)
  else()
    install(TARGETS mixtape_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endfunction()
