// An all-gather through a codec, by a program that knows zeropp as an installed package only. Every
// rank gives COUNT values that differ by rank, and looks at all that it gets. One line, and the
// exit code: 0, or 1 where a value is further off than the codec promises. usage: consumer
// ALGORITHM CODEC COUNT
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/codec/spec.hpp"
#include "kernels/core/host_runtime.hpp"
#include "lib/collective/collective.hpp"
#include "lib/comm/world.hpp"
#include "lib/device/buffer.hpp"

using namespace zeropp;

namespace {

/// Values have magnitude 1 at most, so that a block's largest magnitude is 1 at most.
float value(std::size_t rank, std::size_t element) {
  return std::sin(static_cast<float>(1 + rank * 7919 + element));
}

/// The bound that the codec promises for `x` in such a block.
double bound(const codec::CodecSpec& spec, float x) {
  for (const codec::FormatInfo& info : codec::formats()) {
    if (info.name == spec.format) return info.error_bound(x, 1.0F);
  }
  return 0.0;
}

}  // namespace

int main(int argc, char** argv) {
  comm::World world(argc, argv);
  const HostRuntime runtime;
  if (argc != 4) return 2;
  const codec::CodecSpec spec = codec::parse_codec(argv[2]);
  const std::size_t count = std::stoul(argv[3]);
  world.set_topology(/*node_size=*/world.size() % 2 == 0 ? 2 : 1);

  comm::Groups groups = world.make_groups();
  trace::Recorder recorder;
  const collective::AllGatherPlan plan{collective::Parts::dense(count), Dtype::fp32, spec,
                                       /*depth=*/1, "consumer"};
  const auto gather = collective::plan_all_gather(argv[1], {groups, *groups.world, recorder}, plan);

  const auto ranks = static_cast<std::size_t>(groups.world->size());
  const auto rank = static_cast<std::size_t>(groups.world->rank());
  std::vector<float> part(count);
  std::vector<float> full(ranks * count, NAN);
  for (std::size_t e = 0; e < count; ++e) part[e] = value(rank, e);
  const Buffer workspace(gather->workspace_bytes(), MemoryKind::host);
  gather->start(ConstView::of(part.data(), part.size()), View::of(full.data(), full.size()),
                {workspace.span(), {}});
  gather->finish({});

  std::vector<double> wrong{0.0};
  for (std::size_t i = 0; i < full.size(); ++i) {
    const float x = value(i / count, i % count);
    wrong[0] += std::abs(double{full[i]} - double{x}) <= bound(spec, x) ? 0.0 : 1.0;
  }
  world.control().all_reduce_sum(wrong);
  const comm::Bytes sent = gather->volume();
  if (rank == 0) {
    std::printf("%zu ranks, %s, %s: %.0f wrong values, %llu bytes sent by rank 0\n", ranks, argv[1],
                argv[2], wrong[0], static_cast<unsigned long long>(sent.intra + sent.inter));
  }
  return wrong[0] == 0.0 ? 0 : 1;
}
