// zpp_kernels: measures every kernel beside what the machine can do at most.
#include "apps/kernels/program.hpp"

int main(int argc, char** argv) {
  return zeropp::kernels::run(argc, argv, zeropp::kernels::kernels());
}
