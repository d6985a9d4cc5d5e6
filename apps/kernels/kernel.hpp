// A kernel that is measured: its arrays, what it does on them, the work that it declares, and how
// its result is checked. A file of this folder defines kernels, each a constant Kernel that
// entries.hpp declares and kernels.cpp lists.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/kernels/operands.hpp"
#include "apps/kernels/values.hpp"
#include "kernels/codec/spec.hpp"
#include "lib/device/compute_device.hpp"

namespace zeropp::kernels {

/// Units that do the operations: fp32 units, or the units for products of bf16 (tensor cores).
enum class Arithmetic { fp32, bf16 };

/// Work that one run has to do.
struct Work {
  double read = 0;        ///< bytes: every input once
  double written = 0;     ///< bytes: every output once
  double operations = 0;  ///< additions and multiplications; a fused one is two
  Arithmetic arithmetic = Arithmetic::fp32;

  [[nodiscard]] double moved() const { return read + written; }
};

/// Function that enqueues one run on the stream.
using Call = std::function<void(StreamHandle)>;

/// A kernel at one size, ready for the arrays to be made.
struct Problem {
  Work work;
  std::vector<Array> arrays = {};
  /// Binds one set of arrays; what the call needs beside them it owns. May enqueue work that
  /// prepares the set.
  std::function<Call(const Set&, const ComputeDevice&, StreamHandle)> bind;
  /// Judges the arrays after one run: what is wrong with them, or nothing. Poison (NaN) that is
  /// left in a result is wrong.
  std::function<std::string(const Results&)> check;
  std::string path = {};  ///< of several implementations, the one that runs; empty: there is one
};

/// A row: names, and the problem, which is made when its turn has come.
struct Case {
  std::string kernel;
  std::string variant;  ///< codec, or what is computed beside; "-": there is one
  std::string dtype;
  std::string shape;
  std::function<Problem(const ComputeDevice&)> make;

  /// "encode/int8:256/fp32/16777216"
  [[nodiscard]] std::string name() const {
    return kernel + '/' + variant + '/' + dtype + '/' + shape;
  }
};

/// Tokens in sequences through a block of a GPT.
struct BlockShape {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::size_t hidden = 0;
  std::size_t heads = 0;

  [[nodiscard]] std::size_t rows() const { return sequences * length; }
};

/// Choice of what is measured: what was asked for, decided.
struct Choice {
  Backend backend = Backend::host;
  std::vector<codec::CodecSpec> codecs;
  std::vector<Dtype> dtypes;
  std::vector<std::size_t> images;  ///< of which sums are taken
  std::size_t values = 0;           ///< of a kernel on a flat array
  std::vector<BlockShape> shapes;
  std::size_t vocab = 0;
  Source source{1};
};

struct Kernel {
  std::string_view name;
  std::string_view summary;
  /// All rows of the choice; none where the kernel does not have its dtypes.
  std::vector<Case> (*cases)(const Choice&);
};

}  // namespace zeropp::kernels
