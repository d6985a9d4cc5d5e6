# One target, Kokkos::kokkos, from either packaging of Kokkos: its own (3.x with its own CMake, 4.x, 5.x),
# or Debian's, built as part of Trilinos, whose target has another name and names an include directory
# that does not exist.
if(NOT TARGET Kokkos::kokkos)
  foreach(candidate trilinos_kokkoscore Kokkos::all_libs kokkoscore)
    if(TARGET ${candidate})
      find_path(KOKKOS_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos REQUIRED)
      set_target_properties(${candidate} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${KOKKOS_INCLUDE_DIR}
                                                    INTERFACE_LINK_LIBRARIES "${CMAKE_DL_LIBS}")
      add_library(zeropp_kokkos INTERFACE)
      target_link_libraries(zeropp_kokkos INTERFACE ${candidate})
      add_library(Kokkos::kokkos ALIAS zeropp_kokkos)
      break()
    endif()
  endforeach()
endif()
if(NOT TARGET Kokkos::kokkos)
  message(FATAL_ERROR "Kokkos was found (${Kokkos_DIR}) but offers no target that is known here: "
                      "install libtrilinos-kokkos-dev, or Kokkos itself, and pass -DKokkos_ROOT=PREFIX")
endif()

# Debian's target names an include directory that does not exist: the directory where the header lies replaces it.
get_target_property(kokkos_include Kokkos::kokkos INTERFACE_INCLUDE_DIRECTORIES)
if(kokkos_include AND NOT EXISTS "${kokkos_include}")
  find_path(KOKKOS_INCLUDE_DIR Kokkos_Core.hpp PATH_SUFFIXES trilinos kokkos REQUIRED)
  set_target_properties(Kokkos::kokkos PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${KOKKOS_INCLUDE_DIR})
endif()
