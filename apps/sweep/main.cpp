// zpp_sweep: measures and checks collectives over sizes, codecs and algorithms, in the way of
// nccl-tests. With --fabric it is zpp_fabric.
#include <algorithm>
#include <string_view>

#include "apps/fabric/program.hpp"
#include "apps/sweep/sweep.hpp"

int main(int argc, char** argv) {
  const bool fabric =
      std::any_of(argv, argv + argc, [](std::string_view word) { return word == "--fabric"; });
  if (fabric) return zeropp::fabric::run_for_sweep(argc, argv);
  return zeropp::sweep::run(argc, argv, zeropp::sweep::collectives());
}
