// ctest: name=contract2_error_feedback np=1,3,4 cuda=mpi,nccl timeout=120 labels=sanitize
// Error feedback in the hops of every algorithm that has it: sums and kept errors equal the
// reference bit for bit over several steps, at any pipeline depth and stride. One step is
// discarded, one has two runs, one is followed by a reset and one by another scale. The mean of
// reductions of the same values converges to the true sum, which it does not without feedback.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/collective/error_feedback.hpp"
#include "lib/collective/reference.hpp"
#include "tests/support/collective_cases.hpp"

namespace zeropp::collective {
namespace {

using test::Cluster;

constexpr std::size_t kFeedbackCount = 2309;  // two chunks of blocks of 128

float value(int source, int part, std::size_t element, std::size_t run) {
  const auto at = static_cast<std::size_t>(part) * kFeedbackCount + element;
  return test::value_of(Dtype::fp32, source, at + 1'000'000 * run);
}

/// Step of the test: so many runs, then an end.
enum class End { commit, discard, reset, rescale };
struct Step {
  std::size_t runs;
  End end;
};
const std::vector<Step> kSteps{{1, End::commit},  {1, End::discard}, {2, End::commit},
                               {1, End::rescale}, {1, End::reset},   {2, End::commit}};
constexpr float kFactor = 0.5F;

struct Setting {
  std::string algorithm;
  test::CodecPair codecs;
  FeedbackOptions feedback;
};

void change(SliceErrors& errors, End end) {
  for (auto* hop : {&errors.first, &errors.second}) {
    for (auto& row : *hop) {
      for (float& error : row) error = end == End::reset ? 0.0F : error * kFactor;
    }
  }
}

/// One planned reduce-scatter with its feedback, and the memory of its runs.
class Runner {
 public:
  Runner(Cluster& cluster, const Setting& setting, const Parts& parts, std::size_t depth)
      : cluster_(cluster),
        parts_(parts),
        feedback_(setting.feedback, test::device()),
        planned_(plan_reduce_scatter(setting.algorithm, cluster.context(),
                                     {.parts = parts,
                                      .codec_first = setting.codecs.first,
                                      .codec_second = setting.codecs.second,
                                      .depth = depth,
                                      .purpose = "test",
                                      .feedback = feedback_.planned()})) {}

  [[nodiscard]] std::vector<float> run(std::size_t index) {
    const auto n = static_cast<std::size_t>(cluster_.size());
    test::Poisoned full((n - 1) * parts_.stride + parts_.count, Dtype::fp32);
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t e = 0; e < parts_.count; ++e) {
        full.view.as<float>()[p * parts_.stride + e] =
            value(cluster_.rank(), static_cast<int>(p), e, index);
      }
    }
    const test::OnDevice in(full);
    const test::OnDevice out(parts_.count, Dtype::fp32);
    const test::DeviceBytes workspace(planned_->workspace_bytes());
    planned_->start(in.view, out.view, {workspace.span(), test::stream().handle()});
    planned_->finish(test::stream().handle());
    const test::Poisoned sum = out.download();
    return {sum.view.as<float>(), sum.view.as<float>() + parts_.count};
  }

  void end(End end) {
    for (const auto& hop : feedback_.hops()) {
      if (!hop) continue;
      end == End::discard ? hop->discard() : hop->commit();
      if (end == End::reset) hop->reset(test::stream().handle());
      if (end == End::rescale) hop->rescale(kFactor, test::stream().handle());
    }
  }

  /// The kept errors of a hop in fp32, row after row; empty where there are none.
  [[nodiscard]] std::vector<float> kept(std::size_t hop) const {
    const auto& errors = feedback_.hops().at(hop);
    if (!errors) return {};
    std::vector<std::byte> bytes(errors->kept().size());
    test::stream().copy(bytes.data(), errors->kept().data(), bytes.size());
    test::stream().synchronize();
    const codec::CodecSpec spec = feedback_.options().storage == ErrorStorage::int8
                                      ? codec::CodecSpec{"int8", 256, {}}
                                      : codec::CodecSpec{};
    const codec::Codec storage(spec, Dtype::fp32);
    const std::size_t rows = errors->elements() / parts_.count;
    std::vector<float> values(errors->elements());
    storage.decode({bytes.data(), storage.wire_bytes(parts_.count)},
                   {rows, parts_.count, 1, 0, parts_.count, parts_.count},
                   View::of(values.data(), values.size()), {});
    return values;
  }

  [[nodiscard]] ErrorFeedback& feedback() { return feedback_; }
  [[nodiscard]] ReduceScatter& planned() { return *planned_; }

 private:
  Cluster& cluster_;
  Parts parts_;
  ErrorFeedback feedback_;
  std::unique_ptr<ReduceScatter> planned_;
};

