// A file of tokens of llm.c.
#include "tests/support/token_fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  const test::MemoryFile file(data, size);
  test::may_refuse([&] {
    test::read_all(
        *data::make_source({.source = "llmc", .path = file.path(), .vocab_size = 50257}));
  });
  return 0;
}
