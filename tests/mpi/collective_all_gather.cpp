// ctest: name=contract6_all_gather np=1,3,4,6 cuda=mpi,nccl timeout=120 labels=sanitize
// Every all-gather algorithm with every codec, at every node size, for odd counts and every dtype:
// bitwise the decoded image of every part, whatever the strides and the pipeline depth, and not a
// byte between the parts touched; the same from an image of the part, kept or in the workspace.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/collective_cases.hpp"
#include "tests/support/collective_oracle.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;
using test::Poisoned;

/// `through` gives fp32; a 16-bit result is decoded with one more rounding, saturating.
void verify(Cluster& cluster, const AllGatherAlgorithm& algorithm, const codec::CodecSpec& codec,
            Dtype memory, Dtype result, std::size_t count) {
  const auto n = static_cast<std::size_t>(cluster.size());
  std::vector<std::vector<float>> expected;
  for (std::size_t r = 0; r < n; ++r) {
    const auto original = test::slice(memory, static_cast<int>(r), 0, count);
    const auto decoded =
        test::through(codec, memory, original, draw_of(test::kDrawKey, kGatherHop, r, r, 0));
    for (std::size_t e = 0; e < count; ++e) {
      ASSERT_LE(std::abs(decoded.values[e] - double{original.values[e]}), decoded.bound[e]);
    }
    expected.push_back(decoded.values);
  }
  for (const auto& [parts, depth] : {std::pair{Parts::dense(count), std::size_t{1}},
                                     std::pair{Parts{count, count + 5}, std::size_t{3}}}) {
    AllGatherPlan plan{parts, memory, codec, test::depth_for(depth, codec), "test"};
    plan.result = result;
    const auto planned = plan_all_gather(algorithm.name, cluster.context(), plan);
    const Poisoned full = test::run(*planned, plan, cluster.size(), cluster.rank(), result);
    Poisoned wanted(full.view.count, result);
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t e = 0; e < count; ++e) {
        test::store(wanted.view, r * parts.stride + e, expected[r][e]);
      }
    }
    ASSERT_EQ(full.bytes, wanted.bytes)
        << algorithm.name << " " << codec::to_string(codec) << " " << name_of(memory) << " to "
        << name_of(result) << " count " << count << " stride " << parts.stride << " depth " << depth
        << " on " << cluster.groups.topology.describe() << " rank " << cluster.rank();
  }
}

TEST(Contract6, EveryAlgorithmCodecDtypeAndCount) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : all_gather_algorithms()) {
      if (!test::worth_running(*algorithm, node_size)) continue;
      for (const auto& codec : test::codecs_for(*algorithm)) {
        for (const Dtype dtype : test::kDtypes) {
          for (const std::size_t count : {0U, 1U, 7U, 1009U}) {
            ASSERT_NO_FATAL_FAILURE(verify(cluster, *algorithm, codec, dtype, dtype, count));
          }
        }
      }
    }
  }
}

TEST(Contract6, ResultOfAnotherDtype) {
  Cluster cluster(test::node_sizes().front());
  for (const auto* algorithm : all_gather_algorithms()) {
    for (const auto& codec : test::codecs_for(*algorithm)) {
      ASSERT_NO_FATAL_FAILURE(verify(cluster, *algorithm, codec, Dtype::fp32, Dtype::bf16, 1009));
      ASSERT_NO_FATAL_FAILURE(verify(cluster, *algorithm, codec, Dtype::bf16, Dtype::fp32, 1009));
    }
  }
}

TEST(Contract6, OddVocabulary) {
  const auto sizes = test::node_sizes();
  Cluster cluster(sizes[sizes.size() / 2]);
  const auto n = static_cast<std::size_t>(cluster.size());
  for (const auto* algorithm : all_gather_algorithms()) {
    const codec::CodecSpec codec =
        algorithm->traits.any_codec ? codec::CodecSpec{"int8", 256, {}} : codec::CodecSpec{};
    ASSERT_NO_FATAL_FAILURE(verify(cluster, *algorithm, codec, Dtype::bf16, Dtype::bf16,
                                   (std::size_t{50257} * 3 + n - 1) / n));
  }
}

