// zpp_converge as a program: its options, its file, and what runs.
#pragma once

namespace zeropp::converge {

/// All of main().
int run(int argc, char** argv);

}  // namespace zeropp::converge
