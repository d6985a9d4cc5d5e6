// The unit that numbers of bytes are shown in: the largest of which what is shown is a tenth or
// more, so that a table of a toy is not all zeros.
#pragma once

#include <string>
#include <string_view>

namespace zeropp::plan_app {

struct ByteUnit {
  std::string_view name;
  double bytes;
};

/// GB, MB, KB or bytes. `largest`: of all that is shown in it.
ByteUnit decimal_unit(double largest);
/// GiB, MiB, KiB or bytes.
ByteUnit binary_unit(double largest);

/// Three digits after the point, and none of bytes.
std::string in_unit(double bytes, const ByteUnit& unit);

}  // namespace zeropp::plan_app
