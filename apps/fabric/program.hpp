// The program: the fabric measured once, printed and written.
#pragma once

namespace zeropp::fabric {

/// main() of zpp_fabric. Returns the exit code.
int run(int argc, char** argv);

}  // namespace zeropp::fabric