/// A codec may change between runs: what the one before lost is sent by the next, which loses
/// nothing, and then nothing is kept.
TEST(ErrorFeedback, AnUncompressedGatherSendsWhatWasKept) {
  Cluster cluster(test::world().size());
  constexpr std::size_t kPart = 2304;  // whole units on the wire
  ErrorFeedback feedback({}, test::device());
  const auto n = static_cast<std::size_t>(cluster.size());
  const auto own = static_cast<std::size_t>(cluster.rank());
  const auto gather = [&](const codec::CodecSpec& codec, std::size_t run) {
    const auto planned = plan_all_gather("direct", cluster.context(),
                                         {.parts = Parts::dense(kPart),
                                          .codec = codec,
                                          .purpose = "test",
                                          .feedback = feedback.planned()});
    test::Poisoned part(kPart, Dtype::fp32);
    for (std::size_t e = 0; e < kPart; ++e) {
      part.view.as<float>()[e] = value(cluster.rank(), cluster.rank(), e, run);
    }
    const test::OnDevice in(part);
    const test::OnDevice out(n * kPart, Dtype::fp32);
    const test::DeviceBytes workspace(planned->workspace_bytes());
    planned->start(in.view, out.view, {workspace.span(), test::stream().handle()});
    planned->finish(test::stream().handle());
    for (const auto& hop : feedback.hops()) {
      if (hop) hop->commit();
    }
    const test::Poisoned full = out.download();
    const float* const at = full.view.as<float>() + own * kPart;
    return std::vector<float>(at, at + kPart);
  };
  const auto kept = [&] {
    const auto& errors = feedback.hops().at(1);
    std::vector<float> values(kPart);
    test::stream().copy(reinterpret_cast<std::byte*>(values.data()), errors->kept().data(),
                        kPart * sizeof(float));
    test::stream().synchronize();
    return values;
  };
  (void)gather({"int4", 128, {}}, 0);
  const std::vector<float> lost = kept();
  EXPECT_TRUE(std::ranges::any_of(lost, [](float error) { return error != 0; }));
  const std::vector<float> sent = gather({}, 1);
  const std::vector<float> left = kept();
  for (std::size_t e = 0; e < kPart; ++e) {
    ASSERT_EQ(sent[e], value(cluster.rank(), cluster.rank(), e, 1) + lost[e]) << e;
    ASSERT_EQ(left[e], 0.0F) << e;
  }
}

/// The reference, for the slices of all ranks: errors of any rank can be looked up in it.
class Oracle {
 public:
  Oracle(const Cluster& cluster, const Setting& setting)
      : topology_(cluster.groups.topology),
        reduction_{.algorithm = setting.algorithm,
                   .topology = topology_,
                   .plain = Dtype::fp32,
                   .first = setting.codecs.first,
                   .second = setting.codecs.second,
                   .feedback = setting.feedback},
        kept_(static_cast<std::size_t>(topology_.world_size)),
        next_(kept_) {}

  [[nodiscard]] std::vector<float> run(std::size_t index, int rank) {
    std::vector<float> own;
    for (int part = 0; part < topology_.world_size; ++part) {
      const auto slices = [&](int source) {
        std::vector<float> values(kFeedbackCount);
        for (std::size_t e = 0; e < kFeedbackCount; ++e) values[e] = value(source, part, e, index);
        return Estimate::exact(std::move(values));
      };
      auto sum = reduction_.sum(part, slices, &next_[static_cast<std::size_t>(part)]);
      if (part == rank) own = std::move(sum.values);
    }
    return own;
  }

  void end(End end) {
    if (end == End::discard) {
      next_ = kept_;
      return;
    }
    if (end != End::commit) {
      for (SliceErrors& slice : next_) change(slice, end);
    }
    kept_ = next_;
  }

