// A checkpoint's manifest as a file may hold it; and one of any slices with its right digest, which
// comes back as it was where it is accepted.
#include <nlohmann/json.hpp>

#include "lib/checkpoint/manifest.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  const std::string text = test::text_of(data, size);
  test::may_refuse([&] { (void)checkpoint::parse_manifest(text, "fuzz"); });
  test::may_refuse([&] {
    checkpoint::Manifest manifest;
    manifest.world_size = 4;
    try {
      manifest.slices = checkpoint::slices_from_text(text, manifest.world_size);
    } catch (const nlohmann::json::exception&) {  // between ranks the text is always JSON
      return;
    }
    const std::string whole = checkpoint::to_text(manifest);
    if (checkpoint::to_text(checkpoint::parse_manifest(whole, "fuzz")) != whole) {
      test::fuzz_failure("not as it was: " + whole);
    }
  });
  return 0;
}