TEST(AllGather, PartMayLieInsideTheResult) {
  Cluster cluster(test::node_sizes().front());
  const auto n = static_cast<std::size_t>(cluster.size());
  const auto r = static_cast<std::size_t>(cluster.rank());
  constexpr std::size_t kCount = 1009;
  for (const auto* algorithm : all_gather_algorithms()) {
    for (const std::size_t stride : {kCount, kCount + 3}) {
      const AllGatherPlan plan{{kCount, stride}, Dtype::fp32, {}, 2, "test"};
      const auto planned = plan_all_gather(algorithm->name, cluster.context(), plan);
      Poisoned initial(n * stride, Dtype::fp32);
      const View values = initial.view.part(r * stride, kCount);
      for (std::size_t e = 0; e < kCount; ++e) {
        test::store(values, e, test::value_of(Dtype::fp32, cluster.rank(), e));
      }
      const test::OnDevice memory(initial);
      const View own = memory.view.part(r * stride, kCount);
      const test::DeviceBytes workspace(planned->workspace_bytes());
      planned->start(own, memory.view, {workspace.span(), test::stream().handle()});
      planned->finish(test::stream().handle());
      const Poisoned full = memory.download();
      for (std::size_t p = 0; p < n; ++p) {
        for (std::size_t e = 0; e < kCount; ++e) {
          ASSERT_EQ(test::load(full.view, p * stride + e),
                    test::value_of(Dtype::fp32, static_cast<int>(p), e))
              << algorithm->name << " part " << p << " element " << e << " stride " << stride
              << " rank " << r;
        }
      }
    }
  }
}

TEST(AllGather, RoundsAnFp32PartToTheMemoryDtype) {
  Cluster cluster(test::node_sizes().front());
  const auto n = static_cast<std::size_t>(cluster.size());
  const auto gathered = [&](const AllGatherAlgorithm& algorithm, const AllGatherPlan& plan,
                            Dtype part) {
    const auto planned = plan_all_gather(algorithm.name, cluster.context(), plan);
    Poisoned own(plan.parts.count, part);
    for (std::size_t e = 0; e < plan.parts.count; ++e) {
      test::store(own.view, e, 1.001F * test::value_of(Dtype::fp32, cluster.rank(), e));
    }
    const test::OnDevice memory(own);
    const test::OnDevice full(
        Poisoned((n - 1) * plan.parts.stride + plan.parts.count, plan.memory));
    const test::DeviceBytes workspace(planned->workspace_bytes());
    planned->start(memory.view, full.view,
                   {workspace.span(), test::stream().handle(), test::kDrawKey});
    planned->finish(test::stream().handle());
    return full.download().bytes;
  };
  for (const auto* algorithm : all_gather_algorithms()) {
    for (const auto& codec : test::codecs_for(*algorithm)) {
      for (const Dtype memory : {Dtype::bf16, Dtype::fp16}) {
        for (const Parts& parts : {Parts::dense(1008), Parts{1009, 1014}}) {
          const AllGatherPlan plan{parts, memory, codec, test::depth_for(3, codec), "test"};
          ASSERT_EQ(gathered(*algorithm, plan, Dtype::fp32), gathered(*algorithm, plan, memory))
              << algorithm->name << " " << codec::to_string(codec) << " " << name_of(memory);
        }
      }
    }
  }
}

/// A part of fp32 values, which differs by rank and by `of`.
Poisoned fp32_part(std::size_t count, int rank, float of) {
  Poisoned own(count, Dtype::fp32);
  for (std::size_t e = 0; e < count; ++e)
    test::store(own.view, e, of * test::value_of(Dtype::fp32, rank, e));
  return own;
}

/// Puts the chunks of a packed image where runs send them from.
void put_images(const AllGather& planned, std::span<const std::byte> image,
                std::span<std::byte> workspace) {
  const std::vector<ImageChunk> packed = planned.image_chunks();
  const std::vector<ImageChunk> sent = planned.sent_chunks();
  ASSERT_EQ(sent.size(), packed.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(sent[i].first, packed[i].first);
    ASSERT_EQ(sent[i].bytes, packed[i].bytes);
    ASSERT_LE(sent[i].offset + sent[i].bytes, workspace.size());
    test::stream().copy(workspace.data() + sent[i].offset, image.data() + packed[i].offset,
                        sent[i].bytes);
  }
}

