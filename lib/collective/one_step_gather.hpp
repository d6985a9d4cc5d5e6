// All-gather in which the images of a chunk arrive by one operation of the group: a rank's own part
// is decoded while others travel, theirs once the chunk is there, while later chunks travel. Shared
// by `direct` and `native-images`, which say how a chunk travels.
#pragma once

#include "lib/collective/all_gather_base.hpp"

namespace zeropp::collective {

class OneStepGather : public AllGatherBase {
 protected:
  using AllGatherBase::AllGatherBase;
  void begin() override;
  void complete() override;

 private:
  /// Starts the transfer of slot r of every rank r to all ranks: sets the piece's work.
  virtual void start_transfer(Piece& piece) = 0;
  /// Decodes the parts of `count` ranks, from rank `first` on.
  void decode_parts(const Piece& piece, std::size_t first, std::size_t count);
};

}  // namespace zeropp::collective
