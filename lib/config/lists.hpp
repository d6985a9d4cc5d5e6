// Values of an option that are several, with commas between them.
#pragma once

#include <string>
#include <vector>

#include "kernels/codec/spec.hpp"

namespace zeropp::config {

/// "a,b" -> a, b. Throws Error(usage) that begins with `flag` for an empty entry and for one that
/// comes twice.
std::vector<std::string> list_of(const std::string& text, const char* flag);

/// The codecs of such a list. Throws Error(usage) for what is no codec, too.
std::vector<codec::CodecSpec> codecs_of(const std::string& text, const char* flag);

}  // namespace zeropp::config
