// The vendor's own collectives: one operation of the communicator each, without workspace unless a
// class says otherwise. Their bytes are modelled.
#pragma once

#include <cstddef>
#include <memory>

#include "apps/sweep/collective.hpp"
#include "lib/comm/communicator.hpp"

namespace zeropp::sweep {

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

}  // namespace zeropp::sweep
