// ctest: name=collective_exact np=1,3,4,6 cuda=mpi,nccl timeout=120 labels=sanitize
// The all-gather of exact differences, in one step and in two levels, at every node size, for odd
// counts and 16-bit dtypes: whatever the copies hold, they have the bits of all parts afterwards,
// also where nothing differs and where every value escapes; bytes and messages are those of the
// description.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>

#include "lib/collective/exact_gather.hpp"
#include "tests/support/collective_cases.hpp"
#include "tests/support/exact_cases.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;
using test::Patterns;
using test::Poisoned;

/// How far values move from their copies, in units of the last place at most; all of them anywhere.
constexpr unsigned kAnywhere = 1U << 16U;

/// Values and copies of one rank, which every rank can make.
struct Part {
  Patterns values;
  Patterns copy;

  Part(int rank, std::size_t count, unsigned moves) : values(count), copy(count) {
    std::mt19937 random(static_cast<unsigned>(rank) * 7919U + moves);
    for (std::size_t i = 0; i < count; ++i) {
      copy[i] = static_cast<std::uint16_t>(random());
      const auto by = static_cast<unsigned>(random() % (moves + 1U));
      values[i] = static_cast<std::uint16_t>(copy[i] + by);
    }
  }
};

Poisoned stored(const Patterns& patterns, Dtype dtype) {
  Poisoned stored(patterns.size(), dtype);
  if (!patterns.empty()) std::memcpy(stored.view.data, patterns.data(), patterns.size() * 2);
  return stored;
}

void verify(Cluster& cluster, std::string_view algorithm, Dtype dtype, std::size_t count,
            unsigned moves) {
  SCOPED_TRACE(testing::Message() << algorithm << " " << name_of(dtype) << " " << count
                                  << " values that move by up to " << moves << " on "
                                  << cluster.groups.topology.describe());
  Patterns wanted;
  Patterns copies;
  for (int rank = 0; rank < cluster.size(); ++rank) {
    const Part part(rank, count, moves);
    wanted.insert(wanted.end(), part.values.begin(), part.values.end());
    copies.insert(copies.end(), part.copy.begin(), part.copy.end());
  }
  const Part own(cluster.rank(), count, moves);
  const ExactGatherPlan plan{count, dtype, "test"};
  ExactGather gather(algorithm, cluster.context(), plan);
  const StreamHandle stream = test::stream().handle();
  const test::OnDevice part(stored(own.values, dtype));
  const test::OnDevice all(stored(copies, dtype));

  const test::DeviceBytes counts(codec::exact_count_bytes(count));
  const test::DeviceBytes escapes(sizeof(codec::Escapes));
  const ConstView copy(all.view);
  gather.count(part.view, copy.part(static_cast<std::size_t>(cluster.rank()) * count, count),
               counts.span(), reinterpret_cast<codec::Escapes*>(escapes.span().data()), stream);
  codec::Escapes counted{};
  test::stream().copy(reinterpret_cast<std::byte*>(&counted), escapes.span().data(),
                      sizeof counted);
  test::stream().synchronize();
  ASSERT_EQ(counted, test::reference_escapes(own.values, own.copy));
  std::vector<double> most(counted.begin(), counted.end());
  test::world().control().all_reduce_max(most);
  codec::Escapes of_all{};
  std::ranges::transform(most, of_all.begin(),
                         [](double each) { return static_cast<std::uint64_t>(each); });
  const codec::ExactShape shape = codec::exact_shape(count, of_all);

  const Description described =
      describe_exact_gather(algorithm, ranks_of(cluster.context()), plan, shape);
  const test::DeviceBytes workspace(described.workspace);
  gather.start(part.view, all.view, shape, {workspace.span(), stream, 0, "test"});
  gather.finish(stream);
  ASSERT_EQ(all.download().bytes, stored(wanted, dtype).bytes);
  ASSERT_EQ(shape.width == 0, wanted == copies);
  comm::Bytes sent;
  for (const trace::CollectiveRow& row : cluster.recorder.collectives) {
    if (row.codec == "exact") sent += {row.wire_bytes_intra, row.wire_bytes_inter};
  }
  ASSERT_EQ(sent.intra, described.bytes.intra);
  ASSERT_EQ(sent.inter, described.bytes.inter);
  ASSERT_EQ(described.messages.inter > 0,
            shape.width > 0 && cluster.groups.topology.node_count > 1);
  cluster.recorder = {};
}

TEST(ExactGather, CopiesHaveTheBitsOfAllParts) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const std::string_view algorithm : {"direct", "two-level"}) {
      for (const Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
        for (const std::size_t count : {0U, 1U, 7U, 1024U, 5003U}) {
          for (const unsigned moves : {0U, 3U, 40U, kAnywhere}) {
            ASSERT_NO_FATAL_FAILURE(verify(cluster, algorithm, dtype, count, moves));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace zeropp::collective
