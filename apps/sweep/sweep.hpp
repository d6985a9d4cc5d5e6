// The program: every chosen collective, group, dtype, root, size, codec and algorithm, measured,
// printed and written.
#pragma once

#include <vector>

#include "apps/sweep/collective.hpp"

namespace zeropp::sweep {

/// main() of a sweep over the collectives of `table`, which outlive it. Returns the exit code.
int run(int argc, char** argv, const std::vector<const Collective*>& table);

}  // namespace zeropp::sweep
