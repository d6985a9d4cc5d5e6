// The codec grammar: an accepted name has a canonical form, which is accepted and stays as it is.
// A refused name throws std::invalid_argument: kernels know no exit codes.
#include <stdexcept>

#include "kernels/codec/spec.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  try {
    const std::string name = codec::to_string(codec::parse_codec(test::text_of(data, size)));
    if (codec::to_string(codec::parse_codec(name)) != name) test::fuzz_failure(name);
  } catch (const std::invalid_argument&) {
  }
  return 0;
}
