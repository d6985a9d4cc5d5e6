// fuzz: link=zeropp_app_converge
// A finished run as zpp_converge keeps it: bytes that are none are told from it by an exception of
// the JSON library alone; a record is packed to what unpacks to the same.
#include <nlohmann/json.hpp>

#include "apps/converge/run_store.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  try {
    const std::string packed = converge::pack(converge::unpack(test::text_of(data, size)));
    if (converge::pack(converge::unpack(packed)) != packed) test::fuzz_failure("not as it was");
  } catch (const nlohmann::json::exception&) {
  }
  return 0;
}
