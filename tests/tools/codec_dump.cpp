// Runs one codec operation on files, so that scripts can compare bytes:
//   codec_dump encode        CODEC DTYPE IN OUT KEY FIRST values -> one wire image; draws: of KEY,
//                                                         numbered from FIRST on
//   codec_dump decode        CODEC DTYPE N IN OUT         one wire image of N values -> values
//   codec_dump decode_reduce CODEC DTYPE N IMAGES IN OUT  images in a row -> fp32 sums
//   codec_dump reduce_encode FROM TO N IMAGES IN OUT      images of FROM -> one of TO (fp32 memory)
//   codec_dump formats                                    names, smallest and largest blocks
//   codec_dump serve                                      such lines from standard input, words
//   between tabs,
//                                                         one after the other; "done" after each
// DTYPE is the memory dtype: fp32, bf16, fp16. Files are raw little-endian arrays.
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/codec/codec.hpp"
#include "kernels/core/host_runtime.hpp"
#include "lib/device/buffer.hpp"

namespace {

using namespace zeropp;
using codec::Codec;
using codec::Layout;
using codec::WireImages;

Buffer read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::runtime_error("cannot read " + path);
  Buffer buffer(bytes.size(), MemoryKind::host);
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(buffer.data()));
  return buffer;
}

void write(const std::string& path, const Buffer& buffer) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(buffer.data()),
             static_cast<std::streamsize>(buffer.bytes()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

Dtype dtype_named(const std::string& name) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    if (name_of(dtype) == name) return dtype;
  }
  throw std::runtime_error("unknown dtype " + name);
}

Codec bind(const std::string& name, Dtype memory) { return {codec::parse_codec(name), memory}; }

void run(std::span<const std::string> args) {
  const std::string& operation = args[0];
  if (operation == "formats") {
    for (const auto& info : codec::formats()) {
      std::cout << info.name << " " << info.minimum_block << " " << info.maximum_block << "\n";
    }
  } else if (operation == "encode") {
    const Dtype dtype = dtype_named(args[2]);
    const Codec codec = bind(args[1], dtype);
    const Buffer in = read(args[3]);
    const std::size_t n = in.bytes() / size_of(dtype);
    Buffer out(codec.wire_bytes(n), MemoryKind::host);
    codec.encode({in.data(), n, dtype}, Layout::contiguous(n), {out.data(), 0}, {},
                 {.key = std::stoull(args[5]), .first = std::stoull(args[6])});
    write(args[4], out);
  } else if (operation == "decode") {
    const Dtype dtype = dtype_named(args[2]);
    const std::size_t n = std::stoul(args[3]);
    Buffer in = read(args[4]);
    Buffer out(n * size_of(dtype), MemoryKind::host);
    bind(args[1], dtype)
        .decode(WireImages{in.data(), 0}, Layout::contiguous(n), {out.data(), n, dtype}, {});
    write(args[5], out);
  } else if (operation == "decode_reduce") {
    const Codec codec = bind(args[1], dtype_named(args[2]));
    const std::size_t n = std::stoul(args[3]);
    Buffer in = read(args[5]);
    Buffer out(n * sizeof(float), MemoryKind::host);
    codec.decode_reduce(WireImages{in.data(), codec.wire_bytes(n)}, std::stoul(args[4]), n, n,
                        reinterpret_cast<float*>(out.data()), {});
    write(args[6], out);
  } else if (operation == "reduce_encode") {
    const Codec from = bind(args[1], Dtype::fp32);
    const Codec to = bind(args[2], Dtype::fp32);
    const std::size_t n = std::stoul(args[3]);
    Buffer in = read(args[5]);
    const codec::ReduceEncode operation_pair(from, to);
    std::vector<float> scratch(operation_pair.scratch_elements(1, n));
    Buffer out(to.wire_bytes(n), MemoryKind::host);
    operation_pair.run(WireImages{in.data(), from.wire_bytes(n)}, std::stoul(args[4]), 1, n,
                       {out.data(), 0}, scratch.data(), {});
    write(args[6], out);
  } else {
    throw std::runtime_error("unknown operation " + operation);
  }
}

/// A process for each of thousands of operations would take most of the time.
void serve() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::vector<std::string> args;
    for (std::string word; std::getline(words, word, '\t');) args.push_back(word);
    run(args);
    std::cout << "done" << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const HostRuntime runtime;
  const std::vector<std::string> args(argv + 1, argv + argc);
  try {
    if (args == std::vector<std::string>{"serve"}) {
      serve();
    } else {
      run(args);
    }
  } catch (const std::exception& error) {
    std::cerr << "codec_dump: error: " << error.what() << "\n";
    return 2;
  }
}
