// A safetensors file, and the values of every tensor in it.
#include "lib/checkpoint/safetensors.hpp"

#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  const test::MemoryFile file(data, size);
  test::may_refuse([&] {
    const checkpoint::SafetensorsReader reader(file.path());
    for (const auto& [name, tensor] : reader.tensors()) {
      if (reader.read(tensor, 0, tensor.count()).size() != tensor.count())
        test::fuzz_failure("not all of " + name);
    }
  });
  return 0;
}
