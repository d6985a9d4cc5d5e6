// ctest: name=c_collectives np=1,4,6 cuda=mpi,nccl timeout=240 link=zeropp_c
// The collectives of the C interface, over callbacks and over NCCL, at every node size: results
// equal the results of lib/collective on the same input bit for bit, and so do the counted and the
// predicted bytes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/core/counter_rng.hpp"
#include "lib/base/checked.hpp"
#include "lib/collective/error_feedback.hpp"
#include "tests/support/c_callbacks.hpp"
#include "tests/support/collective_cases.hpp"

namespace zeropp::c {
namespace {

using collective::Parts;
using test::Cluster;
using test::MpiCallbacks;
using test::OwnedComm;
using test::OwnedPlan;
using test::Poisoned;

constexpr const char* kCodecs[] = {"none", "int8:256", "int4:128", "int4:128+had32", "fp8e4m3:128"};
constexpr std::uint64_t kSeed = 77;

bool over_nccl() { return test::transport() == comm::Transport::nccl; }

zpp_dtype code_of(Dtype dtype) {
  return dtype == Dtype::fp32 ? ZPP_FP32 : dtype == Dtype::bf16 ? ZPP_BF16 : ZPP_FP16;
}

/// A communicator of the interface beside the same ranks over MPI.
struct Both {
  explicit Both(int node_size)
      : cluster(node_size),
        comm(test::make_comm(callbacks, cluster.rank(), cluster.size(), node_size)) {}
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(cluster.size()); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(cluster.rank()); }

