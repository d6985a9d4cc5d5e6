// Remedies that need less memory of a device. Messages about a run that does not fit, and about a
// search in which nothing fits, name remedies from this one table. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/comm/topology.hpp"
#include "lib/config/resolve.hpp"
#include "lib/config/train_config.hpp"

namespace zeropp::plan {

/// One change of a run, as flags give it.
struct MemoryChange {
  /// Makes the change. Returns its flags, or nothing where the run has it, or cannot have it.
  std::string (*apply)(config::TrainConfig& config, const comm::Topology& topology);
  const char* path;           ///< of its option; null where search() chooses that itself
  bool to_host = false;       ///< part of what it saves lies in the memory of the host then
  bool chooses_anew = false;  ///< resolve() may choose other algorithms with it
};

/// Changes that are made together.
using MemoryRemedy = std::vector<MemoryChange>;

/// Remedies that change a run the least come first.
const std::vector<MemoryRemedy>& memory_remedies();

/// Makes all changes of `remedy`. Returns the flags of those that changed something, with blanks
/// between.
std::string apply(const MemoryRemedy& remedy, config::TrainConfig& config,
                  const comm::Topology& topology);

/// A run with a remedy.
struct Remedied {
  std::string flags;
  std::size_t bytes;  ///< of a rank on its device
};

/// The first `most` remedies with which a resolved run takes at most `capacity` bytes of a rank's
/// device, and is not refused. Flags turn off options that are refused or idle beside them.
/// `to_host`: whether the memory of the host may take the bytes that they save. `topology` is
/// uniform.
std::vector<Remedied> remedies_within(std::size_t capacity, bool to_host, std::size_t most,
                                      const config::TrainConfig& config,
                                      const comm::Topology& topology,
                                      const config::Machine& machine,
                                      std::size_t source_vocab_size);

}  // namespace zeropp::plan
