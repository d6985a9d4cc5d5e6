// The GPU that a thread computes on, for libraries whose caller has chosen it.
#pragma once

namespace zeropp {

/// GPU of the calling thread, as an index of visible_gpus(). Throws Error(environment) where there
/// is none.
int current_gpu();

}  // namespace zeropp
