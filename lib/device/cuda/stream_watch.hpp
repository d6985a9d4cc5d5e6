// Who else may end a host's wait for a stream: Stream::synchronize() of the GPU calls the watch
// again and again while the stream is busy, and what the watch throws ends the wait. Set by
// lib/comm/cuda: a collective that hangs, or fails elsewhere, leaves no trace in the stream itself.
#pragma once

#include "lib/base/poll.hpp"

namespace zeropp {

/// `waited`: since the wait began.
using StreamWatch = void (*)(Seconds waited);

/// From here on; null: none.
void set_stream_watch(StreamWatch watch);

}  // namespace zeropp
