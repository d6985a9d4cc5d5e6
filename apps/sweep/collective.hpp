// A collective under test: how nccl-tests counts its size, what it may run by, how it is planned,
// and what its result has to be. One file each; collectives.cpp has the table. All sizes are those
// of one rank of the group that it runs on.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/sweep/data.hpp"
#include "kernels/codec/spec.hpp"
#include "lib/collective/collective.hpp"
#include "lib/collective/reference.hpp"

namespace zeropp::sweep {

/// One size of one collective on one group.
struct Shape {
  Dtype dtype = Dtype::fp32;
  std::size_t count = 0;     ///< elements: nccl-tests' column `count`
  int rank = 0;              ///< in the group
  std::vector<int> members;  ///< ranks of the group in the world: sources of data
  comm::Topology topology;   ///< of the group
  int root = 0;              ///< in the group, where the collective has one

  [[nodiscard]] std::size_t ranks() const { return members.size(); }
};

/// The algorithm that is the communicator's own.
inline constexpr std::string_view kVendors = "native";

/// Variant of a collective: how it runs.
struct Variant {
  std::string algorithm;
  codec::CodecSpec codec;
  std::size_t depth = 1;  ///< chunks in which it is pipelined; some run in one chunk

  [[nodiscard]] bool is_lossless() const { return codec == codec::CodecSpec{}; }
  [[nodiscard]] bool is_vendors() const { return algorithm == kVendors; }
};

using collective::Algorithm;

/// Memory of a run's input and result: one buffer each, or both in one.
struct Memory {
  std::size_t input = 0;   ///< elements of the shape's dtype
  std::size_t filled = 0;  ///< of these carry data; the rest are zeros
  std::size_t result = 0;  ///< elements of `result_dtype`
  Dtype result_dtype = Dtype::fp32;
  std::size_t input_at = 0;     ///< byte of the one buffer where the input begins
  std::size_t result_at = 0;    ///< byte of the one buffer where the result begins
  bool replaces_input = false;  ///< in place, the next run would find another input

  [[nodiscard]] std::size_t input_bytes(Dtype dtype) const { return input * size_of(dtype); }
  [[nodiscard]] std::size_t result_bytes() const { return result * size_of(result_dtype); }
  [[nodiscard]] std::size_t in_place_bytes(Dtype dtype) const {
    return std::max(input_at + input_bytes(dtype), result_at + result_bytes());
  }
};

/// A planned collective, one run in flight. Streams, workspace and order as in
/// lib/collective/collective.hpp.
class Planned {
 public:
  virtual ~Planned() = default;
  virtual void start(ConstView in, View out, std::span<std::byte> workspace,
                     StreamHandle stream) = 0;
  virtual void finish(StreamHandle stream) = 0;
  [[nodiscard]] virtual std::size_t workspace_bytes() const = 0;
  /// Bytes that this rank sends in one run, in closed form (the vendor's: a ring's).
  [[nodiscard]] virtual comm::Bytes volume() const = 0;
};

/// Values that a part of the result has to have. `bound`: largest error of each element; empty:
/// exact.
struct Expected {
  std::vector<double> values;
  std::vector<double> bound;
};

/// Elements of one rank's part of a buffer of `bytes`: a multiple of 16 bytes.
constexpr std::size_t elements_of_part(std::size_t bytes, std::size_t element_bytes,
                                       std::size_t ranks) {
  const std::size_t quantum = 16 / element_bytes;
  return bytes / element_bytes / ranks / quantum * quantum;
}

class Collective {
 public:
  virtual ~Collective() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view redop() const = 0;  ///< "sum" or "none"
  [[nodiscard]] virtual bool has_root() const { return false; }
  /// The column `count` for a buffer of `bytes`, and the column `size` for that count.
  [[nodiscard]] virtual std::size_t count(std::size_t bytes, Dtype dtype, std::size_t ranks) const;
  [[nodiscard]] virtual std::size_t bytes(const Shape& shape) const;
  /// Bus bandwidth over algorithm bandwidth (nccl-tests, doc/PERFORMANCE.md).
  [[nodiscard]] virtual double bus_factor(std::size_t ranks) const;
  [[nodiscard]] virtual std::vector<Algorithm> algorithms() const = 0;
  /// Algorithm that `auto` takes beside the vendor's, on several nodes of several ranks or
  /// elsewhere. Empty: there is the vendor's only.
  [[nodiscard]] virtual std::string_view preferred(bool levels) const = 0;
  [[nodiscard]] virtual Memory memory(const Shape& shape, const Variant& variant) const = 0;
  /// Throws Error(usage) for a variant that is not among the algorithms, and as
  /// collective::plan_all_gather() does.
  [[nodiscard]] virtual std::unique_ptr<Planned> plan(const collective::Context& context,
                                                      const Shape& shape,
                                                      const Variant& variant) const = 0;
  /// The result lies in parts, one after the other, `part_stride` elements apart; part p of them
  /// has `part_length` elements that are checked.
  [[nodiscard]] virtual std::size_t parts(const Shape& shape) const = 0;
  [[nodiscard]] virtual std::size_t part_stride(const Shape& shape) const { return shape.count; }
  [[nodiscard]] virtual std::size_t part_length(const Shape& shape, std::size_t /*part*/) const {
    return shape.count;
  }
  /// Elements [first, first + length) of a part. `first` is a multiple of every codec's block.
  [[nodiscard]] virtual Expected expected(const Shape& shape, const Variant& variant,
                                          const Data& data, std::size_t part, std::size_t first,
                                          std::size_t length) const = 0;
};

/// Whether `collective` has the algorithm for that codec.
bool can_run(const Collective& collective, const Variant& variant);

/// Traits of the algorithm of that name of `collective`; false where it has none of that name.
bool is_hierarchical(const Collective& collective, std::string_view algorithm);
bool is_modelled(const Collective& collective, std::string_view algorithm);
bool runs_in_one_chunk(const Collective& collective, std::string_view algorithm);

/// Values that a copy through a codec has to give: elements [first, first + length) of `source`'s
/// buffer.
Expected expected_copy(const Shape& shape, const Variant& variant, const Data& data, int source,
                       std::size_t first, std::size_t length);

/// The table, in the order of its rows.
const std::vector<const Collective*>& collectives();

}  // namespace zeropp::sweep
