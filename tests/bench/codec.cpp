// Speed of the codecs on the host beside a plain copy in the same run. bytes_per_second counts what
// an operation must move: each input read once, each output written once. Memory is far larger than
// the caches.
#include "kernels/codec/codec.hpp"

#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/core/host_runtime.hpp"
#include "lib/device/buffer.hpp"

namespace zeropp {
namespace {

using codec::Codec;
using codec::Layout;
using codec::ReduceEncode;
using codec::WireImages;

constexpr std::size_t kValues = std::size_t{1} << 24U;

void moved(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(bytes));
}

Buffer random_memory(std::size_t n, Dtype dtype) {
  Buffer buffer = Buffer::zeros(n, dtype, MemoryKind::host);
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> tile(4099);
  for (float& value : tile) value = normal(engine);
  with_type(dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const values = buffer.view(n, dtype).as<T>();
    for (std::size_t i = 0; i < n; ++i) values[i] = saturating_cast<T>(tile[i % tile.size()]);
  });
  return buffer;
}

void copy(benchmark::State& state) {
  const Buffer from = random_memory(kValues, Dtype::fp32);
  const Buffer to = Buffer::zeros(kValues, Dtype::fp32, MemoryKind::host);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.bytes());
    benchmark::ClobberMemory();
  }
  moved(state, 2 * from.bytes());
}

void encode(benchmark::State& state, const std::string& name, Dtype memory) {
  const Codec codec(codec::parse_codec(name), memory);
  const Buffer in = random_memory(kValues, memory);
  const Buffer out = Buffer::zeros(codec.wire_bytes(kValues) / 4, Dtype::fp32, MemoryKind::host);
  for (auto _ : state) {
    codec.encode(in.view(kValues, memory), Layout::contiguous(kValues), {out.data(), 0}, {});
    benchmark::ClobberMemory();
  }
  moved(state, in.bytes() + out.bytes());
}

void decode(benchmark::State& state, const std::string& name, Dtype memory) {
  const Codec codec(codec::parse_codec(name), memory);
  const Buffer values = random_memory(kValues, memory);
  const Buffer wire = Buffer::zeros(codec.wire_bytes(kValues) / 4, Dtype::fp32, MemoryKind::host);
  codec.encode(values.view(kValues, memory), Layout::contiguous(kValues), {wire.data(), 0}, {});
  for (auto _ : state) {
    codec.decode(WireImages{wire.data(), 0}, Layout::contiguous(kValues),
                 values.view(kValues, memory), {});
    benchmark::ClobberMemory();
  }
  moved(state, values.bytes() + wire.bytes());
}

/// `images` images of kValues / images values each.
struct Images {
  Images(const Codec& codec, std::size_t images) : n(kValues / images), bytes(codec.wire_bytes(n)) {
    const Buffer values = random_memory(kValues, Dtype::fp32);
    wire = Buffer::zeros(images * bytes / 4, Dtype::fp32, MemoryKind::host);
    codec.encode(values.view(kValues, Dtype::fp32), {images, n, 1, 0, n, n}, {wire.data(), bytes},
                 {});
  }
  std::size_t n;
  std::size_t bytes;
  Buffer wire;
};

void decode_reduce(benchmark::State& state, const std::string& name, std::size_t images) {
  const Codec codec(codec::parse_codec(name), Dtype::fp32);
  const Images in(codec, images);
  const Buffer sum = Buffer::zeros(in.n, Dtype::fp32, MemoryKind::host);
  for (auto _ : state) {
    codec.decode_reduce(WireImages{in.wire.data(), in.bytes}, images, in.n, in.n,
                        reinterpret_cast<float*>(sum.data()), {});
    benchmark::ClobberMemory();
  }
  moved(state, in.wire.bytes() + sum.bytes());
}

void reduce_encode(benchmark::State& state, const std::string& from_name,
                   const std::string& to_name, std::size_t images) {
  const Codec from(codec::parse_codec(from_name), Dtype::fp32);
  const Codec to(codec::parse_codec(to_name), Dtype::fp32);
  const ReduceEncode operation(from, to);
  const Images in(from, images);
  const Buffer out = Buffer::zeros(to.wire_bytes(in.n) / 4, Dtype::fp32, MemoryKind::host);
  std::vector<float> scratch(operation.scratch_elements(1, in.n));
  for (auto _ : state) {
    operation.run(WireImages{in.wire.data(), in.bytes}, images, 1, in.n, {out.data(), 0},
                  scratch.data(), {});
    benchmark::ClobberMemory();
  }
  moved(state, in.wire.bytes() + out.bytes());
  state.SetLabel(std::string(operation.path()));
}

void register_all() {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("copy", copy);
  std::vector<std::string> names = {"bf16", "fp16"};
  for (const char* format : {"int8:", "int4:"}) {
    for (const char* block : {"32", "128", "256", "2048", "8192"}) {
      names.push_back(std::string(format) + block);
    }
  }
  for (const std::string& name : names) {
    for (const Dtype memory : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
      const std::string suffix = name + "/" + std::string(name_of(memory));
      RegisterBenchmark(("encode/" + suffix).c_str(), encode, name, memory);
      RegisterBenchmark(("decode/" + suffix).c_str(), decode, name, memory);
    }
    for (const std::size_t images : {4, 16}) {
      const std::string suffix = name + "/" + std::to_string(images);
      RegisterBenchmark(("decode_reduce/" + suffix).c_str(), decode_reduce, name, images);
    }
  }
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"int4:128", "int4:128"},
                                                        {"int8:256", "int8:256"},
                                                        {"int8:256", "int4:128"},
                                                        {"int4:128", "int8:256"}}) {
    for (const std::size_t images : {4, 16}) {
      const std::string name = "reduce_encode/" + from + "/" + to + "/" + std::to_string(images);
      RegisterBenchmark(name.c_str(), reduce_encode, from, to, images);
    }
  }
}

}  // namespace
}  // namespace zeropp

int main(int argc, char** argv) {
  const zeropp::HostRuntime runtime;
  benchmark::Initialize(&argc, argv);
  zeropp::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
