# Every library that zeropp builds on, as imported targets. Nothing is fetched here.
find_package(Threads REQUIRED)
set(MPI_DETERMINE_LIBRARY_VERSION TRUE)  # whose launcher tests call
find_package(MPI REQUIRED COMPONENTS C)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)

find_package(Liburing)  # without it, files that are offloaded to are read and written by threads

set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 REQUIRED COMPONENTS C)

find_package(Kokkos REQUIRED)
include(KokkosIncludeFix)

set(BLA_VENDOR OpenBLAS)
find_package(BLAS REQUIRED)
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread openblas-serial openblas-openmp REQUIRED)
add_library(zeropp_cblas INTERFACE)
target_include_directories(zeropp_cblas SYSTEM INTERFACE $<BUILD_INTERFACE:${CBLAS_INCLUDE_DIR}>)
target_link_libraries(zeropp_cblas INTERFACE BLAS::BLAS)

# The Python that has what validation needs: a bare one that comes first in PATH is passed over.
function(zeropp_python_has_modules result candidate)
  execute_process(COMMAND ${candidate} -c "import numpy, h5py, matplotlib, scipy"
                  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
  if(NOT status EQUAL 0)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(ZEROPP_PYTHON NAMES python3 HINTS /usr/bin VALIDATOR zeropp_python_has_modules
             DOC "Python 3 with numpy, h5py, matplotlib and scipy")
