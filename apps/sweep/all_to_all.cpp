// All-to-all: part p of rank r becomes part r of rank p.
#include "lib/collective/all_to_all.hpp"

#include "apps/sweep/entries.hpp"
#include "lib/device/stream.hpp"

namespace zeropp::sweep {

namespace {

/// All-to-all of the vendor. No vendor exchanges parts in place: the input is copied aside, in the
/// time of the run.
class Native final : public VendorRun {
 public:
  Native(const collective::Context& context, std::size_t part_bytes)
      : VendorRun(context.group, part_bytes), runtime_(*context.device.runtime) {}
  void start(ConstView in, View out, std::span<std::byte> workspace, StreamHandle stream) override {
    if (in.data == out.data) {
      Stream::borrow(runtime_, stream)
          .copy(workspace.data(), static_cast<const std::byte*>(in.data), in.bytes());
      in.data = workspace.data();
    }
    work_ = group_.native_collective({comm::NativeOp::all_to_all, in, out}, stream);
  }
  [[nodiscard]] std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(group_.size()) * bytes_;
  }
  [[nodiscard]] comm::Bytes volume() const override {
    return collective::bytes_to_others(group_.shape(), bytes_);
  }

 private:
  const Runtime& runtime_;
};

class AllToAll final : public Collective {
 public:
  [[nodiscard]] std::string_view name() const override { return "all_to_all"; }
  [[nodiscard]] std::string_view redop() const override { return "none"; }
  [[nodiscard]] std::vector<Algorithm> algorithms() const override {
    return {
        {.name = "direct"},
        {.name = "native", .traits = {.any_codec = false, .modelled = true, .one_chunk = true}}};
  }
  [[nodiscard]] std::string_view preferred(bool /*levels*/) const override { return "direct"; }
  [[nodiscard]] Memory memory(const Shape& shape, const Variant& /*variant*/) const override {
    const std::size_t all = shape.ranks() * shape.count;
    return {.input = all,
            .filled = all,
            .result = all,
            .result_dtype = shape.dtype,
            .input_at = 0,
            .result_at = 0,
            .replaces_input = true};
  }
  [[nodiscard]] std::unique_ptr<Planned> plan(const collective::Context& context,
                                              const Shape& shape,
                                              const Variant& variant) const override {
    if (variant.is_vendors()) {
      return std::make_unique<Native>(context, shape.count * size_of(shape.dtype));
    }
    return std::make_unique<RegisteredRun<collective::AllToAll>>(
        std::make_unique<collective::AllToAll>(
            context, collective::AllToAllPlan{.parts = collective::Parts::dense(shape.count),
                                              .memory = shape.dtype,
                                              .codec = variant.codec,
                                              .depth = variant.depth,
                                              .purpose = "sweep"}));
  }
  [[nodiscard]] std::size_t parts(const Shape& shape) const override { return shape.ranks(); }
  [[nodiscard]] Expected expected(const Shape& shape, const Variant& variant, const Data& data,
                                  std::size_t part, std::size_t first,
                                  std::size_t length) const override {
    return expected_copy(shape, variant, data, shape.members[part],
                         static_cast<std::size_t>(shape.rank) * shape.count + first, length);
  }
};

}  // namespace

const Collective& all_to_all() {
  static const AllToAll instance;
  return instance;
}

}  // namespace zeropp::sweep
