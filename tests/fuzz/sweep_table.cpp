// What zpp_sweep measured, as a table that chooses algorithms.
#include "lib/config/algorithm_table.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  const test::MemoryFile file(data, size);
  test::may_refuse([&] {
    const auto table = config::AlgorithmTable::read(file.path());
    const config::AlgorithmTable::Question question{"all_gather", "none", "world", "bfloat16",
                                                    4096};
    (void)table.fastest(question, {"flat", "two-level"});
  });
  return 0;
}
