// Functions that the benches of this folder share: they write the rows and end the program.
#pragma once

#include <cstdio>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/comm/world.hpp"
#include "lib/device/runtime.hpp"

namespace zeropp::bench {

/// `made` with where it was measured, to `file` by rank 0; nowhere where that is null.
inline void write(comm::World& world, const char* file, nlohmann::json made) {
  if (world.control().rank() != 0 || file == nullptr) return;
  made["ranks"] = world.size();
  made["gpu"] = visible_gpus().front().name;
  made["versions"] = cuda_versions();
  std::ofstream(file) << made.dump(1) << '\n';
}

/// Calls `run()`; an exception ends all ranks.
template <class Run>
int guarded(const char* name, Run&& run) {
  try {
    run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    comm::World::abort(ExitCode::environment);
  }
  return 0;
}

}  // namespace zeropp::bench
