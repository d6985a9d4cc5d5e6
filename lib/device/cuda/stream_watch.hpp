// Watch that may end a host's wait for a stream: Stream::synchronize() and Event::synchronize() of
// the GPU call it again and again while the stream is busy, and what it throws ends the wait. Set
// by lib/comm/cuda: a collective that hangs, or fails elsewhere, leaves no trace in the stream
// itself. Waits inside the CUDA runtime are not watched, so that a stream that may hold collectives
// is synchronized before anything that waits there: a copy to pageable memory, say.
#pragma once

#include "lib/base/poll.hpp"

namespace zeropp {

/// `waited`: since the wait began.
using StreamWatch = void (*)(Seconds waited);

/// Sets the watch from here on; null: none.
void set_stream_watch(StreamWatch watch);

}  // namespace zeropp