  Cluster cluster;
  MpiCallbacks callbacks;
  OwnedComm comm;
};

/// Input of `count` values of this rank.
Poisoned input(const Both& both, Dtype dtype, std::size_t count) {
  Poisoned values(count, dtype);
  for (std::size_t e = 0; e < count; ++e) {
    test::store(values.view, e, test::value_of(dtype, both.cluster.rank(), e));
  }
  return values;
}

Poisoned gathered(Both& both, const std::string& algorithm, const codec::CodecSpec& codec,
                  const Poisoned& part, Dtype result, std::uint64_t key, comm::Bytes& volume) {
  const std::size_t count = part.view.count;
  const auto plan = collective::plan_all_gather(algorithm, both.cluster.context(),
                                                {.parts = Parts::dense(count),
                                                 .memory = part.view.dtype,
                                                 .codec = codec,
                                                 .purpose = "test",
                                                 .result = result});
  const test::OnDevice in(part);
  const test::OnDevice full(both.ranks() * count, result);
  const test::DeviceBytes workspace(plan->workspace_bytes());
  plan->start(in.view, full.view, {workspace.span(), test::stream().handle(), key});
  plan->finish(test::stream().handle());
  volume += plan->volume();
  return full.download();
}

struct Reduced {
  std::string algorithm;
  codec::CodecSpec first;
  codec::CodecSpec second;
  float scale = 1;
};

/// Reduction that sums in fp32, scaled.
Poisoned reduced(Both& both, const Reduced& how, const Poisoned& full, std::uint64_t key,
                 comm::Bytes& volume) {
  const std::size_t count = full.view.count / both.ranks();
  const auto plan = collective::plan_reduce_scatter(how.algorithm, both.cluster.context(),
                                                    {.parts = Parts::dense(count),
                                                     .memory = full.view.dtype,
                                                     .plain = full.view.dtype,
                                                     .codec_first = how.first,
                                                     .codec_second = how.second,
                                                     .purpose = "test"});
  const test::OnDevice in(full);
  const test::OnDevice out(count, Dtype::fp32);
  const test::DeviceBytes workspace(plan->workspace_bytes());
  plan->start(in.view, out.view, {workspace.span(), test::stream().handle(), key});
  plan->finish(test::stream().handle());
  volume += plan->volume();
  const Poisoned sum = out.download();
  for (std::size_t e = 0; e < count; ++e) {
    test::store(sum.view, e, test::load(sum.view, e) * how.scale);
  }
  return sum;
}

Poisoned converted(const Poisoned& from, Dtype dtype) {
  Poisoned to(from.view.count, dtype);
  for (std::size_t e = 0; e < from.view.count; ++e) {
    test::store(to.view, e, test::load(from.view, e));
  }
  return to;
}

/// Runs the plan once between memory of the device; `out` keeps what the run does not write.
void run_once(const OwnedPlan& plan, const Poisoned& in, Poisoned& out) {
  const test::OnDevice from(in);
  const test::OnDevice to(out);
  ASSERT_EQ(zpp_run(plan.get(), from.view.data, to.view.data, test::stream().handle().native),
            ZPP_OK)
      << zpp_last_error();
  out.bytes = to.memory.download();
  out.view.data = out.bytes.data();
  ASSERT_EQ(from.memory.download(), in.bytes);
}

void expect_traffic(Both& both, const OwnedPlan& plan, std::uint64_t runs, comm::Bytes volume,
                    std::size_t sent_by_callbacks) {
  zpp_traffic traffic{};
  ASSERT_EQ(zpp_plan_traffic(plan.get(), &traffic), ZPP_OK) << zpp_last_error();
  EXPECT_EQ(traffic.runs, runs);
  EXPECT_EQ(traffic.sent_inside_nodes, runs * volume.intra);
  EXPECT_EQ(traffic.sent_between_nodes, runs * volume.inter);
  EXPECT_EQ(traffic.predicted_inside_nodes, runs * volume.intra);
  EXPECT_EQ(traffic.predicted_between_nodes, runs * volume.inter);
  EXPECT_EQ(both.callbacks.bytes_sent - sent_by_callbacks,
            over_nccl() ? 0 : runs * (volume.intra + volume.inter));
  EXPECT_FALSE(both.callbacks.saw_own_message);
}

void verify_all_gather(Both& both, const std::string& algorithm, const char* codec, Dtype dtype,
                       Dtype result, std::size_t count) {
  SCOPED_TRACE(fmt::format("all-gather {} {} {} to {} count {}", algorithm, codec, name_of(dtype),
                           name_of(result), count));
  zpp_plan_options options = test::plan_options(count, codec);
  options.input = code_of(dtype);
  options.output = code_of(result);
  options.algorithm = algorithm.c_str();
  options.seed = kSeed;
  const OwnedPlan plan = test::make_plan(zpp_plan_all_gather, both.comm, options);
  ASSERT_NE(plan, nullptr);
  const std::size_t before = both.callbacks.bytes_sent;
  const Poisoned part = input(both, dtype, count);
  comm::Bytes volume;
  for (std::uint64_t run = 0; run < 2; ++run) {
    volume = {};
    const Poisoned wanted = gathered(both, algorithm, codec::parse_codec(codec), part, result,
                                     derived_key(kSeed, run, 0), volume);
    Poisoned full(both.ranks() * count, result);
    ASSERT_NO_FATAL_FAILURE(run_once(plan, part, full));
    ASSERT_EQ(full.bytes, wanted.bytes);
  }
  expect_traffic(both, plan, 2, volume, before);
}

void verify_reduce_scatter(Both& both, const Reduced& how, Dtype dtype, Dtype result,
                           std::size_t count) {
  SCOPED_TRACE(fmt::format("reduce-scatter {} {} {} {} to {} count {}", how.algorithm,
                           codec::to_string(how.first), codec::to_string(how.second),
                           name_of(dtype), name_of(result), count));
  const std::string first = codec::to_string(how.first);
  const std::string second = codec::to_string(how.second);
  zpp_plan_options options = test::plan_options(count, first.c_str());
  options.codec_between_nodes = second.c_str();
  options.input = code_of(dtype);
  options.output = code_of(result);
  options.algorithm = how.algorithm.c_str();
  options.scale = how.scale;
  options.seed = kSeed;
  const OwnedPlan plan = test::make_plan(zpp_plan_reduce_scatter, both.comm, options);
  ASSERT_NE(plan, nullptr);
  const std::size_t before = both.callbacks.bytes_sent;
  const Poisoned full = input(both, dtype, both.ranks() * count);
  comm::Bytes volume;
  const Poisoned wanted =
      converted(reduced(both, how, full, derived_key(kSeed, 0, 0), volume), result);
  Poisoned sum(count, result);
  ASSERT_NO_FATAL_FAILURE(run_once(plan, full, sum));
  ASSERT_EQ(sum.bytes, wanted.bytes);
  expect_traffic(both, plan, 1, volume, before);
}

void verify_all_reduce(Both& both, const Reduced& how, Dtype dtype, Dtype result,
                       std::size_t count) {
  SCOPED_TRACE(fmt::format("all-reduce {} {} {} to {} count {}", how.algorithm,
                           codec::to_string(how.first), name_of(dtype), name_of(result), count));
  const std::string codec = codec::to_string(how.first);
  zpp_plan_options options = test::plan_options(count, codec.c_str());
  options.input = code_of(dtype);
  options.output = code_of(result);
  options.algorithm = how.algorithm.c_str();
  options.scale = how.scale;
  options.seed = kSeed;
  const OwnedPlan plan = test::make_plan(zpp_plan_all_reduce, both.comm, options);
  ASSERT_NE(plan, nullptr);
  const std::size_t before = both.callbacks.bytes_sent;

  const Poisoned in = input(both, dtype, count);
  Poisoned padded(round_up(count, both.ranks()), dtype);
  for (std::size_t e = 0; e < padded.view.count; ++e) {
    test::store(padded.view, e, e < count ? test::load(in.view, e) : 0.0F);
  }
  const bool levels = collective::find_reduce_scatter(how.algorithm).traits.hierarchical;
  const bool lossless = how.first.format == "none" && result != Dtype::fp32;
  comm::Bytes volume;
  const std::uint64_t key = derived_key(kSeed, 0, 0);
  const Poisoned wanted = gathered(both,
                                   levels                    ? "two-level"
                                   : how.algorithm == "flat" ? "flat"
                                                             : "direct",
                                   lossless ? codec::parse_codec(name_of(result)) : how.first,
                                   reduced(both, how, padded, key, volume), result, key, volume);
  Poisoned out(count, result);
  ASSERT_NO_FATAL_FAILURE(run_once(plan, in, out));
  ASSERT_TRUE(std::equal(out.bytes.begin(), out.bytes.end(), wanted.bytes.begin()));
  expect_traffic(both, plan, 1, volume, before);
  if (dtype != result) return;
  const test::OnDevice place(in);
  ASSERT_EQ(zpp_run(plan.get(), place.view.data, place.view.data, test::stream().handle().native),
            ZPP_OK)
      << zpp_last_error();
  ASSERT_EQ(place.memory.download(), out.bytes);
}

TEST(CCollectives, AllGathersAreThoseOverMpi) {
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    for (const auto* algorithm : collective::all_gather_algorithms()) {
      if (algorithm->traits.modelled) continue;
      for (const char* const codec : kCodecs) {
        if (!algorithm->traits.any_codec && std::string(codec) != "none") continue;
        const std::string name(algorithm->name);
        for (const std::size_t count : {0U, 1009U}) {
          ASSERT_NO_FATAL_FAILURE(
              verify_all_gather(both, name, codec, Dtype::fp32, Dtype::fp32, count));
          ASSERT_NO_FATAL_FAILURE(
              verify_all_gather(both, name, codec, Dtype::bf16, Dtype::bf16, count));
          ASSERT_NO_FATAL_FAILURE(
              verify_all_gather(both, name, codec, Dtype::fp32, Dtype::bf16, count));
        }
      }
    }
  }
}

