// Memory that a rank's device needs for a run, in closed form, and what would fit where it is too
// much. Pure but for the limit on the GPU: nothing is allocated.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "lib/comm/topology.hpp"
#include "lib/config/train_config.hpp"
#include "lib/device/buffer.hpp"

namespace zeropp::train {

/// A run that may need too much.
class MemoryNeed {
 public:
  /// `config` is resolved, for `topology`. Both outlive this. `vocab_size`: of the token source;
  /// `gpu`: this process's, of visible_gpus(), where the back end is cuda.
  MemoryNeed(const config::TrainConfig& config, const comm::Topology& topology,
             std::size_t vocab_size, std::size_t gpu)
      : config_(config), topology_(topology), vocab_size_(vocab_size), gpu_(gpu) {}

  /// Puts zeropp.device_memory_limit into force, for all buffers of a GPU from now on. Throws
  /// Error(environment) where the run needs more: with the part that does not fit, what it needs,
  /// what is left, and what would fit.
  void enforce_limit() const;

  /// Calls make(). Where it throws OutOfMemory, throws Error with a longer message. It names the
  /// run's largest parts and what would fit (on the host: what would need less); where a GPU
  /// computes and the host's memory ran out, what the run keeps there.
  template <class Make>
  void explain(const Make& make) const {
    try {
      make();
    } catch (const OutOfMemory& error) {
      throw Error(error.code(), explained(error));
    }
  }

 private:
  [[nodiscard]] std::string explained(const OutOfMemory& error) const;
  /// Message where the host's memory ran out in a run that computes on a GPU.
  [[nodiscard]] std::string explained_beside_gpu(const OutOfMemory& error) const;
  /// Changes with which the run would take at most `capacity` bytes, as a clause. `of_host`: the
  /// host's memory ran out, whose capacity is not known; what is offloaded stays in it.
  [[nodiscard]] std::string remedies(std::size_t capacity, bool of_host) const;

  const config::TrainConfig& config_;
  const comm::Topology& topology_;
  std::size_t vocab_size_;
  std::size_t gpu_;
};

}  // namespace zeropp::train
