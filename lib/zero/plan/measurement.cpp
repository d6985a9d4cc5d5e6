#include "lib/zero/plan/measurement.hpp"

#include <algorithm>

#include "kernels/codec/codec.hpp"
#include "lib/zero/plan/collective_descriptions.hpp"

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

MeasurementMemory measurement_memory(const Options& options, const CodecTable& codecs,
                                     const std::vector<Unit>& units,
                                     const std::vector<UnitPartition>& partitions,
                                     const std::vector<Bucket>& buckets,
                                     const comm::JobShape& job) {
  MeasurementMemory memory;
  for (std::size_t u = 0; u < partitions.size(); ++u) {
    const std::size_t shard = partitions[u].shard;
    for (const codec::CodecSpec& spec : codecs.weights(u)) {
      memory.image = std::max(memory.image, codec::Codec(spec, options.compute).wire_bytes(shard));
    }
    memory.decoded = std::max(memory.decoded, shard * size_of(options.compute));
    memory.shards += shard * sizeof(float);
  }
  const Options exact = exactly(options);
  const GradientDescriptions reductions(exact, CodecTable(exact, units), partitions, buckets, job);
  for (const BucketMemory& bucket : reductions.memory) {
    memory.sum = std::max(memory.sum, bucket.sum);
    memory.workspace = std::max(memory.workspace, bucket.workspace);
  }
  return memory;
}

}  // namespace zeropp::zero
