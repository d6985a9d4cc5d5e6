#include "kernels/codec/registry.hpp"

#include <algorithm>
#include <vector>

namespace zeropp::codec {

// Each is defined in a source generated from host_format.cpp.in.
#define ZEROPP_ENTRY(name)                \
  namespace format::name {                \
  const FormatEntry& registered_format(); \
  }
#include "codec_formats.inc"
#undef ZEROPP_ENTRY

namespace {

const std::vector<const FormatEntry*>& entries() {
  static const std::vector<const FormatEntry*> list = [] {
    std::vector<const FormatEntry*> found = {
#define ZEROPP_ENTRY(name) &format::name::registered_format(),
#include "codec_formats.inc"
#undef ZEROPP_ENTRY
    };
    std::ranges::sort(found, {}, [](const FormatEntry* entry) { return entry->info.name; });
    return found;
  }();
  return list;
}

}  // namespace

const std::vector<FormatInfo>& formats() {
  static const std::vector<FormatInfo> list = [] {
    std::vector<FormatInfo> infos;
    for (const FormatEntry* entry : entries()) infos.push_back(entry->info);
    return infos;
  }();
  return list;
}

const FormatInfo* find_info(std::string_view name) {
  const FormatEntry* const entry = find_format(name);
  return entry == nullptr ? nullptr : &entry->info;
}

const FormatEntry* find_format(std::string_view name) {
  const auto found =
      std::ranges::find(entries(), name, [](const FormatEntry* entry) { return entry->info.name; });
  return found == entries().end() ? nullptr : *found;
}

}  // namespace zeropp::codec
