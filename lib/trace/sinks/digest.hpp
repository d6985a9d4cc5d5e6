// Digest of a trace's values: damage that HDF5's own checksums do not see, and changes by other
// programs, are found. The order of its parts does not depend on that of the document, so that a
// reader makes the same from the file (validation/zpp_validate/readers/trace_digest.py).
#pragma once

#include <string>

#include "lib/trace/document.hpp"

namespace zeropp::trace {

/// Attribute of the root that holds the digest.
inline constexpr const char* digest_name = "sha256";

/// SHA-256, in hexadecimal, over all attributes and columns in the order of their names:
/// `@ATTRIBUTE` of the root, `GROUP@ATTRIBUTE`, `GROUP/COLUMN` and its `GROUP/COLUMN@units` and
/// `@description`. Each contributes its name, a zero byte, f (real), u (unsigned) or S (text), the
/// number of values, a zero byte, and the values: numbers in 8 bytes, little-endian, texts with a
/// zero byte after each.
std::string digest_of(const Document& document);

}  // namespace zeropp::trace
