// A file as bytes: token = byte, vocabulary 256. The end of the file is held out. Read into memory
// once; the file is not touched afterwards.
#pragma once

#include "lib/data/byte_tokens.hpp"

namespace zeropp::data {

class Text final : public TokenSource {
 public:
  static constexpr std::size_t kVocab = 256;  ///< bytes

  /// Throws Error(io), one line with the path, when the file is missing, unreadable, not a regular
  /// file, empty, or changes its size while it is read.
  Text(std::string path, double held_out_fraction);

  [[nodiscard]] std::string description() const override { return "text " + path_; }
  [[nodiscard]] std::size_t vocab_size() const override { return kVocab; }
  [[nodiscard]] std::size_t tokens(Part part) const override { return bytes_.size(part); }
  void read(Part part, std::size_t first, std::span<std::int32_t> out) const override {
    bytes_.read(part, first, out);
  }

 private:
  std::string path_;
  ByteTokens bytes_;
};

}  // namespace zeropp::data
