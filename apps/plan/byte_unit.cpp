#include "apps/plan/byte_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/units.hpp"

namespace zeropp::plan_app {

namespace {

constexpr ByteUnit kBytes{"bytes", 1};

ByteUnit unit_of(const std::array<ByteUnit, 3>& units, double largest) {
  const auto* const found = std::ranges::find_if(
      units, [&](const ByteUnit& unit) { return largest >= 0.1 * unit.bytes; });
  return found == units.end() ? kBytes : *found;
}

}  // namespace

ByteUnit decimal_unit(double largest) {
  return unit_of({{{"GB", kGiga}, {"MB", kMega}, {"KB", 1e3}}}, largest);
}

ByteUnit binary_unit(double largest) {
  return unit_of({{{"GiB", kGibibyte}, {"MiB", kMebibyte}, {"KiB", 1024}}}, largest);
}

std::string in_unit(double bytes, const ByteUnit& unit) {
  return fmt::format("{:.{}f}", bytes / unit.bytes, unit.bytes > 1 ? 3 : 0);
}

}  // namespace zeropp::plan_app