TEST(CCollectives, ReductionsAreThoseOverMpi) {
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    for (const auto* algorithm : collective::reduce_scatter_algorithms()) {
      if (algorithm->traits.modelled) continue;
      for (const char* const codec : kCodecs) {
        if (!algorithm->traits.any_codec && std::string(codec) != "none") continue;
        const codec::CodecSpec spec = codec::parse_codec(codec);
        const Reduced sum{std::string(algorithm->name), spec, spec, 1};
        Reduced mean = sum;
        mean.scale = 1.0F / static_cast<float>(both.ranks());
        ASSERT_NO_FATAL_FAILURE(verify_reduce_scatter(both, sum, Dtype::fp32, Dtype::fp32, 1009));
        ASSERT_NO_FATAL_FAILURE(verify_reduce_scatter(both, mean, Dtype::bf16, Dtype::bf16, 1009));
        ASSERT_NO_FATAL_FAILURE(verify_reduce_scatter(both, mean, Dtype::bf16, Dtype::fp32, 0));
        ASSERT_NO_FATAL_FAILURE(verify_all_reduce(both, sum, Dtype::fp32, Dtype::fp32, 12 * 64));
        ASSERT_NO_FATAL_FAILURE(verify_all_reduce(both, mean, Dtype::bf16, Dtype::bf16, 5003));
        ASSERT_NO_FATAL_FAILURE(verify_all_reduce(both, mean, Dtype::bf16, Dtype::fp32, 5003));
      }
    }
  }
}

