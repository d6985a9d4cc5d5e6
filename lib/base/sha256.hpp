// SHA-256 (FIPS 180-4), through OpenSSL. Throws Error(environment) when OpenSSL refuses it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace zeropp {

/// A digest that is fed in pieces.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// Digest as 64 hexadecimal digits in lower case. Ends the digest: called once.
  [[nodiscard]] std::string hex();

 private:
  struct Free {
    void operator()(void* context) const noexcept;
  };
  std::unique_ptr<void, Free> context_;
};

/// Digest of one text.
std::string sha256_hex(std::string_view text);

}  // namespace zeropp
