// A configuration file of zpp_train, read and resolved: what is accepted means the same when its
// canonical form is read again.
#include "lib/app/registries.hpp"
#include "lib/comm/topology.hpp"
#include "lib/config/json.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  test::may_refuse([&] {
    config::TrainConfig config;
    auto options = config::options(config);
    config::read_text(test::text_of(data, size), "fuzz.json", options);
    std::vector<config::Ignored> ignored;
    (void)config::leave_out_idle(options, ignored);
    const std::string canonical = config::canonical_json(options);
    config::TrainConfig copy;
    auto again = config::options(copy);
    config::read_text(canonical, "canonical.json", again);
    if (config::canonical_json(again) != canonical)
      test::fuzz_failure("not as it was: " + canonical);
    config::resolve(config, options, app::machine_of(comm::declared_topology(4, 2)));
  });
  return 0;
}
