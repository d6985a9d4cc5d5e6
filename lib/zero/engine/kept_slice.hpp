// Slices of a checkpoint's arrays on their way between an engine's memory and files.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "lib/checkpoint/manifest.hpp"

namespace zeropp::zero {

/// A slice of a checkpoint, and how its values come to the host's memory.
struct KeptSlice {
  checkpoint::Slice slice;
  std::function<void(std::span<std::byte> to)> read;
};

/// Fills host memory with a slice of saved arrays. Throws Error(io).
using ReadSlice = std::function<void(const checkpoint::Slice&, std::span<std::byte>)>;
/// Whether there is such an array among the saved ones.
using HasSlice = std::function<bool(const checkpoint::Slice&)>;

}  // namespace zeropp::zero
