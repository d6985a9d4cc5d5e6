// Reduce-scatter: the sum over ranks of part r of everybody's buffer, on rank r. The vendor's gives
// the input's dtype, those of the registry give fp32.
#include "apps/sweep/entries.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::sweep {

namespace {

/// Reduce-scatter of the vendor. NCCL runs in place as it lies. MPI leaves a result in place at the
/// begin of the buffer, not in the own part: there it is made aside and copied, in the time of the
/// run.
class Native final : public VendorRun {
 public:
  Native(const collective::Context& context, std::size_t part_bytes)
      : VendorRun(context.group, part_bytes),
        runtime_(*context.device.runtime),
        takes_overlap_(context.groups.waits_on_stream) {}
  void start(ConstView in, View out, std::span<std::byte> workspace, StreamHandle stream) override {
    const auto* const begin = static_cast<const std::byte*>(in.data);
    const auto* const result = static_cast<const std::byte*>(out.data);
    aside_ = !takes_overlap_ && result >= begin && result < begin + in.bytes();
    out_ = out;
    made_ = aside_ ? View(workspace.data(), out.count, out.dtype, out.kind) : out;
    work_ = group_.native_collective({comm::NativeOp::reduce_scatter, in, made_}, stream);
  }
  void finish(StreamHandle stream) override {
    VendorRun::finish(stream);
    if (!aside_) return;
    Stream::borrow(runtime_, stream)
        .copy(static_cast<std::byte*>(out_.data), static_cast<const std::byte*>(made_.data),
              made_.bytes());
  }
  [[nodiscard]] std::size_t workspace_bytes() const override { return takes_overlap_ ? 0 : bytes_; }
  [[nodiscard]] comm::Bytes volume() const override {
    return collective::bytes_along_ring(group_.shape(), bytes_);
  }

 private:
  const Runtime& runtime_;
  bool takes_overlap_;
  bool aside_ = false;
  View out_;
  View made_;
};

class ReduceScatter final : public Collective {
 public:
  [[nodiscard]] std::string_view name() const override { return "reduce_scatter"; }
  [[nodiscard]] std::string_view redop() const override { return "sum"; }
  [[nodiscard]] std::vector<Algorithm> algorithms() const override {
    return registered(collective::reduce_scatter_algorithms());
  }
  [[nodiscard]] std::string_view preferred(bool levels) const override {
    return levels ? "2-hop" : "1-hop";
  }
  [[nodiscard]] Memory memory(const Shape& shape, const Variant& variant) const override {
    const Dtype result = variant.is_vendors() ? shape.dtype : Dtype::fp32;
    const std::size_t all = shape.ranks() * shape.count;
    // fp32 sums of a 16-bit buffer are wider than a part: they lie over its begin.
    const bool own_place = result == shape.dtype;
    return {.input = all,
            .filled = all,
            .result = shape.count,
            .result_dtype = result,
            .input_at = 0,
            .result_at = own_place ? static_cast<std::size_t>(shape.rank) * shape.count *
                                         size_of(shape.dtype)
                                   : 0,
            .replaces_input = true};
  }
  [[nodiscard]] std::unique_ptr<Planned> plan(const collective::Context& context,
                                              const Shape& shape,
                                              const Variant& variant) const override {
    if (variant.is_vendors()) {
      return std::make_unique<Native>(context, shape.count * size_of(shape.dtype));
    }
    return std::make_unique<RegisteredRun<collective::ReduceScatter>>(
        collective::plan_reduce_scatter(variant.algorithm, context,
                                        {.parts = collective::Parts::dense(shape.count),
                                         .memory = shape.dtype,
                                         .plain = shape.dtype,
                                         .codec_first = variant.codec,
                                         .codec_second = variant.codec,
                                         .depth = variant.depth,
                                         .purpose = "sweep"}));
  }
  [[nodiscard]] std::size_t parts(const Shape& /*shape*/) const override { return 1; }
  [[nodiscard]] Expected expected(const Shape& shape, const Variant& variant, const Data& data,
                                  std::size_t /*part*/, std::size_t first,
                                  std::size_t length) const override {
    const auto all =
        slices(shape, data, static_cast<std::size_t>(shape.rank) * shape.count + first, length);
    Expected expected{reduction(shape, variant).exact(all), {}};
    if (!variant.is_lossless())
      expected.bound = reduction(shape, variant).sum(shape.rank, all).bound;
    return expected;
  }
};

}  // namespace

const Collective& reduce_scatter() {
  static const ReduceScatter instance;
  return instance;
}

}  // namespace zeropp::sweep
