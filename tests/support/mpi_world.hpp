// The World of a test that runs under mpirun.
#pragma once

#include "lib/comm/world.hpp"

namespace zeropp::test {

/// Valid while the tests run; made by mpi_main.
comm::World& world();

}  // namespace zeropp::test
