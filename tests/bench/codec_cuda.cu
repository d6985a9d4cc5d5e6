// Speed of the codecs on the GPU beside a device-to-device copy in the same run:
//   bench_codec_cuda [OUT.json]
// For int8 and int4 at every block size: encode and decode of 256 Mi bf16 values, and the fused
// decode, sum and encode of 4 and 16 images. Bytes are those that an operation must move: each
// input read once, each output written once. The copy is measured again before the rows of every
// block, so that a clock that sinks during the run does not look like a slow block. Every operand
// is larger than the caches or is used again only after others that are.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "kernels/core/memory_ops.hpp"
#include "lib/device/buffer.hpp"
#include "tests/bench/gpu_bench.cuh"

namespace zeropp {
namespace {

using codec::Codec;
using codec::Layout;
using codec::ReduceEncode;
using codec::WireImages;

constexpr std::size_t kValues = std::size_t{1} << 28U;

using bench::median_time;
using bench::stream;
using bench::Table;

/// kValues normal bf16 values: a tile of them, over and over.
Buffer normal_values() {
  constexpr std::size_t tile = std::size_t{1} << 22U;
  std::vector<Bf16> part(tile);
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (Bf16& value : part) value = round_to_bf16(normal(engine));
  Buffer memory(kValues * sizeof(Bf16), MemoryKind::device);
  for (std::size_t first = 0; first < kValues; first += tile) {
    cuda_memory_ops()->copy(ConstView::of(part.data(), tile),
                            memory.view(tile, Dtype::bf16, first * sizeof(Bf16)),
                            stream().handle());
  }
  stream().synchronize();
  return memory;
}

void measure(const std::string& format, Table& table, const Buffer& values, const Buffer& back) {
  const StreamHandle on = stream().handle();
  const auto measure_copy = [&] {
    table.copy(2 * values.bytes(), median_time([&] {
                 cuda_memory_ops()->copy(values.view(kValues, Dtype::bf16),
                                         back.view(kValues, Dtype::bf16), on);
               }));
  };
  for (std::size_t block = 32; block <= 8192; block *= 2) {
    const std::string name = format + ":" + std::to_string(block);
    const Codec codec(codec::parse_codec(name), Dtype::bf16, Backend::cuda);
    const Buffer wire(codec.wire_bytes(kValues), MemoryKind::device);
    const View in = values.view(kValues, Dtype::bf16);
    const View out = back.view(kValues, Dtype::bf16);
    const Layout layout = Layout::contiguous(kValues);
    measure_copy();
    table.add("encode", name, values.bytes() + wire.bytes(), median_time([&] {
                codec.encode(in, layout, {wire.data(), 0}, on);
              }));
    table.add("decode", name, wire.bytes() + back.bytes(), median_time([&] {
                codec.decode(WireImages{wire.data(), 0}, layout, out, on);
              }));
  }
  for (const std::size_t images : {4, 16}) {
    for (std::size_t block = 32; block <= 8192; block *= 2) {
      const std::string name = format + ":" + std::to_string(block);
      const Codec codec(codec::parse_codec(name), Dtype::bf16, Backend::cuda);
      const ReduceEncode operation(codec, codec);
      const std::size_t n = kValues / images;
      const std::size_t bytes = codec.wire_bytes(n);
      // Two sets in turn.
      const Buffer wire(2 * images * bytes, MemoryKind::device);
      const Buffer out(2 * bytes, MemoryKind::device);
      const WireImages sets[] = {{wire.data(), bytes}, {wire.data() + images * bytes, bytes}};
      for (const WireImages& set : sets) {
        codec.encode(values.view(kValues, Dtype::bf16), {images, n, 1, 0, n, n}, set, on);
      }
      measure_copy();
      int turn = 0;
      table.add(("sum of " + std::to_string(images)).c_str(), name, (images + 1) * bytes,
                median_time([&] {
                  turn = 1 - turn;
                  operation.run(sets[turn], images, 1, n,
                                {out.data() + static_cast<std::size_t>(turn) * bytes, 0}, nullptr,
                                on);
                }));
    }
  }
}

int run(const char* path) {
  if (visible_gpus().empty()) {
    std::fprintf(stderr, "bench_codec_cuda: %s\n", no_gpu_reason().c_str());
    return 1;
  }
  use_gpu(0);
  const Buffer values = normal_values();
  const Buffer back(values.bytes(), MemoryKind::device);
  Table table("codec");
  for (const char* format : {"int8", "int4"}) measure(format, table, values, back);
  if (path != nullptr) {
    nlohmann::json json = table.json();
    json["values"] = kValues;
    std::ofstream(path) << json.dump(1) << "\n";
  }
  return 0;
}

}  // namespace
}  // namespace zeropp

int main(int argc, char** argv) { return zeropp::run(argc > 1 ? argv[1] : nullptr); }
