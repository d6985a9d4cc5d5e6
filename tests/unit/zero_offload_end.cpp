// ctest: name=zero_offload_end timeout=30 with=support/no_uring.cpp
// An offloaded optimizer that ends while its weights are written to their file, for example by an
// exception: its memory stays until nothing is written from it any more. The weights in the file
// outlive it. The program's own pwrite() writes, instead of io_uring.
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <vector>

#include "lib/zero/optimizer/offloaded_optimizer.hpp"

namespace {

/// Between the thread of the file and the one that ends the optimizer.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool under_way = false;  ///< a write
  bool gone = false;       ///< the optimizer, with its memory
  bool too_late = false;   ///< a write was under way when it went
};
Gate gate;

/// How long a write that is under way lets the optimizer end before it does.
constexpr std::chrono::milliseconds kLong{200};

}  // namespace

/// Replaces the C library's function.
extern "C" ssize_t pwrite(int file, const void* memory, size_t bytes, off_t at) {
  {
    std::unique_lock lock(gate.mutex);
    gate.under_way = true;
    gate.changed.notify_all();
    gate.too_late |= gate.changed.wait_for(lock, kLong, [] { return gate.gone; });
    if (gate.gone) return static_cast<ssize_t>(bytes);
  }
  const iovec from{const_cast<void*>(memory), bytes};
  return ::pwritev(file, &from, 1, at);
}

namespace zeropp::zero {
namespace {

TEST(OffloadedOptimizer, EndsAfterItsMemoryIsWritten) {
  const std::string folder = std::filesystem::temp_directory_path().string();
  Options options;
  options.compute = Dtype::bf16;
  options.offload_optimizer = {.device = OffloadDevice::cpu};
  options.offload_param = {.device = OffloadDevice::nvme, .nvme_path = folder, .max_in_cpu = 0};
  const std::vector<Unit> units{
      layout_unit("unit", {{.name = "weight", .shape = {64, 64}, .init = {}}})};
  const auto partitions = partition_units(units, 1, 1, options.compute);
  std::vector<float> gradients(partitions.front().shard);
  const std::vector<View> own{View::of(gradients.data(), gradients.size())};
  const Device device = Device::host();
  std::optional<FileWeights> file_weights(
      std::in_place, offload_pieces({gradients.size()}, options.offload_optimizer),
      std::vector<bool>{true}, options, device);
  const std::vector<View> none_on_device(1);
  const optim::Options rule;
  std::optional<OffloadedOptimizer> optimizer(
      std::in_place,
      OptimizerSetup{.units = units,
                     .partitions = partitions,
                     .owned = {.sharded = true, .rank = 0},
                     .seed = 0,
                     .options = rule},
      OffloadedArrays{.gradients = own, .weights = none_on_device, .file_weights = &*file_weights},
      options, device, Workers(1));
  optimizer->make_weights(0, Stream());
  {
    std::unique_lock lock(gate.mutex);
    gate.changed.wait(lock, [] { return gate.under_way; });
  }
  optimizer.reset();
  {
    const std::lock_guard lock(gate.mutex);
    gate.gone = true;
    gate.changed.notify_all();
  }
  file_weights.reset();  // what was under way has ended
  EXPECT_FALSE(gate.too_late);
}

}  // namespace
}  // namespace zeropp::zero
