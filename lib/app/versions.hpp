// Versions of the libraries that this program runs with.
#pragma once

#include <string>

namespace zeropp::app {

struct Versions {
  std::string mpi;
  std::string hdf5;
  std::string kokkos;
  std::string blas;
  std::string cuda;  ///< runtime, driver, NCCL; empty in a build without CUDA
};

/// Needs neither MPI nor Kokkos to be running.
Versions library_versions();

}  // namespace zeropp::app
