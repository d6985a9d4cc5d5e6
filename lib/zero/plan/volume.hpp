// Bytes that a schedule moves: a fold over its operations. Pure functions; bytes are of one rank.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "lib/comm/traffic.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

/// Bytes, or messages, that this rank sends in one run of each collective: by kind of operation,
/// and within a kind by Op::index (unit or bucket). Kinds of which this rank runs none are empty.
struct Volumes {
  std::array<std::vector<comm::Bytes>, kOpKinds> by_kind;

  [[nodiscard]] std::vector<comm::Bytes>& operator[](OpKind kind) {
    return by_kind.at(static_cast<std::size_t>(kind));
  }
  [[nodiscard]] const std::vector<comm::Bytes>& operator[](OpKind kind) const {
    return by_kind.at(static_cast<std::size_t>(kind));
  }
};

/// Kind of the collective that `op` runs, where it runs one: an initial refresh is a gather of
/// whole weights, every other operation is of its own kind.
constexpr OpKind collective_of(const Op& op) {
  return op.kind == OpKind::refresh && op.phase == Phase::initial ? OpKind::gather : op.kind;
}

/// Bytes that this rank sends in one run of `op`. Throws std::out_of_range for a collective that
/// `volumes` does not have.
comm::Bytes volume(const Op& op, const Volumes& volumes);
/// Bytes that this rank sends in one execution of `schedule`.
comm::Bytes volume(const Schedule& schedule, const Volumes& volumes);

}  // namespace zeropp::zero
