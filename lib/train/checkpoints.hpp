// When a training run saves itself, and how it goes on from what was saved. Collective: all ranks
// of the context call everything, in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/app/app.hpp"
#include "lib/checkpoint/saver.hpp"
#include "lib/config/train_config.hpp"
#include "lib/zero/engine.hpp"

namespace zeropp::train {

class Checkpoints {
 public:
  /// `tokens`: the data's fingerprint. The references outlive this. Throws AgreedError: a folder to
  /// save to that holds checkpoints which the run does not go on from.
  Checkpoints(const config::TrainConfig& config, const app::Context& context, std::string tokens);

  /// Restores the newest checkpoint that is whole, and returns how many steps it is after; 0 where
  /// there is none, which is warned of. One that is damaged is named and set aside. Throws
  /// AgreedError where there are some and none can be used.
  std::uint64_t load(zero::Engine& engine);

  /// After `done` steps: completes what is written, begins what is due. The last is complete on
  /// return.
  void stepped(std::uint64_t done, const zero::Engine& engine);

  /// The run ends here, before its last step: this is saved too, where the run saves at all.
  void end_early(std::uint64_t done, const zero::Engine& engine);

 private:
  void save(std::uint64_t done, const zero::Engine& engine);
  /// Whether the run goes on from the folder that it saves to.
  [[nodiscard]] bool goes_on_here() const;
  void restore(zero::Engine& engine, const checkpoint::Folder& folder, std::uint64_t step,
               const checkpoint::Manifest& manifest) const;

  const config::TrainConfig& config_;
  const app::Context& context_;
  std::string tokens_;
  std::optional<checkpoint::Saver> saver_;
  std::uint64_t saved_ = 0;  ///< the step of the last checkpoint that was begun, or loaded
};

}  // namespace zeropp::train