  /// Errors that `rank` keeps of hop 1 or 2.
  [[nodiscard]] std::vector<float> kept(std::size_t hop, int rank) const {
    const int local = rank % topology_.ranks_per_node;
    const bool two =
        reduction_.algorithm == "2-hop" && topology_.node_count > 1 && topology_.ranks_per_node > 1;
    std::vector<float> all;
    for (int part = 0; part < topology_.world_size; ++part) {
      const SliceErrors& slice = kept_[static_cast<std::size_t>(part)];
      const bool second = hop == 1 && two;
      if (second && part % topology_.ranks_per_node != local) continue;
      const auto& rows = second ? slice.second : slice.first;
      const auto& row =
          rows.at(static_cast<std::size_t>(second ? rank / topology_.ranks_per_node : rank));
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

 private:
  comm::Topology topology_;
  Reduction reduction_;
  std::vector<SliceErrors> kept_;  ///< by slice
  std::vector<SliceErrors> next_;
};

void verify(Cluster& cluster, const Setting& setting) {
  const int rank = cluster.rank();
  Runner dense(cluster, setting, Parts::dense(kFeedbackCount), 1);
  Runner strided(cluster, setting, {kFeedbackCount, kFeedbackCount + 5}, 3);
  Oracle oracle(cluster, setting);
  std::size_t index = 0;
  for (const Step& step : kSteps) {
    for (std::size_t run = 0; run < step.runs; ++run, ++index) {
      const auto expected = oracle.run(index, rank);
      for (Runner* runner : {&dense, &strided}) {
        const auto sum = runner->run(index);
        for (std::size_t e = 0; e < kFeedbackCount; ++e) {
          ASSERT_EQ(bits_of(sum[e]), bits_of(expected[e]))
              << "run " << index << ", element " << e << (runner == &dense ? "" : ", depth 3");
        }
      }
    }
    oracle.end(step.end);
    for (Runner* runner : {&dense, &strided}) {
      runner->end(step.end);
      for (const std::size_t hop : {0U, 1U}) {
        const auto kept = runner->kept(hop);
        if (kept.empty()) continue;
        // Zeros have a sign in fp32 that they do not have in int8: compared as numbers.
        ASSERT_EQ(kept, oracle.kept(hop, rank))
            << "hop " << hop + 1 << " after run " << index << (runner == &dense ? "" : ", depth 3");
      }
    }
  }
}

std::vector<FeedbackOptions> options() {
  std::vector<FeedbackOptions> all;
  for (const ErrorStorage storage : {ErrorStorage::fp32, ErrorStorage::int8}) {
    all.push_back({0.0F, true, true, storage});
    all.push_back({0.8F, true, true, storage});
  }
  all.push_back({0.0F, true, false, ErrorStorage::fp32});
  all.push_back({0.8F, false, true, ErrorStorage::int8});
  return all;
}

std::vector<test::CodecPair> pairs() {
  std::vector<test::CodecPair> codecs;
  for (const auto& [first, second] :
       {std::pair{"int4", "int4"}, std::pair{"int8", "int4:64"}, std::pair{"bf16", "int3:32+asym"},
        std::pair{"mxfp4", "fp8e4m3"}, std::pair{"int4+sr", "int3:32+asym+sr"}}) {
    codecs.emplace_back(codec::parse_codec(first), codec::parse_codec(second));
  }
  return codecs;
}

TEST(ErrorFeedback, HasTheBitsOfTheReference) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!algorithm->traits.feedback || !test::worth_running(*algorithm, node_size)) continue;
      const auto codecs = pairs();
      const auto feedbacks = options();
      for (std::size_t i = 0; i < 2 * codecs.size(); ++i) {  // every one of either
        const auto& [first, second] = codecs[(i + i / codecs.size()) % codecs.size()];
        const FeedbackOptions& feedback = feedbacks[i % feedbacks.size()];
        SCOPED_TRACE(testing::Message()
                     << algorithm->name << " " << codec::to_string(first) << " "
                     << codec::to_string(second) << ", decay " << feedback.beta
                     << (feedback.intra ? ", hop 1" : "") << (feedback.inter ? ", hop 2" : "")
                     << (feedback.storage == ErrorStorage::int8 ? " in int8" : "") << " on "
                     << cluster.groups.topology.describe());
        ASSERT_NO_FATAL_FAILURE(
            verify(cluster, {std::string(algorithm->name), {first, second}, feedback}));
      }
    }
  }
}

/// The largest error of the mean over 1 and over `runs` reductions of the same values, over the
/// root of their mean square.
std::pair<double, double> error_of_mean(Cluster& cluster, const Setting& setting, bool feeds_back,
                                        int runs) {
  ErrorFeedback feedback(setting.feedback, test::device());
  const ReduceScatterPlan plan{Parts::dense(kFeedbackCount),
                               Dtype::fp32,
                               Dtype::fp32,
                               setting.codecs.first,
                               setting.codecs.second,
                               1,
                               "test",
                               feeds_back ? std::optional(feedback.planned()) : std::nullopt};
  const auto planned = plan_reduce_scatter(setting.algorithm, cluster.context(), plan);
  std::vector<double> total(kFeedbackCount, 0.0);
  double first = 0;
  double last = 0;
  for (int run = 1; run <= runs; ++run) {
    const auto sum = test::run(*planned, plan, cluster.size(), cluster.rank());
    for (const auto& hop : feedback.hops()) {
      if (hop) hop->commit();
    }
    last = 0;
    for (std::size_t e = 0; e < kFeedbackCount; ++e) {
      total[e] += sum[e];
      double exact = 0;
      for (int source = 0; source < cluster.size(); ++source) {
        exact += test::value_of(Dtype::fp32, source,
                                static_cast<std::size_t>(cluster.rank()) * kFeedbackCount + e);
      }
      last = std::max(last, std::abs(total[e] / run - exact) / std::sqrt(cluster.size()));
    }
    if (run == 1) first = last;
  }
  return {first, last};
}