/// Bytes that say where they come from.
std::byte byte_of(std::size_t rank, std::size_t place) {
  return static_cast<std::byte>(7 * rank + 13 * place + 1);
}

TEST(CCollectives, AnAllGatherOfBytesHasAnotherLengthInEveryCall) {
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    for (const std::size_t bytes : {0U, 1U, 16U, 1009U, 3U << 16U, 48U}) {
      std::vector<std::byte> before(both.ranks() * bytes, std::byte{0xA5});
      std::vector<std::byte> wanted(before.size());
      for (std::size_t at = 0; at < wanted.size(); ++at) {
        wanted[at] = byte_of(at / bytes, at % bytes);
        if (at / bytes == both.rank()) before[at] = wanted[at];
      }
      const test::DeviceBytes parts(before);
      const std::size_t sent_before = both.callbacks.bytes_sent;
      std::uint64_t inside = 1000;
      std::uint64_t between = 2000;
      ASSERT_EQ(zpp_all_gather_bytes(both.comm.get(), parts.data(), bytes,
                                     test::stream().handle().native, &inside, &between),
                ZPP_OK)
          << zpp_last_error();
      ASSERT_EQ(parts.download(), wanted) << "node size " << node_size << ", " << bytes << " bytes";
      const auto locals = static_cast<std::size_t>(node_size);
      EXPECT_EQ(inside - 1000, (locals - 1) * bytes);
      EXPECT_EQ(between - 2000, (both.ranks() - locals) * bytes);
      EXPECT_EQ(both.callbacks.bytes_sent - sent_before,
                over_nccl() ? 0 : inside - 1000 + between - 2000);
    }
    std::uint64_t sent = 0;
    EXPECT_EQ(zpp_all_gather_bytes(both.comm.get(), nullptr, 16, nullptr, &sent, &sent), ZPP_USAGE);
    EXPECT_EQ(zpp_all_gather_bytes(both.comm.get(), nullptr, 16, nullptr, nullptr, &sent),
              ZPP_USAGE);
    EXPECT_EQ(zpp_all_gather_bytes(nullptr, nullptr, 0, nullptr, &sent, &sent), ZPP_USAGE);
  }
}

TEST(CCollectives, TheHopBetweenNodesHasACodecOfItsOwn) {
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    ASSERT_NO_FATAL_FAILURE(verify_reduce_scatter(
        both, {"2-hop", codec::parse_codec("int8:256"), codec::parse_codec("int4:128"), 0.5F},
        Dtype::bf16, Dtype::fp32, 1009));
  }
}

