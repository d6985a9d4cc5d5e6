// ctest: name=model_kept_inputs timeout=60 labels=sanitize
// Inputs of blocks between forward and backward: backward reads the values that forward wrote, with
// the copies as late as the waits on compute allow, and with compute as late as the waits on the
// copies allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "lib/model/kept_inputs.hpp"
#include "lib/model/transformer_sizes.hpp"
#include "tests/support/late_runtime.hpp"

namespace zeropp::model {
namespace {

constexpr std::size_t kElements = 100;  // 400 bytes: no multiple of 256

using Values = std::vector<float>;

/// Inputs of all blocks and of the head, on one device.
class Stack {
 public:
  Stack(std::size_t layers, std::size_t interval, bool on_host, const char* late = "none")
      : options_{.num_layers = layers,
                 .recompute_activations = true,
                 .recompute_interval = interval,
                 .cpu_checkpointing = on_host},
        device_(test::LateRuntime::device(late)),
        compute_(device_.make_stream("compute")),
        memory_(layers + 1, Values(kElements, -1)) {
    for (std::size_t block = 0; block <= layers; ++block) {
      const auto turn = turn_of(options_, block);
      Values& values = memory_[turn ? *turn % kInputSlots * interval : block];
      inputs_.push_back(View::of(values.data(), values.size()));
    }
    kept_ = std::make_unique<KeptInputs>(options_, inputs_, device_);
  }

  /// Values of `pass` for each input; forward alone, or with what its backward reads.
  void forward(std::size_t pass, bool train) {
    write(0, pass);
    for (std::size_t block = 0; block < options_.num_layers; ++block) {
      if (train) kept_->keep(block, compute_.handle());
      write(block + 1, pass);
    }
  }
  void backward(std::size_t pass) {
    for (std::size_t block = options_.num_layers; block-- > 0;) {
      kept_->await(block, compute_.handle());
      Values& found = reads_.emplace_back(std::make_unique<Read>(Read{block, pass}))->found;
      compute_.copy(reinterpret_cast<std::byte*>(found.data()), inputs_[block].as<std::byte>(),
                    inputs_[block].bytes());
      kept_->release(block, compute_.handle());
    }
  }

  /// Blocks whose backward read something else.
  [[nodiscard]] std::size_t wrong() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        reads_, [](const auto& read) { return read->found != pattern(read->block, read->pass); }));
  }
  [[nodiscard]] std::size_t reads() const { return reads_.size(); }
  [[nodiscard]] const KeptInputs& kept() const { return *kept_; }
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  struct Read {
    std::size_t block = 0;
    std::size_t pass = 0;
    Values found = Values(kElements, -2);
  };
  static Values pattern(std::size_t block, std::size_t pass) {
    Values values(kElements);
    for (std::size_t i = 0; i < kElements; ++i) {
      values[i] = static_cast<float>((pass * 100 + block) * 1000 + i);
    }
    return values;
  }
  void write(std::size_t block, std::size_t pass) {
    kept_->await(block, compute_.handle());
    const Values& values = *written_.emplace_back(std::make_unique<Values>(pattern(block, pass)));
    compute_.copy(inputs_[block].as<std::byte>(), reinterpret_cast<const std::byte*>(values.data()),
                  inputs_[block].bytes());
  }

  Options options_;
  Device device_;
  Stream compute_;
  std::vector<Values> memory_;
  std::vector<View> inputs_;
  std::unique_ptr<KeptInputs> kept_;
  std::vector<std::unique_ptr<Values>> written_;
  std::vector<std::unique_ptr<Read>> reads_;
};

TEST(KeptInputs, BackwardReadsWhatForwardWrote) {
  for (const char* late : {"kept inputs", "compute"}) {
    for (const std::size_t interval : {1U, 2U, 3U}) {
      for (const std::size_t layers : {1U, 2U, 3U, 4U, 7U, 12U}) {
        Stack stack(layers, interval, true, late);
        // Two micro-batches, an evaluation between and after them, and another one.
        stack.forward(1, true);
        stack.backward(1);
        stack.forward(2, false);
        stack.forward(3, true);
        stack.backward(3);
        stack.forward(4, true);
        stack.backward(4);
        test::LateRuntime::finish();
        EXPECT_EQ(stack.reads(), 3 * layers);
        EXPECT_EQ(stack.wrong(), 0U)
            << layers << " blocks, every " << interval << ", late: " << late;
      }
    }
  }
}

/// The inputs of two blocks that recompute stay on the device.
TEST(KeptInputs, TakeWhatTheClosedFormSays) {
  for (const auto& [layers, interval, away] : {std::array<std::size_t, 3>{1, 1, 0},
                                               {2, 1, 0},
                                               {3, 1, 1},
                                               {7, 1, 5},
                                               {7, 2, 2},
                                               {5, 3, 0}}) {
    const Stack stack(layers, interval, true);
    EXPECT_EQ(offloaded_inputs(stack.options()), away);
    EXPECT_EQ(stack.kept().bytes(), away * 512);
    EXPECT_EQ(kept_input_bytes(stack.options(), 400), away * 512);
  }
  EXPECT_EQ(Stack(7, 1, false).kept().bytes(), 0U);
}

}  // namespace
}  // namespace zeropp::model
