// ctest: name=contract4_engine_wire_bytes np=1,4 cuda=mpi,nccl labels=sanitize with=support/pmpi_counter.cpp
// Whole training steps: what the engine counted equals the fold over its schedule, and what MPI was
// given, seen from its profiling interface, is the same to the byte, inside nodes and across.
#include <gtest/gtest.h>

#include "tests/support/engine_case.hpp"
#include "tests/support/pmpi_counter.hpp"

namespace zeropp::test {
namespace {

struct Case {
  const char* name;
  bool weights, secondary, gradients;
  const char* model = "gpt";
  int stage = 3;
  std::size_t shard_group = zero::kAllRanks;
  bool differences = false;
};

TEST(EngineWireBytes, AgreeWithMpisProfilingInterface) {
  const int size = world().size();
  for (const int node_size : {1, 2, 3}) {
    if (size % node_size != 0) continue;
    for (const Case c :
         {Case{"zero3", false, false, false}, Case{"qwz", true, false, false},
          Case{"hpz", false, true, false}, Case{"qgz", false, false, true},
          Case{"all", true, true, true}, Case{"all, llama", true, true, true, "llama"},
          Case{"qgz, stage 0", false, false, true, "gpt", 0},
          Case{"qwz and qgz, stage 1", true, false, true, "gpt", 1},
          Case{"qwz and qgz, stage 2", true, false, true, "gpt", 2},
          Case{"shard groups", false, false, false, "gpt", 3, 2},
          Case{"qwz and qgz, shard groups", true, false, true, "llama", 3, 2},
          Case{"weight differences", true, true, true, "gpt", 3, zero::kAllRanks, true},
          Case{"weight differences, stage 1", true, false, true, "gpt", 1, zero::kAllRanks, true},
          Case{"weight differences, stage 2", true, false, true, "gpt", 2, zero::kAllRanks,
               true}}) {
      if (c.secondary && node_size == 1) continue;
      if (c.differences && c.stage == 3 && size == node_size) continue;
      if (c.shard_group != zero::kAllRanks && size % 2 != 0) continue;
      for (const char* all_gather : {"flat", "two-level"}) {
        zero::Options options;
        options.stage = c.stage;
        options.compute = Dtype::bf16;
        options.quantized_weights = c.weights;
        options.hpz_partition_size = c.secondary ? static_cast<std::size_t>(node_size) : 1;
        options.quantized_gradients = c.gradients;
        options.shard_group_size = c.shard_group;
        options.weight_differences.enabled = c.differences;
        options.all_gather_algorithm = all_gather;
        options.reduce_scatter_algorithm = c.gradients ? "2-hop" : "flat";
        options.accumulation_steps = 2;
        options.pipeline_depth = 3;
        options.reduce_bucket_size = 20'000;
        EngineCase engine_case(options, node_size, [&](const model::Context& context) {
          return make_tiny(c.model, context);
        });
        (void)take_pmpi_counts();
        comm::Bytes before;
        for (const auto& row : engine_case.recorder().collectives) {
          before += {row.wire_bytes_intra, row.wire_bytes_inter};
        }
        const Outcome outcome = engine_case.train(2, 1);
        comm::Bytes counted;
        for (const auto& row : engine_case.recorder().collectives) {
          counted += {row.wire_bytes_intra, row.wire_bytes_inter};
        }
        const PmpiCounts seen = take_pmpi_counts();
        const comm::Topology& topology = world().topology();
        const int rank = engine_case.groups().world->rank();
        comm::Bytes by_mpi;
        for (int peer = 0; peer < size; ++peer) {
          if (peer == rank) continue;
          by_mpi.add(topology.node_of(peer) == topology.node_of(rank) ? comm::LinkClass::intra_node
                                                                      : comm::LinkClass::inter_node,
                     seen.bytes_to[static_cast<std::size_t>(peer)]);
        }
        EXPECT_EQ(outcome.sent, outcome.predicted);
        if (transport() != comm::Transport::mpi) continue;  // nothing for MPI to see
        EXPECT_EQ(counted - before, by_mpi)
            << c.name << " " << all_gather << " node size " << node_size;
        if (size > node_size && (rank + 1) % node_size == 0) {
          EXPECT_GT(by_mpi.inter, 0U) << "the last rank of a node sends to the next node";
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::test
