// The message patterns that the algorithms share, over equal pieces of memory. Each returns the
// transfer in flight; bytes go to the meter.
#pragma once

#include <cstddef>
#include <memory>

#include "lib/collective/collective.hpp"
#include "lib/collective/meter.hpp"
#include "lib/comm/communicator.hpp"

namespace zeropp::collective {

/// Piece p of `out` goes to rank p, piece p of `in` comes from rank p, the own piece included.
std::unique_ptr<comm::Work> exchange_pieces(Meter& meter, comm::Communicator& group,
                                            const std::byte* out, std::byte* in, std::size_t bytes,
                                            StreamHandle stream);

/// Piece `rank` of `pieces` goes to every other rank; piece p, which begins p * `stride` behind the
/// first, comes from rank p.
std::unique_ptr<comm::Work> share_piece(Meter& meter, comm::Communicator& group, std::byte* pieces,
                                        std::size_t stride, std::size_t bytes, StreamHandle stream);

/// Starts one step of a ring: `out` goes to the next rank, `in` comes from the one before.
std::unique_ptr<comm::Work> ring_step(Meter& meter, comm::Communicator& group, const std::byte* out,
                                      std::byte* in, std::size_t bytes, StreamHandle stream);

}  // namespace zeropp::collective
