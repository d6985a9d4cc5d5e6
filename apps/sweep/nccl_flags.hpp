// Flags of nccl-tests and rccl-tests that are no option here, so that their command lines are taken
// or refused with a reason.
#pragma once

#include <string>
#include <vector>

#include "lib/app/app.hpp"

namespace zeropp::sweep {

/// Flags of nccl-tests that have no effect here, or may have their default only; and those of
/// rccl-tests, which are refused.
std::vector<app::TakenFlag> nccl_flags();

/// What helps with `collective`, which is none here: the name here of one that nccl-tests, MPI or
/// the OSU benchmarks name otherwise, of `known`; or what measures it. Empty where nothing does.
std::string about_collective(const std::string& collective, const std::vector<std::string>& known);

/// Warning about the variables of the environment by which nccl-tests splits its ranks; empty where
/// none is set, or where they leave one group.
std::string about_split();

}  // namespace zeropp::sweep
