// A text to train on, cut into batches: the first byte is the length of a sequence less 1, the rest
// the text.
#include "lib/data/sampler.hpp"
#include "lib/data/token_source.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  if (size == 0) return 0;
  const test::MemoryFile file(data + 1, size - 1);
  test::may_refuse([&] {
    const auto source =
        data::make_source({.source = "text", .path = file.path(), .held_out_fraction = 0.25});
    const data::Sampler sampler(*source, 1, data[0] + 1U, 2);
    data::TokenBatch batch;
    for (std::uint64_t step = 0; step < 4; ++step) sampler.train(step, 1, {1, 2}, batch);
    const std::size_t batches = sampler.held_out_batches(2);
    sampler.held_out(batches - 1, {1, 2}, batch);
    for (const std::int32_t token : batch.targets) {
      if (token < 0 || token > 255) test::fuzz_failure("a token is no byte");
    }
  });
  return 0;
}
