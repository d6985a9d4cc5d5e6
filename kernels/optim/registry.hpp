// The optimizers: one entry per file of rules/. Such a file defines, in the namespace rule::STEM, a
// struct Rule:
//
//   name         as in DeepSpeed's optimizer.type
//   summary      half a line
//   parameters   DeepSpeed's names of the options that it reads
//   with_update(options, body)   calls body(Update{}) with the update that the options ask for
//
// and one or more updates, each a struct:
//
//   states       moments that it keeps for a parameter, 0 to kMostStates, zero before step 1
//   is_signed    of each, whether it can be negative: what 8 bits have to tell apart
//   no_decay     Constants::decay of a parameter without weight decay
//   Constants    the step's constants in fp32, `decay` among them
//   constants(options, t)        computed on the host, in fp64 and then rounded
//   apply(g, decay, constants, weight, state...)   one parameter, host and device: g is the scaled
//                mean gradient; every product and sum is spelled out, so that both round alike
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "kernels/core/view.hpp"
#include "kernels/optim/moments.hpp"
#include "kernels/optim/update.hpp"
#include "kernels/optim/update_image.hpp"

namespace zeropp::optim {

/// Kernels and states of an optimizer with one set of options.
struct Variant {
  std::size_t states = 0;  ///< moments beside the weights, UpdatePiece::state in order
  std::array<bool, kMostStates> is_signed{};  ///< of each, whether it can be negative
  UpdatePieces host = nullptr;
  UpdatePieces cuda = nullptr;       ///< null in a build without CUDA
  UpdateTiles host_tiles = nullptr;  ///< null without writes_images()
  UpdateTiles cuda_tiles = nullptr;  ///< null there, and in a build without CUDA

  [[nodiscard]] UpdatePieces on(MemoryKind memory) const {
    return memory == MemoryKind::device ? cuda : host;
  }
  /// Null where nothing updates and encodes in one pass.
  [[nodiscard]] UpdateTiles tiles_on(MemoryKind memory) const {
    return memory == MemoryKind::device ? cuda_tiles : host_tiles;
  }
};

struct RuleInfo {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string_view> parameters;
};

struct RuleEntry {
  RuleInfo info;
  Variant (*variant)(const Options&) = nullptr;
};

/// A rule's entry: host_rule.hpp defines it.
template <class Rule>
const RuleEntry& rule_entry();

/// Launchers of a rule on a GPU, which cuda/cuda_rule.cuh defines; null in a build without CUDA.
/// The second one writes images of the new weights too, for updates with two moments.
template <class Rule>
UpdatePieces cuda_update();
template <class Rule>
UpdateTiles cuda_update_tiles();

/// In alphabetical order of their names.
const std::vector<const RuleEntry*>& rules();

/// The variant that options.type and the other options ask for. Throws std::invalid_argument for an
/// unknown type.
Variant variant_of(const Options& options);

/// State that the optimizer keeps for a parameter with these options, of the dtype options.moments.
inline Kept kept_by(const Options& options) {
  return {variant_of(options).states, options.moments};
}

}  // namespace zeropp::optim
