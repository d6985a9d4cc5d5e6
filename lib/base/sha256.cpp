#include "lib/base/sha256.hpp"

#include <openssl/evp.h>

#include <array>

#include "lib/base/error.hpp"

namespace zeropp {
namespace {

EVP_MD_CTX* context_of(void* pointer) { return static_cast<EVP_MD_CTX*>(pointer); }

void check(int status) {
  if (status != 1) throw Error(ExitCode::environment, "OpenSSL refuses SHA-256: check libcrypto");
}

}  // namespace

void Sha256::Free::operator()(void* context) const noexcept {
  EVP_MD_CTX_free(context_of(context));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (context_ == nullptr) throw std::bad_alloc();
  check(EVP_DigestInit_ex(context_of(context_.get()), EVP_sha256(), nullptr));
}

void Sha256::update(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(context_of(context_.get()), bytes.data(), bytes.size()));
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  check(EVP_DigestFinal_ex(context_of(context_.get()), digest.data(), nullptr));
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 digest;
  digest.update(text);
  return digest.hex();
}

}  // namespace zeropp
