# The installed package: find_package(mixtape) gives mixtape::mixtape and mixtape::optest (the op-table runner).
include(CMakePackageConfigHelpers)

# Shared, because a static archive would silently drop every self-registered op. Only linked: the objects exist already.
# (Not called mixtape: Ninja gives that name to the program.)
add_library(mixtape_library SHARED $<TARGET_OBJECTS:mixtape_objects> $<TARGET_OBJECTS:mixtape_text>)
set_target_properties(mixtape_library PROPERTIES OUTPUT_NAME mixtape EXPORT_NAME mixtape
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_include_directories(mixtape_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mixtape>)
target_compile_features(mixtape_library INTERFACE cxx_std_20)
# The headers hold loops that must give the same bits in a user's program: same contraction, same instruction set.
target_compile_options(mixtape_library INTERFACE ${MIXTAPE_NUMERIC_FLAGS})
target_link_libraries(mixtape_library PUBLIC OpenMP::OpenMP_CXX PRIVATE mixtape_flags mixtape_dependencies)

# The runner's sources (ops/optest*.cpp) are in the library; the name says what a test of one's own op needs.
add_library(mixtape_optest_runner INTERFACE)
target_link_libraries(mixtape_optest_runner INTERFACE mixtape_library)
set_target_properties(mixtape_optest_runner PROPERTIES EXPORT_NAME optest)

install(TARGETS mixtape_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS mixtape_library mixtape_optest_runner EXPORT mixtape-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(folder core autograd ops nn optim amp data models tools/trainer tools/config tools/teach
    tools/inspect tools/draw tools/report)
  get_filename_component(parent ${folder} DIRECTORY)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mixtape/${parent}
    FILES_MATCHING PATTERN "*.h" PATTERN "*.cuh")
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/mixtape)
install(EXPORT mixtape-targets NAMESPACE mixtape:: DESTINATION ${package_dir})
configure_package_config_file(cmake/mixtape-config.cmake.in ${CMAKE_BINARY_DIR}/mixtape-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/mixtape-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/mixtape-config.cmake ${CMAKE_BINARY_DIR}/mixtape-config-version.cmake
  DESTINATION ${package_dir})
