#include "lib/trace/sinks/digest.hpp"

#include <bit>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <type_traits>

#include "lib/base/sha256.hpp"

namespace zeropp::trace {
namespace {

using namespace std::string_view_literals;

static_assert(std::endian::native == std::endian::little, "the digest's byte order");

template <class Value>
void add(Sha256& digest, const std::vector<Value>& values) {
  digest.update(std::is_same_v<Value, double> ? "f" : "u");
  digest.update(std::to_string(values.size()));
  digest.update("\0"sv);
  digest.update(std::as_bytes(std::span(values)));
}

void add(Sha256& digest, const std::vector<std::string>& values) {
  digest.update("S");
  digest.update(std::to_string(values.size()));
  digest.update("\0"sv);
  for (const std::string& value : values) {
    digest.update(value);
    digest.update("\0"sv);
  }
}

}  // namespace

std::string digest_of(const Document& document) {
  std::map<std::string, std::function<void(Sha256&)>> parts;
  const auto add_attribute = [&](const std::string& owner, const Attribute& attribute) {
    parts[owner + "@" + attribute.name] = [&attribute](Sha256& digest) {
      std::visit([&](const auto& value) { add(digest, std::vector{value}); }, attribute.value);
    };
  };
  const auto add_text = [&](const std::string& name, const std::string& text) {
    parts[name] = [&text](Sha256& digest) { add(digest, std::vector{text}); };
  };
  for (const Attribute& attribute : document.attributes) add_attribute("", attribute);
  for (const Group& group : document.groups) {
    for (const Attribute& attribute : group.attributes) add_attribute(group.name, attribute);
    for (const Column& column : group.columns) {
      const std::string name = group.name + "/" + column.name;
      parts[name] = [&column](Sha256& digest) {
        std::visit([&](const auto& values) { add(digest, values); }, column.values);
      };
      add_text(name + "@units", column.units);
      add_text(name + "@description", column.description);
    }
  }
  Sha256 digest;
  for (const auto& [name, add_values] : parts) {
    digest.update(name);
    digest.update("\0"sv);
    add_values(digest);
  }
  return digest.hex();
}

}  // namespace zeropp::trace