TEST(CCollectives, AutoTakesTheLevelsThatThereAre) {
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    const bool levels = node_size > 1 && node_size < both.cluster.size();
    const auto chosen = [&](test::MakePlan make) {
      const OwnedPlan plan = test::make_plan(make, both.comm, test::plan_options(64, "int8:256"));
      zpp_traffic traffic{};
      EXPECT_EQ(zpp_plan_traffic(plan.get(), &traffic), ZPP_OK);
      return std::string(traffic.algorithm);
    };
    EXPECT_EQ(chosen(zpp_plan_all_gather), levels ? "two-level" : "direct");
    EXPECT_EQ(chosen(zpp_plan_reduce_scatter), levels ? "2-hop" : "1-hop");
    EXPECT_EQ(chosen(zpp_plan_all_reduce), levels ? "2-hop" : "1-hop");
  }
}

TEST(CCollectives, ThePartMayLieAtItsPlaceInTheResult) {
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    constexpr std::size_t kCount = 1009;
    for (const char* const codec : {"none", "int4:128"}) {
      const OwnedPlan plan =
          test::make_plan(zpp_plan_all_gather, both.comm, test::plan_options(kCount, codec));
      const Poisoned part = input(both, Dtype::fp32, kCount);
      Poisoned apart(both.ranks() * kCount, Dtype::fp32);
      ASSERT_NO_FATAL_FAILURE(run_once(plan, part, apart));
      Poisoned initial(both.ranks() * kCount, Dtype::fp32);
      const std::size_t own = both.rank() * part.bytes.size();
      std::ranges::copy(part.bytes, initial.bytes.data() + own);
      const test::OnDevice inside(initial);
      void* const stream = test::stream().handle().native;
      std::byte* const full = inside.memory.data();
      ASSERT_EQ(zpp_run(plan.get(), full + own, full, stream), ZPP_OK) << zpp_last_error();
      EXPECT_EQ(inside.memory.download(), apart.bytes);
      EXPECT_EQ(zpp_run(plan.get(), full + own + 4, full, stream), ZPP_USAGE);
      EXPECT_THAT(zpp_last_error(), testing::HasSubstr("overlaps"));
    }
  }
}

TEST(CCollectives, WhatIsNotFiniteSpreads) {
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    constexpr std::size_t kCount = 600;
    for (const char* const codec : kCodecs) {
      Poisoned in = input(both, Dtype::bf16, kCount);
      if (both.rank() == 0) {
        test::store(in.view, 7, NAN);
        test::store(in.view, 599, INFINITY);
      }
      zpp_plan_options options = test::plan_options(kCount, codec);
      options.input = options.output = ZPP_BF16;
      Poisoned out(kCount, Dtype::bf16);
      const OwnedPlan sum = test::make_plan(zpp_plan_all_reduce, both.comm, options);
      ASSERT_NO_FATAL_FAILURE(run_once(sum, in, out));
      EXPECT_FALSE(std::isfinite(test::load(out.view, 7))) << codec;
      EXPECT_FALSE(std::isfinite(test::load(out.view, 599))) << codec;
      Poisoned full(both.ranks() * kCount, Dtype::bf16);
      const OwnedPlan gather = test::make_plan(zpp_plan_all_gather, both.comm, options);
      ASSERT_NO_FATAL_FAILURE(run_once(gather, in, full));
      EXPECT_FALSE(std::isfinite(test::load(full.view, 7))) << codec;
      EXPECT_FALSE(std::isfinite(test::load(full.view, 599))) << codec;
    }
  }
}

