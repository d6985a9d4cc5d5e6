// Broadcast: the root's buffer on every rank. There is the vendor's only.
#include "apps/sweep/entries.hpp"

namespace zeropp::sweep {

namespace {

class Native final : public VendorRun {
 public:
  Native(comm::Communicator& group, int root, std::size_t bytes)
      : VendorRun(group, bytes), root_(root) {}
  void start(ConstView in, View out, std::span<std::byte> /*none*/, StreamHandle stream) override {
    work_ = group_.native_collective({comm::NativeOp::broadcast, in, out, root_}, stream);
  }
  /// Around the ring from the root; the rank before it passes nothing on.
  [[nodiscard]] comm::Bytes volume() const override {
    const int next = (group_.rank() + 1) % group_.size();
    comm::Bytes sum;
    if (next != root_) sum.add(group_.link_to(next), bytes_);
    return sum;
  }

 private:
  int root_;
};

class Broadcast final : public Collective {
 public:
  [[nodiscard]] std::string_view name() const override { return "broadcast"; }
  [[nodiscard]] std::string_view redop() const override { return "none"; }
  [[nodiscard]] bool has_root() const override { return true; }
  [[nodiscard]] std::size_t count(std::size_t bytes, Dtype dtype,
                                  std::size_t /*ranks*/) const override {
    return bytes / size_of(dtype);
  }
  [[nodiscard]] std::size_t bytes(const Shape& shape) const override {
    return shape.count * size_of(shape.dtype);
  }
  [[nodiscard]] double bus_factor(std::size_t /*ranks*/) const override { return 1; }
  [[nodiscard]] std::vector<Algorithm> algorithms() const override {
    return {
        {.name = "native", .traits = {.any_codec = false, .modelled = true, .one_chunk = true}}};
  }
  [[nodiscard]] std::string_view preferred(bool /*levels*/) const override { return {}; }
  [[nodiscard]] Memory memory(const Shape& shape, const Variant& /*variant*/) const override {
    return {.input = shape.count,
            .filled = shape.count,
            .result = shape.count,
            .result_dtype = shape.dtype,
            .input_at = 0,
            .result_at = 0,
            // The input of the root alone counts: elsewhere it is not read.
            .replaces_input = false};
  }
  [[nodiscard]] std::unique_ptr<Planned> plan(const collective::Context& context,
                                              const Shape& shape,
                                              const Variant& /*variant*/) const override {
    return std::make_unique<Native>(context.group, shape.root, bytes(shape));
  }
  [[nodiscard]] std::size_t parts(const Shape& /*shape*/) const override { return 1; }
  [[nodiscard]] Expected expected(const Shape& shape, const Variant& variant, const Data& data,
                                  std::size_t /*part*/, std::size_t first,
                                  std::size_t length) const override {
    return expected_copy(shape, variant, data, shape.members[static_cast<std::size_t>(shape.root)],
                         first, length);
  }
};

}  // namespace

const Collective& broadcast() {
  static const Broadcast instance;
  return instance;
}

}  // namespace zeropp::sweep
