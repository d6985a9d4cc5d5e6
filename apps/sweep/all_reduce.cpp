// All-reduce: the sum over ranks of everybody's buffer, on every rank. The vendor's; and one for
// every registered reduce-scatter, which names it, followed by the all-gather of the same shape
// with the same codec.
#include "lib/collective/all_reduce.hpp"

#include "apps/sweep/entries.hpp"
#include "lib/base/checked.hpp"

namespace zeropp::sweep {

namespace {

class Native final : public VendorRun {
 public:
  Native(comm::Communicator& group, std::size_t bytes) : VendorRun(group, bytes) {}
  void start(ConstView in, View out, std::span<std::byte> /*none*/, StreamHandle stream) override {
    work_ = group_.native_collective({comm::NativeOp::all_reduce, in, out}, stream);
  }
  [[nodiscard]] comm::Bytes volume() const override {
    const std::size_t part = ceil_div(bytes_, static_cast<std::size_t>(group_.size()));
    return collective::bytes_along_ring(group_.shape(), 2 * part);
  }
};

/// The gather after a reduce-scatter.
std::string_view gather_of(const Variant& variant) {
  if (collective::find_reduce_scatter(variant.algorithm).traits.hierarchical) return "two-level";
  return variant.algorithm == "flat" ? "flat" : "direct";
}

/// The gather takes fp32 sums: without a codec they travel in the shape's dtype.
codec::CodecSpec gather_codec(const Shape& shape, const Variant& variant) {
  if (!variant.is_lossless() || shape.dtype == Dtype::fp32) return variant.codec;
  return codec::parse_codec(name_of(shape.dtype));
}

class AllReduce final : public Collective {
 public:
  [[nodiscard]] std::string_view name() const override { return "all_reduce"; }
  [[nodiscard]] std::string_view redop() const override { return "sum"; }
  [[nodiscard]] std::size_t count(std::size_t bytes, Dtype dtype,
                                  std::size_t /*ranks*/) const override {
    return bytes / size_of(dtype);
  }
  [[nodiscard]] std::size_t bytes(const Shape& shape) const override {
    return shape.count * size_of(shape.dtype);
  }
  [[nodiscard]] double bus_factor(std::size_t ranks) const override {
    return 2 * Collective::bus_factor(ranks);
  }
  [[nodiscard]] std::vector<Algorithm> algorithms() const override {
    return registered(collective::reduce_scatter_algorithms());
  }
  [[nodiscard]] std::string_view preferred(bool levels) const override {
    return levels ? "2-hop" : "1-hop";
  }
  [[nodiscard]] Memory memory(const Shape& shape, const Variant& variant) const override {
    const std::size_t all = variant.is_vendors() ? shape.count : shape.ranks() * part_stride(shape);
    return {.input = all,
            .filled = shape.count,
            .result = all,
            .result_dtype = shape.dtype,
            .input_at = 0,
            .result_at = 0,
            .replaces_input = true};
  }
  [[nodiscard]] std::unique_ptr<Planned> plan(const collective::Context& context,
                                              const Shape& shape,
                                              const Variant& variant) const override {
    if (variant.is_vendors()) return std::make_unique<Native>(context.group, bytes(shape));
    const auto parts = collective::Parts::dense(part_stride(shape));
    return std::make_unique<RegisteredRun<collective::AllReduce>>(
        std::make_unique<collective::AllReduce>(
            collective::plan_reduce_scatter(variant.algorithm, context,
                                            {.parts = parts,
                                             .memory = shape.dtype,
                                             .plain = shape.dtype,
                                             .codec_first = variant.codec,
                                             .codec_second = variant.codec,
                                             .depth = variant.depth,
                                             .purpose = "sweep"}),
            collective::plan_all_gather(gather_of(variant), context,
                                        {.parts = parts,
                                         .memory = Dtype::fp32,
                                         .codec = gather_codec(shape, variant),
                                         .depth = variant.depth,
                                         .purpose = "sweep",
                                         .result = shape.dtype}),
            parts.count));
  }
  [[nodiscard]] std::size_t parts(const Shape& shape) const override { return shape.ranks(); }
  [[nodiscard]] std::size_t part_stride(const Shape& shape) const override {
    return ceil_div(shape.count, shape.ranks());
  }
  [[nodiscard]] std::size_t part_length(const Shape& shape, std::size_t part) const override {
    const std::size_t begin = std::min(shape.count, part * part_stride(shape));
    return std::min(shape.count - begin, part_stride(shape));
  }
  [[nodiscard]] Expected expected(const Shape& shape, const Variant& variant, const Data& data,
                                  std::size_t part, std::size_t first,
                                  std::size_t length) const override {
    const auto all = slices(shape, data, part * part_stride(shape) + first, length);
    Expected expected{reduction(shape, variant).exact(all), {}};
    if (!variant.is_lossless()) {
      expected.bound =
          collective::through(gather_codec(shape, variant), Dtype::fp32,
                              reduction(shape, variant).sum(static_cast<int>(part), all))
              .bound;
    }
    return expected;
  }
};

}  // namespace

const Collective& all_reduce() {
  static const AllReduce instance;
  return instance;
}

}  // namespace zeropp::sweep
