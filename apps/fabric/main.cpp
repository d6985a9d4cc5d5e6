// zpp_fabric: maps latency and bandwidth between all ranks, and names what is slow.
#include "apps/fabric/program.hpp"

int main(int argc, char** argv) { return zeropp::fabric::run(argc, argv); }
