# The tests that need nvcc: built wherever the module for a GPU can be, run by tools/gpu_check.sh where a GPU is.
#
#   mixtape_gpu_kernels  the kernels one by one (test_*.cpp), linked with the real cublasLt
#   mixtape_gpu_gelu     which GELU cublasLt's epilogue is
# Neither is part of the whole: they take minutes of nvcc. The target mixtape_gpu_tests is all that gpu_check.sh runs.

# What the assembler says of registers and spills stays beside each object, for tools/kernel_report.
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/test_*.cpp)
mixtape_cuda_codes(codes)
set(options -DMIXTAPE_GPU ${codes})
set(objects "")
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  mixtape_cuda_object(${MIXTAPE_NVCC} ${name} "${file}" "${options}")
endforeach()
mixtape_cuda_object(${MIXTAPE_NVCC} gemm_cuda_test ${CMAKE_SOURCE_DIR}/core/kernels/gemm_cuda.cpp "${options}")
add_executable(mixtape_gpu_kernels EXCLUDE_FROM_ALL main.cpp gemm_calls.cpp ${objects}
  ${CMAKE_SOURCE_DIR}/core/kernels/gemm_cublaslt.cpp)
target_link_libraries(mixtape_gpu_kernels PRIVATE mixtape_objects doctest::doctest ${MIXTAPE_CUDART} ${MIXTAPE_CUBLASLT}
  ${CMAKE_DL_LIBS} rt pthread)
target_link_options(mixtape_gpu_kernels PRIVATE ${record_products})

add_executable(mixtape_gpu_gelu EXCLUDE_FROM_ALL gpu_gelu.cpp)
target_link_libraries(mixtape_gpu_gelu PRIVATE mixtape_objects ${MIXTAPE_CUDART} ${MIXTAPE_CUBLASLT} ${CMAKE_DL_LIBS} rt
  pthread)

foreach(program kernels gelu)
  target_compile_definitions(mixtape_gpu_${program} PRIVATE MIXTAPE_GPU)
  target_include_directories(mixtape_gpu_${program} SYSTEM PRIVATE ${MIXTAPE_CUDA_TOOLKIT}/include)
endforeach()
add_custom_target(mixtape_gpu_tests DEPENDS mixtape_gpu_ops mixtape_gpu_kernels mixtape_gpu_gelu mixtape_cuda
  mixtape_program)
