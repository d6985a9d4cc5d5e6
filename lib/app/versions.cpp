#include "lib/app/versions.hpp"

#include <cblas.h>

#include "kernels/core/host_runtime.hpp"
#include "lib/comm/world.hpp"
#include "lib/device/runtime.hpp"
#include "lib/trace/sinks/h5.hpp"

namespace zeropp::app {
namespace {

/// Text without trailing blanks.
std::string trimmed(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

Versions library_versions() {
  return {trimmed(comm::World::library_version()), trace::h5::library_version(),
          HostRuntime::kokkos_version(), trimmed(openblas_get_config()), cuda_versions()};
}

}  // namespace zeropp::app
