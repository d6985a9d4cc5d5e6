// An object of a JSON file, read key by key: what it holds beside the keys that somebody asks for
// is refused with the nearest of these. Throws Error(usage) that names the place and the key.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace zeropp::converge {

class Fields {
 public:
  /// `where`: "matrix.json: settings[2]". All keys of `object` are of `known`. The object outlives
  /// this.
  Fields(const nlohmann::json& object, std::string where, const std::vector<std::string>& known);

  [[nodiscard]] bool has(const char* key) const { return object_.contains(key); }
  /// The value, or throws where it is missing or of another type.
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] const nlohmann::json& object(const char* key) const;
  [[nodiscard]] const nlohmann::json& array(const char* key) const;
  /// The value, of any type.
  [[nodiscard]] const nlohmann::json& value(const char* key) const { return at(key); }
  [[nodiscard]] double number(const char* key) const;
  [[nodiscard]] std::uint64_t whole(const char* key) const;
  [[nodiscard]] std::vector<std::uint64_t> wholes(const char* key) const;
  [[nodiscard]] const std::string& where() const { return where_; }

  /// Refuses a key: throws Error(usage): "WHERE: KEY WHAT".
  [[noreturn]] void refuse(const char* key, const std::string& what) const;

 private:
  [[nodiscard]] const nlohmann::json& at(const char* key) const;

  const nlohmann::json& object_;
  std::string where_;
};

}  // namespace zeropp::converge
