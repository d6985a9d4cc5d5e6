// ctest: name=train_memory_need timeout=60 labels=sanitize
// The error of a run on GPUs when the memory of the host runs out: it names what the run keeps
// there, and that hpZ's copy could stay on the GPU. No GPU is needed: the memory that ran out is
// not allocated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lib/train/memory_need.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kVocab = 128;
constexpr comm::Topology kNodes{4, 2, 2};
constexpr const char* kWhat = "no memory for 7 bytes";

/// A GPT in bf16 with hpZ on two nodes of two GPUs, resolved by hand.
config::TrainConfig gpt() {
  config::TrainConfig config;
  config.model = {.num_layers = 2,
                  .hidden_size = 64,
                  .num_attention_heads = 2,
                  .seq_length = 16,
                  .vocab_size = kVocab};
  config.bf16 = true;
  config.backend = Backend::cuda;
  config.transport = comm::Transport::mpi;
  config.zero.stage = 3;
  config.zero.compute = Dtype::bf16;
  config.zero.hpz_partition_size = 2;
  config.zero.all_gather_algorithm = "flat";
  config.zero.secondary_gather_algorithm = "flat";
  config.zero.reduce_scatter_algorithm = "flat";
  config.train_micro_batch_size_per_gpu = 1;
  config.gradient_accumulation_steps = 1;
  config.train_batch_size = 4;
  return config;
}

std::string explained(const config::TrainConfig& config, MemoryKind kind) {
  const MemoryNeed need(config, kNodes, kVocab, 0);
  return test::refusal([&] { need.explain([&] { throw OutOfMemory(kind, kWhat); }); },
                       ExitCode::environment);
}

TEST(MemoryBesideGpu, NamesTheCopyThatIsOnTheHost) {
  config::TrainConfig config = gpt();
  config.zero.hpz_device = zero::HpzDevice::cpu;
  // Two blocks, and the embedding with the last layer's scale and shift, of which a rank has half.
  constexpr std::size_t block = 12 * 64 * 64 + 13 * 64;
  constexpr std::size_t copy = (2 * block + (kVocab + 16 + 2) * 64) * 2 / 2;
  EXPECT_EQ(explained(config, MemoryKind::pinned),
            std::string(kWhat) + "; a rank leaves " + std::to_string(copy) +
                " bytes to the memory of the host, " + std::to_string(copy) +
                " of them for offloaded_secondary; --hpz-device device would keep hpZ's copy, " +
                std::to_string(copy) + " bytes, on the GPU");
}

TEST(MemoryBesideGpu, NamesTheCopyBesideALargerPart) {
  config::TrainConfig config = gpt();
  config.zero.hpz_device = zero::HpzDevice::cpu;
  config.zero.offload_optimizer.device = zero::OffloadDevice::cpu;
  for (const MemoryKind kind : {MemoryKind::pinned, MemoryKind::host}) {
    EXPECT_THAT(explained(config, kind),
                AllOf(HasSubstr("for offloaded_"), HasSubstr("; --hpz-device device would keep")));
  }
}

TEST(MemoryBesideGpu, DoesNotNameACopyThatIsOnTheGpu) {
  config::TrainConfig config = gpt();
  EXPECT_EQ(explained(config, MemoryKind::pinned), kWhat);
  config.zero.offload_optimizer.device = zero::OffloadDevice::cpu;
  EXPECT_THAT(explained(config, MemoryKind::pinned),
              AllOf(HasSubstr("to the memory of the host"), Not(HasSubstr("--hpz-device"))));
}

}  // namespace
}  // namespace zeropp::train
