// ctest: name=device_gpu_sampler timeout=60 labels=sanitize link=fake_nvml
// Readings of a GPU through NVML's interface, from a library that stands in for it; and what is
// said where it is not there.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <thread>

#include "lib/app/gpu_sampling.hpp"
#include "lib/base/error.hpp"
#include "lib/device/gpu_sampler.hpp"
#include "tests/support/fake_nvml.hpp"

namespace zeropp {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

/// The file of the library that stands in.
std::string fake_library() {
  Dl_info info{};
  EXPECT_NE(dladdr(reinterpret_cast<void*>(&fake_nvml_set), &info), 0);
  return info.dli_fname;
}

void behave(const test::FakeNvml& behaviour) { fake_nvml_set(&behaviour); }

TEST(Nvml, ReadsAllValues) {
  behave({.reasons = 0x4 | 0x40});
  {
    const Nvml nvml(fake_library());
    EXPECT_EQ(fake_nvml_open(), 1);
    const GpuReading reading = nvml.read(nvml.gpu("GPU-fake"));
    EXPECT_EQ(reading.sm_clock, 1980);
    EXPECT_EQ(reading.memory_clock, 3201);
    EXPECT_EQ(reading.power, 650.5);
    EXPECT_EQ(reading.temperature, 71);
    EXPECT_EQ(reading.utilization, 97);
    EXPECT_EQ(reading.memory_utilization, 40);
    EXPECT_EQ(describe_reasons(reading), "sw_power_cap,hw_thermal_slowdown");
  }
  EXPECT_EQ(fake_nvml_open(), 0);
}

TEST(GpuSamples, ThinnedKeepEveryReason) {
  std::vector<GpuSample> samples(5);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].time = static_cast<double>(i);
  samples[3].reading.reasons = 0x40;
  thin(samples);
  ASSERT_EQ(samples.size(), 3U);
  EXPECT_EQ(samples[0].time, 0);
  EXPECT_EQ(samples[1].time, 2);
  EXPECT_EQ(samples[2].time, 4);
  EXPECT_EQ(samples[0].reading.reasons, 0U);
  EXPECT_EQ(samples[1].reading.reasons, 0x40U);
}

TEST(Nvml, WhatAGpuDoesNotTellIsNoNumber) {
  behave({.power_status = 3});
  const Nvml nvml(fake_library());
  const GpuReading reading = nvml.read(nvml.gpu("GPU-fake"));
  EXPECT_TRUE(std::isnan(reading.power));
  EXPECT_EQ(reading.sm_clock, 1980);
  EXPECT_EQ(describe_reasons(reading), "");
  EXPECT_EQ(describe_reasons({}), "unknown");
}

TEST(Nvml, EveryReasonHasABitOfItsOwn) {
  std::uint64_t bits = 0;
  std::set<std::string_view> names;
  for (const ClockReason& reason : clock_reasons()) {
    EXPECT_EQ(bits & reason.bit, 0U);
    bits |= reason.bit;
    EXPECT_TRUE(names.insert(reason.name).second);
  }
  EXPECT_EQ(bits, 0x1FFU);
}

TEST(GpuSampler, ReadsAtTheBeginAndAtTheEnd) {
  behave({.clock_step = 10});
  GpuSampler sampler("GPU-fake", 3600, fake_library());
  const GpuSeries series = sampler.stop();
  EXPECT_EQ(series.absent, "");
  ASSERT_EQ(series.samples.size(), 2U);
  EXPECT_EQ(series.samples[0].reading.sm_clock, 1980);
  EXPECT_EQ(series.samples[1].reading.sm_clock, 1970);
  EXPECT_LE(series.samples[0].time, series.samples[1].time);
  EXPECT_GE(series.samples[0].time, 0);
}

TEST(GpuSampler, ReadsAgainAfterThePeriod) {
  behave({.clock_step = 1});
  GpuSampler sampler("GPU-fake", 1e-6, fake_library());
  while (fake_nvml_readings() < 50) std::this_thread::yield();
  const GpuSeries series = sampler.stop();
  EXPECT_GE(series.samples.size(), 50U);
  EXPECT_EQ(series.samples.size(), fake_nvml_readings());
  for (std::size_t i = 1; i < series.samples.size(); ++i) {
    EXPECT_LT(series.samples[i].reading.sm_clock, series.samples[i - 1].reading.sm_clock);
    EXPECT_GE(series.samples[i].time, series.samples[i - 1].time);
  }
}

TEST(GpuSampler, SaysWhyThereIsNothing) {
  GpuSeries series = GpuSampler("GPU-fake", 1, "libno-such-nvml.so.1").stop();
  EXPECT_THAT(series.absent,
              AllOf(HasSubstr("NVML cannot be opened"), HasSubstr("libno-such-nvml")));
  EXPECT_THAT(series.samples, IsEmpty());

  behave({});
  series = GpuSampler("GPU-other", 1, fake_library()).stop();
  EXPECT_THAT(series.absent, HasSubstr("does not know the GPU GPU-other: Not Found"));

  behave({.start_status = 9});
  series = GpuSampler("GPU-fake", 1, fake_library()).stop();
  EXPECT_THAT(series.absent, HasSubstr("NVML does not start: Driver Not Loaded"));

  series = GpuSampler("GPU-fake", 1, "libc.so.6").stop();
  EXPECT_THAT(series.absent, HasSubstr("NVML in libc.so.6 lacks functions"));
  EXPECT_EQ(fake_nvml_open(), 0);
}

TEST(GpuSampler, EndsWithItsOwner) {
  behave({});
  { const GpuSampler sampler("GPU-fake", 3600, fake_library()); }
  EXPECT_EQ(fake_nvml_open(), 0);
}

TEST(DescribeThrottling, NamesTheGpuThatIsHeldBackMost) {
  std::vector<trace::RankRow> ranks(3);
  for (std::size_t rank = 0; rank < 3; ++rank) ranks[rank].host = fmt::format("n{}", rank);
  std::vector<trace::GpuRow> rows;
  const auto add = [&](std::uint64_t rank, double clock, const char* reasons) {
    trace::GpuRow row;
    row.rank = rank;
    row.sm_clock = clock;
    row.reasons = reasons;
    rows.push_back(row);
  };
  add(0, 1980, "");
  add(0, 345, "gpu_idle");
  add(2, 1980, "applications_clocks_setting");
  add(2, 1965, "unknown");
  EXPECT_EQ(app::describe_throttling(rows, ranks), "");
  EXPECT_EQ(app::describe_throttling({}, ranks), "");
  for (int i = 0; i < 3; ++i) add(1, 1980, "");
  add(1, 1410, "sw_power_cap,sync_boost");
  add(2, 1200, "hw_thermal_slowdown,sw_power_cap");
  EXPECT_EQ(app::describe_throttling(rows, ranks),
            "clocks were held back on the GPUs of 2 of 3 ranks, most on that of rank 2 on n2: "
            "hw_thermal_slowdown, sw_power_cap in 33 % of its 3 readings, SM clock down to 1200 "
            "MHz, 1980 at best");
}

}  // namespace
}  // namespace zeropp
