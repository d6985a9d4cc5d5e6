// The program: the fabric measured once, printed and written.
#pragma once

namespace zeropp::fabric {

/// main() of zpp_fabric. Returns the exit code.
int run(int argc, char** argv);

/// Runs as zpp_sweep --fabric does, with --fabric among `argv`: messages and files have the name
/// sweep, as before zpp_fabric was a program of its own, and one line says that it is one.
int run_for_sweep(int argc, char** argv);

}  // namespace zeropp::fabric
