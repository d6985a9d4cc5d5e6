// The algorithms of lib/collective's registries as those of the sweep.
#pragma once

#include <vector>

#include "apps/sweep/collective.hpp"

namespace zeropp::sweep {

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

}  // namespace zeropp::sweep
