// Keys of a configuration of Hugging Face's transformers (config.json), as sizes and switches.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace zeropp::plan {

class HfKeys {
 public:
  /// `object` outlives this. `name` stands for the file in messages.
  HfKeys(const nlohmann::json& object, std::string name)
      : object_(object), name_(std::move(name)) {}

  /// Whether the key is there and not null.
  [[nodiscard]] bool has(const char* key) const;
  /// Whether the key is there, and null.
  [[nodiscard]] bool is_null(const char* key) const;
  /// The first of `keys` that is there, null or not: a size, or `derived` where it is null; else
  /// `usual`. Throws Error(usage) for what is no size, and where `usual` is 0.
  [[nodiscard]] std::size_t size(std::initializer_list<const char*> keys, std::size_t usual,
                                 std::size_t derived = 0) const;
  /// The first of `keys` that is there, a whole number; else `otherwise`, which null stands for
  /// too. A list stands for its first element. Throws Error(usage) for anything else.
  [[nodiscard]] std::size_t count(std::initializer_list<const char*> keys,
                                  std::size_t otherwise) const;
  /// Whether the value counts as true in Python, as transformers asks for it: null does not.
  [[nodiscard]] bool is(const char* key, bool otherwise) const;
  [[nodiscard]] std::string text(const char* key) const;

  [[nodiscard]] const nlohmann::json& object() const { return object_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  [[nodiscard]] std::size_t whole(const nlohmann::json& value, const char* key, double least) const;

  const nlohmann::json& object_;
  std::string name_;
};

}  // namespace zeropp::plan
