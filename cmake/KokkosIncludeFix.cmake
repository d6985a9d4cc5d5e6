# The target Kokkos::kokkos of Debian's package (libtrilinos-kokkos-dev, built as part of Trilinos) names an
# include directory that does not exist: the one that holds the header replaces it. Any other Kokkos, from
# 3.4 up, is left as it is.
if(NOT TARGET Kokkos::kokkos)
  message(FATAL_ERROR "Kokkos was found (${Kokkos_DIR}) but has no target Kokkos::kokkos: install "
                      "libtrilinos-kokkos-dev, or Kokkos 3.4 or later, and pass -DKokkos_ROOT=PREFIX")
endif()
get_target_property(kokkos_includes Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
foreach(directory IN LISTS kokkos_includes)
  if(IS_ABSOLUTE "${directory}" AND NOT EXISTS "${directory}")
    find_path(KOKKOS_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos REQUIRED)
    set_target_properties(Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${KOKKOS_INCLUDE_DIR})
    break()
  endif()
endforeach()
