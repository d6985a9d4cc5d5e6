// All-gather: every rank's part -> all parts on every rank. The vendor's is called as it is; the
// others come from the registry.
#include "apps/sweep/entries.hpp"

namespace zeropp::sweep {

namespace {

class Native final : public VendorRun {
 public:
  Native(comm::Communicator& group, std::size_t part_bytes) : VendorRun(group, part_bytes) {}
  void start(ConstView in, View out, std::span<std::byte> /*none*/, StreamHandle stream) override {
    work_ = group_.native_collective({comm::NativeOp::all_gather, in, out}, stream);
  }
  [[nodiscard]] comm::Bytes volume() const override {
    return collective::bytes_along_ring(group_.shape(), bytes_);
  }
};

class AllGather final : public Collective {
 public:
  [[nodiscard]] std::string_view name() const override { return "all_gather"; }
  [[nodiscard]] std::string_view redop() const override { return "none"; }
  [[nodiscard]] std::vector<Algorithm> algorithms() const override {
    return registered(collective::all_gather_algorithms());
  }
  [[nodiscard]] std::string_view preferred(bool levels) const override {
    return levels ? "two-level" : "direct";
  }
  [[nodiscard]] Memory memory(const Shape& shape, const Variant& variant) const override {
    return {.input = shape.count,
            .filled = shape.count,
            .result = shape.ranks() * shape.count,
            .result_dtype = shape.dtype,
            .input_at = static_cast<std::size_t>(shape.rank) * shape.count * size_of(shape.dtype),
            .result_at = 0,
            .replaces_input = !variant.is_lossless()};
  }
  [[nodiscard]] std::unique_ptr<Planned> plan(const collective::Context& context,
                                              const Shape& shape,
                                              const Variant& variant) const override {
    if (variant.is_vendors()) {
      return std::make_unique<Native>(context.group, shape.count * size_of(shape.dtype));
    }
    return std::make_unique<RegisteredRun<collective::AllGather>>(
        collective::plan_all_gather(variant.algorithm, context,
                                    {.parts = collective::Parts::dense(shape.count),
                                     .memory = shape.dtype,
                                     .codec = variant.codec,
                                     .depth = variant.depth,
                                     .purpose = "sweep"}));
  }
  [[nodiscard]] std::size_t parts(const Shape& shape) const override { return shape.ranks(); }
  [[nodiscard]] Expected expected(const Shape& shape, const Variant& variant, const Data& data,
                                  std::size_t part, std::size_t first,
                                  std::size_t length) const override {
    return expected_copy(shape, variant, data, shape.members[part], first, length);
  }
};

}  // namespace

const Collective& all_gather() {
  static const AllGather instance;
  return instance;
}

}  // namespace zeropp::sweep
