// fuzz: link=zeropp_app_plan
// A trace (HDF5) as `zpp_plan calibrate` takes it: attributes and columns, the measurement in them,
// and the rates of a cluster from it.
#include "apps/plan/measured_trace.hpp"

#include "lib/plan/calibrate.hpp"
#include "lib/trace/sinks/h5_reader.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  const test::NamedFile file(data, size);
  if (!trace::is_hdf5(file.path())) return -1;  // taken for JSON: not kept
  test::may_refuse([&] {
    plan::Cluster cluster;
    plan::calibrate(cluster, plan_app::read_measured_trace(file.path()), "fuzz");
    if (cluster.source.empty()) test::fuzz_failure("rates from nowhere");
  });
  return 0;
}
