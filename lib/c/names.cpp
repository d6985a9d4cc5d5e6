// The part of the interface that says what the library has.
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <vector>

#include "kernels/codec/spec.hpp"
#include "kernels/core/memory_ops.hpp"
#include "lib/c/error_guard.hpp"
#include "lib/c/zeropp.h"
#include "lib/collective/collective.hpp"

namespace {

template <class Entries, class NameOf>
std::string joined(const Entries& entries, NameOf name_of) {
  std::vector<std::string_view> names;
  for (const auto& entry : entries) names.push_back(name_of(entry));
  return fmt::format("{}", fmt::join(names, " "));
}

struct Lists {
  std::string codecs =
      joined(zeropp::codec::formats(), [](const auto& format) { return format.name; });
  std::string all_gather = joined(zeropp::collective::all_gather_algorithms(),
                                  [](const auto* entry) { return entry->name; });
  std::string reduce_scatter = joined(zeropp::collective::reduce_scatter_algorithms(),
                                      [](const auto* entry) { return entry->name; });
  std::string devices = zeropp::cuda_memory_ops() == nullptr ? "host" : "host cuda";
};

const char* find(const char* kind) {
  static const Lists lists;
  const std::string_view wanted = kind == nullptr ? "" : kind;
  if (wanted == "codecs") return lists.codecs.c_str();
  if (wanted == "all_gather") return lists.all_gather.c_str();
  if (wanted == "reduce_scatter") return lists.reduce_scatter.c_str();
  if (wanted == "devices") return lists.devices.c_str();
  return nullptr;
}

}  // namespace

const char* zpp_names(const char* kind) {
  const char* names = nullptr;
  (void)zeropp::c::guarded([&] { names = find(kind); });
  return names;
}

int zpp_abi_version(void) { return ZPP_ABI_VERSION; }
const char* zpp_version(void) { return ZEROPP_VERSION; }
const char* zpp_last_error(void) { return zeropp::c::last_error(); }
