# A wheel of the Python package (pyproject.toml): the C interface and the savings module, for GPUs too where nvcc and NCCL are
# found. It needs fmt, OpenMP and pybind11; no MPI, no HDF5, no Kokkos.
find_program(ZEROPP_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
if(ZEROPP_NVCC AND NOT DEFINED CACHE{CMAKE_CUDA_COMPILER})
  set(CMAKE_CUDA_COMPILER ${ZEROPP_NVCC} CACHE FILEPATH "Compiler of CUDA C++")
endif()
if(ZEROPP_NVCC)
  find_package(CUDAToolkit QUIET)
  find_package(NCCL QUIET)
endif()
if(NCCL_FOUND)
  set(ZEROPP_ENABLE_CUDA ON)
  include(ZeroppCuda)
  message(STATUS "wheel: for the host and for GPUs")
else()
  message(STATUS "wheel: for the host alone; for GPUs it needs nvcc and NCCL")
endif()

# Objects of an earlier wheel, where ccache is there. pip builds in a new folder each time, whose path is no part of what is
# looked up.
find_program(ZEROPP_CCACHE ccache)
if(ZEROPP_CCACHE)
  foreach(language CXX CUDA)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_BINARY_DIR} CCACHE_NOHASHDIR=1
          ${ZEROPP_CCACHE})
    endif()
  endforeach()
endif()

find_package(fmt REQUIRED)
include(ZeroppRegistry)
add_subdirectory(lib/c)
add_subdirectory(python)