TEST(AllGather, StartsFromAnImageOfThePartWhereverItLies) {
  const auto run = [](AllGather& planned, const AllGatherPlan& plan, std::size_t ranks,
                      const auto& start) {
    const test::OnDevice full(
        Poisoned((ranks - 1) * plan.parts.stride + plan.parts.count, plan.result));
    const test::DeviceBytes workspace(planned.workspace_bytes());
    start(full.view, workspace.span());
    planned.finish(test::stream().handle());
    return full.download().bytes;
  };
  const StreamHandle on = test::stream().handle();
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    const auto n = static_cast<std::size_t>(cluster.size());
    for (const auto* algorithm : all_gather_algorithms()) {
      if (!algorithm->traits.any_codec || !test::worth_running(*algorithm, node_size)) continue;
      for (const codec::CodecSpec& codec : test::codecs_for(*algorithm)) {
        if (codec == codec::CodecSpec{}) continue;
        for (const std::size_t count : {0U, 20011U}) {
          const AllGatherPlan plan{Parts{count, count + 3}, Dtype::bf16, codec,
                                   test::depth_for(3, codec), "test"};
          const auto planned = plan_all_gather(algorithm->name, cluster.context(), plan);
          const test::OnDevice part(fp32_part(count, cluster.rank(), 1.001F));
          const test::OnDevice other(fp32_part(count, cluster.rank(), 0.7F));
          const auto from_part = [&](const View& own) {
            return run(*planned, plan, n, [&](View full, std::span<std::byte> workspace) {
              planned->start(own, full, {workspace, on, test::kDrawKey});
            });
          };
          const auto expected = from_part(part.view);
          const auto of_other = from_part(other.view);
          std::size_t first = 0;
          std::size_t bytes = 0;
          for (const ImageChunk& chunk : planned->image_chunks()) {
            ASSERT_EQ(chunk.first, first);
            ASSERT_EQ(chunk.offset, bytes);
            first += chunk.length;
            bytes += chunk.bytes;
          }
          ASSERT_EQ(first, count);
          ASSERT_EQ(bytes, codec::Codec(codec, Dtype::bf16).wire_bytes(count));
          const test::DeviceBytes image(bytes);
          const auto from_image = [&] {
            return run(*planned, plan, n, [&](View full, std::span<std::byte> workspace) {
              planned->start_from_image(image.span(), full, {workspace, on});
            });
          };
          SCOPED_TRACE(std::string(algorithm->name) + " " + codec::to_string(codec) + " count " +
                       std::to_string(count));
          planned->encode_image(part.view, image.span(), on, test::kDrawKey);
          ASSERT_EQ(from_image(), expected);
          ASSERT_EQ(from_image(), expected) << "for the second time";
          ASSERT_EQ(run(*planned, plan, n,
                        [&](View full, std::span<std::byte> workspace) {
                          put_images(*planned, image.span(), workspace);
                          planned->start_from_workspace(full, {workspace, on});
                        }),
                    expected)
              << "from the workspace";
          planned->encode_image(other.view, image.span(), on, test::kDrawKey);
          ASSERT_EQ(from_image(), of_other);
          ASSERT_EQ(from_part(part.view), expected) << "from the part again";
          if (count == 0) continue;
          ASSERT_NE(of_other, expected);
          EXPECT_THROW(planned->encode_image(part.view, image.span().first(bytes - 1), on, 0),
                       std::invalid_argument);
        }
      }
    }
  }
}

TEST(AllGather, HasNoImagesWherePartsAreGatheredAsTheyLie) {
  Cluster cluster(test::node_sizes().front());
  const AllGatherPlan plan{Parts::dense(1024), Dtype::fp32, {}, 2, "test"};
  const auto planned = plan_all_gather("direct", cluster.context(), plan);
  EXPECT_TRUE(planned->image_chunks().empty());
  const test::OnDevice part(fp32_part(1024, cluster.rank(), 1));
  const test::DeviceBytes image(4096);
  EXPECT_THROW(planned->encode_image(part.view, image.span(), {}, 0), std::invalid_argument);
  EXPECT_TRUE(planned->sent_chunks().empty());
  EXPECT_THROW(planned->start_from_workspace({}, {}), std::invalid_argument);
}

}  // namespace
}  // namespace zeropp::collective