TEST(ErrorFeedback, OfTheSameValuesAveragesToTheTrueSum) {
  constexpr int kRuns = 32;
  const codec::CodecSpec int4 = codec::parse_codec("int4:128");
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!algorithm->traits.feedback || !test::worth_running(*algorithm, node_size)) continue;
      for (const ErrorStorage storage : {ErrorStorage::fp32, ErrorStorage::int8}) {
        const Setting setting{
            std::string(algorithm->name), {int4, int4}, {0.0F, true, true, storage}};
        const auto [first, biased] = error_of_mean(cluster, setting, false, kRuns);
        const auto [same, fed_back] = error_of_mean(cluster, setting, true, kRuns);
        SCOPED_TRACE(testing::Message()
                     << algorithm->name << " on " << cluster.groups.topology.describe());
        EXPECT_EQ(first, same) << "the first run has nothing to feed back";
        EXPECT_GT(first, 0.1) << "the case is about a codec that errs";
        EXPECT_NEAR(biased, first, 1e-12);
        // The bound is wider for int8: what int8 rounds off the errors is not fed back.
        EXPECT_LT(fed_back, (storage == ErrorStorage::int8 ? 8 : 3) * first / kRuns);
      }
    }
  }
}

TEST(ErrorFeedback, TakesWhatTheClosedFormSays) {
  for (const int node_size : test::node_sizes()) {
    Cluster cluster(node_size);
    for (const auto* algorithm : reduce_scatter_algorithms()) {
      if (!algorithm->traits.feedback) continue;
      for (const ErrorStorage storage : {ErrorStorage::fp32, ErrorStorage::int8}) {
        const Setting setting{
            std::string(algorithm->name), pairs().front(), {0, true, true, storage}};
        Runner runner(cluster, setting, Parts::dense(kFeedbackCount), 1);
        const auto n = static_cast<std::size_t>(cluster.size());
        const std::size_t nodes = n / static_cast<std::size_t>(node_size);
        const bool one_hop = algorithm->name == "1-hop" || nodes == 1;
        const bool two_hops = !one_hop && node_size > 1;
        // P elements, then P / G: of one copy in fp32, parts rounded up to 16 bytes.
        const std::size_t parts[] = {one_hop || two_hops ? n : 0, one_hop ? 0 : nodes};
        for (const std::size_t hop : {0U, 1U}) {
          const auto& errors = runner.feedback().hops().at(hop);
          EXPECT_EQ(errors ? errors->bytes() : 0, error_bytes(storage, parts[hop], kFeedbackCount));
          EXPECT_EQ(errors ? errors->elements() : 0, parts[hop] * kFeedbackCount);
        }
        const std::size_t row = storage == ErrorStorage::fp32 ? 9248 : 2560 + 32;
        EXPECT_EQ(error_bytes(storage, 3, kFeedbackCount), 2 * 3 * row);
      }
    }
  }
}

TEST(ErrorFeedback, ShowsInTheTraceWhichHopsHaveIt) {
  const bool two_by_two = test::world().size() == 4;
  Cluster cluster(two_by_two ? 2 : test::world().size());
  const auto path = [&](const char* algorithm, bool intra, bool inter) {
    const Setting setting{algorithm, pairs().front(), {0, intra, inter, ErrorStorage::fp32}};
    return Runner(cluster, setting, Parts::dense(kFeedbackCount), 1).planned().row().path;
  };
  EXPECT_EQ(path("1-hop", true, true), "feedback:intra");
  EXPECT_EQ(path("2-hop", true, true),
            two_by_two ? "composed+feedback:intra,inter" : "feedback:intra");
  EXPECT_EQ(path("2-hop", true, false), two_by_two ? "fused+feedback:intra" : "feedback:intra");
  EXPECT_EQ(path("2-hop", false, true), two_by_two ? "composed+feedback:inter" : "");
}

TEST(ErrorFeedback, IsRefusedWhereThereAreNoHops) {
  Cluster cluster(test::world().size());
  for (const auto* algorithm : reduce_scatter_algorithms()) {
    if (algorithm->traits.feedback) continue;
    const codec::CodecSpec none;
    try {
      const Runner taken(cluster, {std::string(algorithm->name), {none, none}, {}},
                         Parts::dense(kFeedbackCount), 1);
      FAIL() << algorithm->name << " took error feedback";
    } catch (const Error& refusal) {
      EXPECT_NE(std::string(refusal.what()).find("error feedback"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace zeropp::collective
