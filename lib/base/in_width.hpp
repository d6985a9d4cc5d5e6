// Numbers in the columns of a printed table.
#pragma once

#include <string>

namespace zeropp {

/// A value in `width` characters as nccl-tests shows it: two decimals, fewer of large ones.
std::string in_width(double value, int width);

}  // namespace zeropp
