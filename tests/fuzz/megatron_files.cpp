// A pair of files of Megatron-LM: the first byte is how many of the rest are the index, less those
// of its header; what follows are ids.
#include <algorithm>

#include "lib/data/token_file.hpp"
#include "tests/support/token_fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  if (size == 0) return 0;
  const std::size_t split = std::min<std::size_t>(size, 1 + 34 + data[0]);
  const test::MemoryFile index(data + 1, split - 1);
  const test::MemoryFile ids(data + split, size - split);
  test::may_refuse([&] {
    test::read_all(*data::open_megatron(
        index.path(), ids.path(), {.source = "megatron", .path = "pair", .vocab_size = 50257}));
  });
  return 0;
}
