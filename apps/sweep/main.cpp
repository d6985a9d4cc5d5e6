// zpp_sweep: measures and checks collectives over sizes, codecs and algorithms, in the way of
// nccl-tests.
#include "apps/sweep/sweep.hpp"

int main(int argc, char** argv) {
  return zeropp::sweep::run(argc, argv, zeropp::sweep::collectives());
}
