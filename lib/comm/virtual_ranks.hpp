// Virtual ranks: threads of one process that train as ranks of a job would, one at a time
// (turns.hpp), on one machine and one GPU. They compute what real ranks compute, encode, and count
// bytes like them; a message is a copy in memory. So a run has the bits of a deterministic run on
// as many real ranks; its times are those of no machine.
#pragma once

#include <functional>
#include <memory>

#include "lib/comm/turns.hpp"
#include "lib/comm/world.hpp"

namespace zeropp::comm {

class VirtualMail;

class VirtualRanks {
 public:
  explicit VirtualRanks(int count);
  ~VirtualRanks();
  VirtualRanks(const VirtualRanks&) = delete;
  VirtualRanks& operator=(const VirtualRanks&) = delete;

  /// Runs `body` as every rank, each with its own view of a world whose groups move data by
  /// Transport::memory. The first exception of a rank ends the others and is thrown here.
  void run(const std::function<void(World&)>& body);

 private:
  int count_;
  Turns turns_;
  std::unique_ptr<VirtualMail> mail_;
};

}  // namespace zeropp::comm
