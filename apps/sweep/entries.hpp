// The collectives of the table, one a file, and what their files share: runs of the vendor's
// collectives and of lib/collective's, and the sums.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "apps/sweep/collective.hpp"
#include "lib/comm/communicator.hpp"

namespace zeropp::sweep {

const Collective& all_gather();
const Collective& reduce_scatter();
const Collective& all_reduce();
const Collective& all_to_all();
const Collective& broadcast();

/// Run of the vendor's own collective: one operation of the communicator, without workspace unless
/// a class says otherwise. Its bytes are modelled.
class VendorRun : public Planned {
 public:
  void finish(StreamHandle stream) override {
    work_->wait(stream);
    work_.reset();
  }
  [[nodiscard]] std::size_t workspace_bytes() const override { return 0; }

 protected:
  /// `bytes`: of a part, or of the buffer where there are no parts.
  VendorRun(comm::Communicator& group, std::size_t bytes) : group_(group), bytes_(bytes) {}

  comm::Communicator& group_;
  std::size_t bytes_;
  std::unique_ptr<comm::Work> work_;  ///< set by start()
};

/// The algorithms of one of lib/collective's registries as those of the sweep.
template <class Entry>
std::vector<Algorithm> registered(const std::vector<const Entry*>& entries) {
  std::vector<Algorithm> all;
  all.reserve(entries.size());
  for (const Entry* entry : entries) {
    all.push_back({std::string(entry->name), entry->traits});
  }
  return all;
}

/// A planned algorithm of the registry.
template <class Interface>
class RegisteredRun final : public Planned {
 public:
  explicit RegisteredRun(std::unique_ptr<Interface> run) : run_(std::move(run)) {}
  void start(ConstView in, View out, std::span<std::byte> workspace, StreamHandle stream) override {
    run_->start(in, out, {workspace, stream});
  }
  void finish(StreamHandle stream) override { run_->finish(stream); }
  [[nodiscard]] std::size_t workspace_bytes() const override { return run_->workspace_bytes(); }
  [[nodiscard]] comm::Bytes volume() const override { return run_->volume(); }

 private:
  std::unique_ptr<Interface> run_;
};

/// Reduction with one codec on every hop.
inline collective::Reduction reduction(const Shape& shape, const Variant& variant) {
  return {variant.algorithm, shape.topology, shape.dtype, variant.codec, variant.codec};
}

/// Elements [first, first + length) of everybody's buffer.
inline collective::Slices slices(const Shape& shape, const Data& data, std::size_t first,
                                 std::size_t length) {
  return [&shape, &data, first, length](int source) {
    std::vector<float> values(length);
    data.values(shape.members[static_cast<std::size_t>(source)], first, values);
    return collective::Estimate::exact(std::move(values));
  };
}

}  // namespace zeropp::sweep
