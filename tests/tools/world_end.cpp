// How a World ends when something goes wrong: run by tests/fault/world_end.py.
//   world_end agreed      rank 1 fails, all ranks agree on it: orderly end
//   world_end abort       rank 1 fails alone while the others wait for it
//   world_end unwinding   the same, and the exception passes through the World
#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/comm/world.hpp"

namespace {

using namespace zeropp;

const Error kFailure(ExitCode::io, "rank 1 found no file");

/// Every rank has a message in flight that never completes.
void fail_alone(comm::World& world) {
  world.set_topology(1);
  const comm::Groups groups = world.make_groups();
  std::byte value{};
  const comm::Receive receive{&value, 1, (groups.world->rank() + 1) % groups.world->size()};
  comm::Bytes sent;
  const auto work = groups.world->exchange({}, {&receive, 1}, {}, sent);
  if (world.rank() == 1) throw kFailure;
  work->wait({});
}

int report(const Error& error) {
  std::fprintf(stderr, "world_end: error: %s\n", error.what());
  return static_cast<int>(error.code());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "unwinding") {
    try {
      comm::World world(argc, argv);
      fail_alone(world);
    } catch (const Error& error) {
      return report(error);
    }
    return 0;
  }
  comm::World world(argc, argv);
  try {
    if (mode == "agreed") {
      std::optional<Error> status;
      if (world.rank() == 1) status = kFailure;
      world.control().agree(status);
    } else {
      fail_alone(world);
    }
  } catch (const comm::AgreedError& error) {
    if (error.reporter() == world.rank()) report(error);
    return static_cast<int>(error.code());
  } catch (const Error& error) {
    report(error);
    comm::World::abort(error.code());
  }
  return 0;
}
