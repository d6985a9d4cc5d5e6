// The bytes of each kind of memory that an engine holds, beside what closed forms predict.
#pragma once

#include <vector>

#include "lib/zero/engine/codec_controller.hpp"
#include "lib/zero/engine/engine_context.hpp"
#include "lib/zero/engine/rank_memory.hpp"
#include "lib/zero/engine/rank_optimizer.hpp"
#include "lib/zero/engine/step_guard.hpp"

namespace zeropp::zero {

/// The engine's state, kept images of weights, what error feedback, adaptive bits and the error
/// meter keep, the guard's where there is one, the arena, and the model's own memory. Throws
/// std::logic_error where the engine holds state of a name that state_memory() does not predict.
std::vector<MemoryReport> memory_report(const EngineContext& context, const RankMemory& memory,
                                        const RankOptimizer& optimizer,
                                        const CodecController& codecs, const StepGuard* guard);

}  // namespace zeropp::zero
