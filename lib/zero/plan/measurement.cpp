#include "lib/zero/plan/measurement.hpp"

#include <algorithm>

#include "kernels/codec/codec.hpp"
#include "lib/zero/plan/collectives.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

Options exactly(Options options) {
  options.compute = Dtype::fp32;
  options.quantized_gradients = false;
  options.error_feedback = {};
  options.codec_schedule.clear();
  options.adaptive_bits = {};
  options.reduce_scatter_algorithm = "ordered";
  options.pipeline_depth = 1;
  options.stage = 3;  // no gather of sums
  return options;
}

bool encodes_again(const Options& options, const UnitPartition& unit) {
  const StagePreset preset = stage_preset(options.stage);
  return preset.shard_parameters && !options.exchanges_differences() && !is_refreshed(preset, unit);
}

MeasurementMemory measurement_memory(const Options& options, const CodecTable& codecs,
                                     const std::vector<Unit>& units,
                                     const std::vector<UnitPartition>& partitions,
                                     const std::vector<Bucket>& buckets,
                                     const comm::JobShape& job) {
  MeasurementMemory memory;
  for_each_weight_collective(options, codecs, partitions, [&](const Collective& made) {
    const UnitPartition& unit = partitions[made.key.index];
    if (made.key.transfer != Transfer::weights || !encodes_again(options, unit)) return;
    const codec::Codec codec(made.gather().codec, options.compute);
    memory.image = std::max(memory.image, codec.wire_bytes(unit.shard));
    memory.decoded = std::max(memory.decoded, unit.shard * size_of(options.compute));
  });
  for (const UnitPartition& unit : partitions) memory.shards += unit.shard * sizeof(float);
  const Options exact = exactly(options);
  CollectiveDescriptions reductions;
  reductions.describe_gradients(exact, CodecTable(exact, units), partitions, buckets, job);
  for (const BucketMemory& bucket : reductions.bucket_memory()) {
    memory.sum = std::max(memory.sum, bucket.sum);
    memory.workspace = std::max(memory.workspace, bucket.workspace);
  }
  return memory;
}

}  // namespace zeropp::zero
