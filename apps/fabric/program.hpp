// zpp_fabric as a program: its options, and what runs.
#pragma once

namespace zeropp::fabric {

/// All of main().
int run(int argc, char** argv);

}  // namespace zeropp::fabric
