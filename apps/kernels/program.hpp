// zpp_kernels as a function, so that a test can run it with other kernels.
#pragma once

#include <vector>

#include "apps/kernels/kernel.hpp"

namespace zeropp::kernels {

/// All of them, in the order of the table that is printed.
const std::vector<const Kernel*>& kernels();

/// The whole program; returns its exit code.
int run(int argc, char** argv, const std::vector<const Kernel*>& table);

}  // namespace zeropp::kernels
