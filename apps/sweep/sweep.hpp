// The program: every chosen collective, group, dtype, root, size, codec and algorithm, measured,
// printed and written.
#pragma once

#include <vector>

#include "apps/sweep/collective.hpp"
#include "apps/sweep/options.hpp"
#include "lib/app/app.hpp"

namespace zeropp::sweep {

/// The program without its body: command line, and resolve(). Its arguments outlive it.
app::App description(Options& options, Settings& settings,
                     const std::vector<const Collective*>& table);

/// main() of a sweep over the collectives of `table`, which outlive it. Returns the exit code.
int run(int argc, char** argv, const std::vector<const Collective*>& table);

}  // namespace zeropp::sweep