/// Three runs feed errors back, with a reset after the second, and are compared with a collective
/// whose errors are kept here.
TEST(CCollectives, ErrorsAreFedBack) {
  constexpr std::size_t kCount = 1009;
  const codec::CodecSpec codec = codec::parse_codec("int4:128");
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    for (const char* const algorithm : {"1-hop", "2-hop"}) {
      for (const int store_int8 : {0, 1}) {
        const zpp_error_feedback given{.beta = 0.25, .reset_period = 2, .store_int8 = store_int8};
        zpp_plan_options options = test::plan_options(kCount, "int4:128");
        options.algorithm = algorithm;
        options.error_feedback = &given;
        const OwnedPlan plan = test::make_plan(zpp_plan_reduce_scatter, both.comm, options);
        ASSERT_NE(plan, nullptr);

        const collective::FeedbackOptions asked{.beta = 0.25F,
                                                .storage = store_int8 != 0
                                                               ? collective::ErrorStorage::int8
                                                               : collective::ErrorStorage::fp32};
        collective::ErrorFeedback errors(asked, test::device());
        const auto own = collective::plan_reduce_scatter(
            algorithm, both.cluster.context(),
            {.parts = Parts::dense(kCount),
             .codec_first = codec,
             .codec_second = codec,
             .purpose = "test",
             .feedback = collective::Feedback{.options = asked, .errors = &errors}});
        const Poisoned full = input(both, Dtype::fp32, both.ranks() * kCount);
        const test::OnDevice in(full);
        const test::OnDevice wanted(kCount, Dtype::fp32);
        const test::DeviceBytes workspace(own->workspace_bytes());
        const StreamHandle stream = test::stream().handle();
        std::vector<std::vector<std::byte>> results;
        for (int time = 1; time <= 3; ++time) {
          own->start(in.view, wanted.view, {workspace.span(), stream});
          own->finish(stream);
          for (const auto& hop : errors.hops()) {
            if (hop) hop->commit();
            if (hop && time == 2) hop->reset(stream);
          }
          Poisoned sum(kCount, Dtype::fp32);
          ASSERT_NO_FATAL_FAILURE(run_once(plan, full, sum));
          ASSERT_EQ(sum.bytes, wanted.memory.download()) << algorithm << " run " << time;
          results.push_back(sum.bytes);
        }
        EXPECT_NE(results[1], results[0]);
        EXPECT_EQ(results[2], results[0]);
        ASSERT_EQ(zpp_plan_forget_errors(plan.get(), stream.native), ZPP_OK);
        Poisoned sum(kCount, Dtype::fp32);
        ASSERT_NO_FATAL_FAILURE(run_once(plan, full, sum));
        EXPECT_EQ(sum.bytes, results[0]);
      }
    }
  }
}

/// Values that are not finite, of the last rank alone, are not finite in that run's sum and leave
/// no trace of it in the errors: sums of later runs are finite.
TEST(CCollectives, ErrorsOutliveValuesThatAreNotFinite) {
  constexpr std::size_t kCount = 1009;
  for (const int node_size : test::node_sizes()) {
    Both both(node_size);
    const Poisoned clean = input(both, Dtype::fp32, both.ranks() * kCount);
    const bool last = both.rank() + 1 == both.ranks();
    for (const float hostile :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (const char* const algorithm : {"1-hop", "2-hop"}) {
        for (const int store_int8 : {0, 1}) {
          const zpp_error_feedback given{.beta = 0.25, .reset_period = 0, .store_int8 = store_int8};
          zpp_plan_options options = test::plan_options(kCount, "int4:128");
          options.algorithm = algorithm;
          options.error_feedback = &given;
          const OwnedPlan plan = test::make_plan(zpp_plan_reduce_scatter, both.comm, options);
          ASSERT_NE(plan, nullptr);
          Poisoned full = input(both, Dtype::fp32, both.ranks() * kCount);
          for (std::size_t part = 0; last && part < both.ranks(); ++part) {
            full.view.as<float>()[part * kCount + 7] = hostile;
          }
          for (const bool poisoned : {false, true, false, false}) {
            Poisoned sum(kCount, Dtype::fp32);
            ASSERT_NO_FATAL_FAILURE(run_once(plan, poisoned ? full : clean, sum));
            std::size_t finite = 0;
            for (std::size_t e = 0; e < kCount; ++e) {
              finite += std::isfinite(test::load(sum.view, e)) ? 1 : 0;
            }
            EXPECT_EQ(finite == kCount, !poisoned) << algorithm << ", " << finite << " finite";
            EXPECT_EQ(std::isfinite(test::load(sum.view, 7)), !poisoned) << algorithm;
          }
        }
      }
    }
  }
}

