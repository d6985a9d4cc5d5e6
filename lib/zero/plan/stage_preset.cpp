#include <string>

#include "lib/base/error.hpp"
#include "lib/zero/plan/schedule.hpp"

namespace zeropp::zero {

StagePreset stage_preset(int stage) {
  switch (stage) {
    case 0:
      return {false, false, false};
    case 1:
      return {true, false, false};
    case 2:
      return {true, true, false};
    case 3:
      return {true, true, true};
    default:
      break;
  }
  throw Error(ExitCode::usage,
              "ZeRO stage " + std::to_string(stage) + " does not exist: use 0, 1, 2 or 3");
}

bool is_refreshed(const StagePreset& preset, const UnitPartition& unit) {
  return preset.shard_optimizer && (!preset.shard_parameters || unit.persistent);
}

}  // namespace zeropp::zero
