// Flags of nccl-tests and rccl-tests that are no option here, so that their command lines are taken
// or refused with a reason.
#pragma once

#include <string>
#include <vector>

#include "lib/app/app.hpp"

namespace zeropp::sweep {

/// Flags of nccl-tests that have no effect here, or may only have their default; and flags of
/// rccl-tests, which are refused.
std::vector<app::TakenFlag> nccl_flags();

/// Advice about `collective`, a name that is unknown here: the one of `known` that nccl-tests, MPI
/// or the OSU benchmarks call so, or the program that measures it. Empty where there is no advice.
std::string about_collective(const std::string& collective, const std::vector<std::string>& known);

/// Warning about the environment variables by which nccl-tests splits its ranks. Empty where none
/// is set, or where they leave one group.
std::string about_split();

}  // namespace zeropp::sweep