class CErrors : public testing::Test {
 protected:
  void expect_refused(test::MakePlan make, const zpp_plan_options& options, const char* line) {
    auto* plan = reinterpret_cast<zpp_plan*>(this);
    EXPECT_EQ(make(both_.comm.get(), &options, &plan), ZPP_USAGE);
    EXPECT_THAT(zpp_last_error(), testing::HasSubstr(line));
    EXPECT_EQ(plan, nullptr);
  }
  Both both_{test::node_sizes().back()};
};

TEST_F(CErrors, PlansThatCannotBe) {
  expect_refused(zpp_plan_all_gather, test::plan_options(8, "int9:256"), "int9");
  expect_refused(zpp_plan_all_gather, test::plan_options(8, nullptr), "codec is NULL");
  zpp_plan_options options = test::plan_options(8, "int8:256");
  options.algorithm = "two-levels";
  expect_refused(zpp_plan_all_gather, options, "the nearest known is 'two-level'");
  options.algorithm = "native";
  expect_refused(zpp_plan_all_gather, options,
                 over_nccl() ? "carries no codec but 'none'" : "is the vendor's");
  options.algorithm = "1-hop";
  options.codec_between_nodes = "int4:128";
  expect_refused(zpp_plan_reduce_scatter, options, "has no effect with algorithm '1-hop'");
  options = test::plan_options(8, "int8:256");
  options.scale = 0;
  expect_refused(zpp_plan_reduce_scatter, options, "a scale of 0");
  options = test::plan_options(8, "int8:256");
  options.struct_size -= 8;
  expect_refused(zpp_plan_all_reduce, options, "struct_size");
  options = test::plan_options(8, "int8:256");
  options.input = static_cast<zpp_dtype>(3);
  expect_refused(zpp_plan_all_reduce, options, "unknown dtype 3");
  const zpp_error_feedback feedback{.beta = 1, .reset_period = 0, .store_int8 = 0};
  options = test::plan_options(8, "int8:256");
  options.error_feedback = &feedback;
  expect_refused(zpp_plan_reduce_scatter, options, "beta 1 is not in [0, 1)");
  options.codec = "none";
  expect_refused(zpp_plan_reduce_scatter, options, "no effect with codec 'none'");
  EXPECT_EQ(zpp_plan_all_gather(both_.comm.get(), nullptr, nullptr), ZPP_USAGE);
  EXPECT_THAT(zpp_last_error(), testing::HasSubstr("options is NULL"));
}

TEST_F(CErrors, OneRankIsWrongAndAllAreTold) {
  const bool last = both_.rank() + 1 == both_.ranks();
  expect_refused(zpp_plan_all_gather, test::plan_options(8, last ? "int9:256" : "int8:256"),
                 "int9");
  if (both_.ranks() == 1) return;
  expect_refused(zpp_plan_all_gather, test::plan_options(last ? 9 : 8, "int8:256"),
                 "ranks plan different things");
}

