// fuzz: link=zeropp_app_converge
// A matrix of zpp_converge.
#include "apps/converge/matrix.hpp"

#include "lib/config/json.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  test::may_refuse([&] {
    const auto document = config::parse_object(test::text_of(data, size), "fuzz.json");
    (void)converge::read_matrix(document, "fuzz.json", {});
  });
  return 0;
}
