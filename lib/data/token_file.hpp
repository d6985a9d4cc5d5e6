// Token ids in a file that another program wrote, as it tokenized a text: read from the file when
// they are asked for, so that a file may be larger than memory. Which bytes are ids is what each
// format says (lib/data/llmc.cpp, lib/data/megatron.cpp), and is checked against the file's size
// before any is read; every id is compared with the vocabulary whenever it is read. The end of the
// file is held out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/file.hpp"
#include "lib/data/token_source.hpp"

namespace zeropp::data {

/// Storage of an id, little-endian.
struct IdType {
  const char* name;
  std::size_t bytes;
  std::int64_t (*id)(const std::byte* at);
};

/// IdType of an integer type that ids are stored as. Defined in token_file.cpp for std::uint8_t,
/// int8_t, uint16_t, int16_t, uint32_t, int32_t and int64_t.
template <class T>
IdType id_type(const char* name);

class TokenFile final : public TokenSource {
 public:
  /// Place of the ids in a file.
  struct Ids {
    std::uint64_t first_byte;
    std::uint64_t count;
    IdType type;
  };
  /// Finds them in the open file; throws Error(io) where it is none of its format.
  using Find = std::function<Ids(const File& file)>;

  /// `options.vocab_size`: ids are below. Throws Error(io), one line with the path, for a file that
  /// cannot be opened, or has no ids.
  TokenFile(std::string description, std::filesystem::path path, const Options& options,
            const Find& find);

  [[nodiscard]] std::string description() const override { return description_; }
  [[nodiscard]] std::size_t vocab_size() const override { return vocab_size_; }
  [[nodiscard]] std::size_t tokens(Part part) const override {
    return part == Part::train ? train_ : ids_.count - train_;
  }
  /// Throws Error(io) that names the file and the token, by number and byte, for an id that is not
  /// in the vocabulary, and for a file that was cut short since it was opened.
  void read(Part part, std::size_t first, std::span<std::int32_t> out) const override;

 private:
  std::string description_;
  std::filesystem::path path_;
  File file_;
  Ids ids_;
  std::size_t vocab_size_;
  std::size_t train_;
};

/// A file as llm.c's dev/data scripts write it: 256 int32 (magic, version, number of ids), then the
/// ids: uint16 of GPT-2's tokenizer, uint32 of Llama 3's.
std::unique_ptr<TokenSource> open_llmc(const std::string& path, const Options& options);

/// A pair of files as Megatron-LM's preprocess_data writes it: `index` says how long the sequences
/// in `ids` are and how an id is stored. The sequences are read as one row, in the order of the
/// index, which has to be their order in `ids`.
std::unique_ptr<TokenSource> open_megatron(const std::string& index, const std::string& ids,
                                           const Options& options);

}  // namespace zeropp::data
