#include "lib/collective/one_step_gather.hpp"

namespace zeropp::collective {

void OneStepGather::begin() {
  for (Piece& piece : pieces_) {
    encode(piece);
    start_transfer(piece);
  }
  // While others travel, and after every encoding: the result may lie over the part.
  for (const Piece& piece : pieces_) decode_parts(piece, rank(), 1);
}

void OneStepGather::complete() {
  for (Piece& piece : pieces_) {
    meter_.wait(piece.work, stream_);
    decode_parts(piece, 0, rank());
    decode_parts(piece, rank() + 1, size() - rank() - 1);
  }
}

void OneStepGather::decode_parts(const Piece& piece, std::size_t first, std::size_t count) {
  if (count > 0) decode(piece, first, count, first, 1);
}

}  // namespace zeropp::collective
