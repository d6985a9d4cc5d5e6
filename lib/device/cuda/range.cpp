#include "lib/device/range.hpp"

#include <nvtx3/nvToolsExt.h>

namespace zeropp {

Range::Range(const char* name) noexcept { nvtxRangePushA(name); }
Range::~Range() { nvtxRangePop(); }

}  // namespace zeropp
