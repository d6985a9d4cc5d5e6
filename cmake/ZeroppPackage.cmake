# Files that `cmake --install` leaves for other projects: the library with its public headers, and the package that
# CMake finds there (zeroppConfig.cmake.in). Headers keep their paths: under include/zeropp they are included as they
# are here.
include(CMakePackageConfigHelpers)

# A header is public when it needs no library but MPI, fmt and nlohmann-json, and no generated file.
file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/kernels/*.hpp
     ${PROJECT_SOURCE_DIR}/lib/*.hpp)
list(FILTER public_headers EXCLUDE REGEX "^lib/c/|/(cuda|formats|host)/|/(defect|entries|fused_pairs|h5|h5_image)[.]hpp$|/(codec|optim)/host_[a-z_]*[.]hpp$|/host_(cast|for)[.]hpp$")
list(TRANSFORM public_headers PREPEND ${PROJECT_SOURCE_DIR}/)
target_sources(zeropp PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${public_headers})

set(exported zeropp zeropp_cblas)
set_target_properties(zeropp_cblas PROPERTIES EXPORT_NAME cblas)
if(ZEROPP_ENABLE_CUDA)
  list(APPEND exported zeropp_cuda_libraries)
  set_target_properties(zeropp_cuda_libraries PROPERTIES EXPORT_NAME cuda_libraries)
endif()
if(TARGET zeropp_c)
  list(APPEND exported zeropp_c)
  install(FILES ${PROJECT_SOURCE_DIR}/lib/c/zeropp.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/zeropp)
endif()
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/zeropp)
install(TARGETS ${exported} EXPORT zeropp ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/zeropp)
install(EXPORT zeropp NAMESPACE zeropp:: FILE zeroppTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/zeroppConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/zeroppConfig.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/zeroppConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/zeroppConfig.cmake ${PROJECT_BINARY_DIR}/generated/zeroppConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/FindLiburing.cmake ${CMAKE_CURRENT_LIST_DIR}/FindNCCL.cmake ${CMAKE_CURRENT_LIST_DIR}/KokkosIncludeFix.cmake
        DESTINATION ${package_dir})
