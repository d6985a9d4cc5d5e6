// A cluster file, and measurements that one is calibrated with. What is accepted can be written and
// read again as it was.
#include "lib/config/json.hpp"
#include "lib/plan/calibrate.hpp"
#include "lib/plan/cluster.hpp"
#include "tests/support/fuzz_target.hpp"

namespace {

constexpr const char* kBase = R"({"name": "c", "source": "", "nodes": 2, "gpus_per_node": 2,
  "gpu": {"name": "g", "peak_tflops": 1, "memory_gib": 1, "memory_gb_per_s": 1,
    "products": [{"rows": 1, "in": 1, "out": 1, "forward_tflops": 1, "backward_tflops": 1}],
    "attention": [{"sequence": 1, "head_size": 1, "forward_tflops": 1, "backward_tflops": 1}]},
  "node_links": {"latency_us": 1, "gb_per_s": 1},
  "rails": {"links_per_node": 1, "lanes": [{"lanes": 1, "latency_us": 1, "gb_per_s": 1}]},
  "engine": {"overlap": 1}})";

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  const std::string text = test::text_of(data, size);
  test::may_refuse([&] {
    const auto written = plan::to_json(plan::parse_cluster(text, "fuzz")).dump();
    test::may_refuse([&] {  // digits that are lost at the end of a range
      if (plan::to_json(plan::parse_cluster(written, "fuzz")).size() == 0) {
        test::fuzz_failure("empty: " + written);
      }
    });
  });
  test::may_refuse([&] {
    plan::Cluster cluster = plan::parse_cluster(kBase, "base");
    plan::calibrate(cluster, config::parse_object(text, "fuzz"), "fuzz");
    if (cluster.rails.lanes.empty() || cluster.gpu.products.empty()) {
      test::fuzz_failure("a cluster without rates: " + text);
    }
  });
  return 0;
}