TEST_F(CErrors, CommunicatorsThatCannotBe) {
  const auto host = [](int rank, int size, int node_size) {
    zpp_comm_options options = test::comm_options(rank, size, node_size);
    options.device = ZPP_HOST;
    options.transport = ZPP_CALLBACKS;
    return options;
  };
  const zpp_callbacks table = both_.callbacks.table();
  const auto refused = [&](const zpp_comm_options& options, const zpp_callbacks& callbacks,
                           const char* line) {
    auto* comm = reinterpret_cast<zpp_comm*>(this);
    EXPECT_EQ(zpp_comm_create(&options, &callbacks, &comm), ZPP_USAGE);
    EXPECT_THAT(zpp_last_error(), testing::HasSubstr(line));
    EXPECT_EQ(comm, nullptr);
  };
  refused(host(0, 6, 4), table, "node_size 4 does not divide the size 6");
  refused(host(6, 6, 2), table, "rank 6 of size 6");
  zpp_comm_options options = host(0, 6, 2);
  options.transport = ZPP_NCCL;
  refused(options, table, "memory of GPUs only");
  options = host(0, 6, 2);
  options.struct_size = 1;
  refused(options, table, "struct_size");
  zpp_callbacks nothing = table;
  nothing.exchange = nullptr;
  refused(host(0, 6, 2), nothing, "exchange is NULL");
  EXPECT_EQ(zpp_comm_create(nullptr, &table, nullptr), ZPP_USAGE);
  EXPECT_THAT(zpp_last_error(), testing::HasSubstr("options is NULL"));
}

TEST_F(CErrors, ARunThatFailedCounts) {
  if (both_.ranks() == 1 || over_nccl()) return;  // nothing fails there
  // Where it failed on one rank alone, later runs draw the same numbers on all ranks nevertheless.
  const std::size_t count = 256;
  zpp_plan_options options = test::plan_options(count, "int4:128+sr");
  options.seed = kSeed;
  const OwnedPlan plan = test::make_plan(zpp_plan_all_gather, both_.comm, options);
  const Poisoned part = input(both_, Dtype::fp32, count);
  Poisoned full(both_.ranks() * count, Dtype::fp32);
  const test::OnDevice on_device(part);
  void* const stream = test::stream().handle().native;
  both_.callbacks.status = 42;
  const void* const wrong = both_.rank() == 0 ? nullptr : on_device.view.data;
  const test::OnDevice nothing(full);
  EXPECT_NE(zpp_run(plan.get(), wrong, nothing.view.data, stream), ZPP_OK);
  both_.callbacks.status = 0;
  ASSERT_NO_FATAL_FAILURE(run_once(plan, part, full));
  comm::Bytes volume;
  zpp_traffic traffic{};
  ASSERT_EQ(zpp_plan_traffic(plan.get(), &traffic), ZPP_OK);
  const auto drawn_in = [&](std::uint64_t run) {
    return gathered(both_, traffic.algorithm, codec::parse_codec("int4:128+sr"), part, Dtype::fp32,
                    derived_key(kSeed, run, 0), volume);
  };
  EXPECT_EQ(full.bytes, drawn_in(1).bytes);
  EXPECT_NE(full.bytes, drawn_in(0).bytes);
}

TEST_F(CErrors, ACallbackFails) {
  if (both_.ranks() == 1 || over_nccl()) return;  // nothing is sent that way
  const OwnedPlan plan =
      test::make_plan(zpp_plan_all_gather, both_.comm, test::plan_options(8, "none"));
  const test::OnDevice part(8, Dtype::fp32);
  const test::OnDevice full(8 * both_.ranks(), Dtype::fp32);
  void* const stream = test::stream().handle().native;
  both_.callbacks.status = 42;
  EXPECT_EQ(zpp_run(plan.get(), part.view.data, full.view.data, stream), ZPP_FAILED);
  EXPECT_THAT(zpp_last_error(), testing::HasSubstr("the callback returned 42"));
  both_.callbacks.status = 0;
  EXPECT_EQ(zpp_run(plan.get(), part.view.data, full.view.data, stream), ZPP_OK);
  EXPECT_EQ(zpp_run(plan.get(), nullptr, full.view.data, stream), ZPP_USAGE);
  EXPECT_EQ(zpp_run(nullptr, part.view.data, full.view.data, stream), ZPP_USAGE);
}

}  // namespace
}  // namespace zeropp::c
