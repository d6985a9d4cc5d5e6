// Plan of the measurement of quantization errors (quantization/error_meter.hpp): the exact
// reductions beside those of the run, and the memory that a measurement takes. Pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "lib/comm/shape.hpp"
#include "lib/zero/plan/codec_table.hpp"
#include "lib/zero/plan/options.hpp"
#include "lib/zero/plan/partition.hpp"

namespace zeropp::zero {

/// Options of the same reductions without codecs, in fp32 and rank order.
Options exactly(Options options);

/// Whether a measurement encodes a unit's shard again: the weights are gathered for each use, and
/// no rank keeps what the gather decoded. A rank holds other units as it computes with them.
bool encodes_again(const Options& options, const UnitPartition& unit);

/// Bytes that a measurement holds on a rank.
struct MeasurementMemory {
  std::size_t image = 0;    ///< of the largest shard that is encoded again, in any of its codecs
  std::size_t decoded = 0;  ///< of the largest shard that is encoded again, in the compute dtype
  std::size_t sum = 0;      ///< of the largest bucket
  std::size_t workspace = 0;
  std::size_t shards = 0;  ///< exact sums of all units

  [[nodiscard]] std::size_t total() const { return image + decoded + sum + workspace + shards; }
};

/// Memory of a measurement, with the `codecs` of the run and the `buckets` of its reductions.
MeasurementMemory measurement_memory(const Options& options, const CodecTable& codecs,
                                     const std::vector<Unit>& units,
                                     const std::vector<UnitPartition>& partitions,
                                     const std::vector<Bucket>& buckets, const comm::JobShape& job);

}  // namespace zeropp::zero
