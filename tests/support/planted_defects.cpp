// Defects of the programs defective_*: ZEROPP_DEFECT names them, separated by commas.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

#include "lib/base/defect.hpp"
#include "lib/base/error.hpp"

namespace zeropp::defect {
namespace {

constexpr std::array<std::string_view, 10> kNames{
    "gradient_scaled", "secondary_stale", "bf16_as_fp16", "nan_planted", "feedback_reset",
    "loss_scale_late", "nan_dropped",     "step_padded",  "step_slower", "escape_lost"};

unsigned read() {
  const char* const variable = std::getenv("ZEROPP_DEFECT");
  std::string_view left = variable ? variable : "";
  unsigned found = 0;
  while (!left.empty()) {
    const std::string_view name = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), name.size() + 1));
    std::size_t kind = 0;
    while (kind < kNames.size() && kNames[kind] != name) ++kind;
    if (kind == kNames.size()) {
      throw Error(ExitCode::usage, "ZEROPP_DEFECT names no defect: " + std::string(name) +
                                       ": see tests/support/planted_defects.cpp");
    }
    found |= 1U << kind;
  }
  return found;
}

}  // namespace

bool planted(Kind kind) {
  static const unsigned found = read();
  return ((found >> static_cast<unsigned>(kind)) & 1U) != 0;
}

}  // namespace zeropp::defect
