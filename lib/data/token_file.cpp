#include "lib/data/token_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "lib/data/data_file.hpp"

namespace zeropp::data {

static_assert(std::endian::native == std::endian::little, "files hold little-endian ids");

template <class T>
IdType id_type(const char* name) {
  return {name, sizeof(T), [](const std::byte* at) {
            T value;
            std::memcpy(&value, at, sizeof value);
            return static_cast<std::int64_t>(value);
          }};
}

template IdType id_type<std::uint8_t>(const char*);
template IdType id_type<std::int8_t>(const char*);
template IdType id_type<std::uint16_t>(const char*);
template IdType id_type<std::int16_t>(const char*);
template IdType id_type<std::uint32_t>(const char*);
template IdType id_type<std::int32_t>(const char*);
template IdType id_type<std::int64_t>(const char*);

TokenFile::TokenFile(std::string description, std::filesystem::path path, const Options& options,
                     const Find& find)
    : description_(std::move(description)),
      path_(std::move(path)),
      file_(path_, O_RDONLY, "open"),
      ids_(find(file_)),
      vocab_size_(options.vocab_size),
      train_(trained_on(ids_.count, options.held_out_fraction)) {
  if (ids_.count == 0) refuse_file(path_, "holds no tokens: give one that does");
}

void TokenFile::read(Part part, std::size_t first, std::span<std::int32_t> out) const {
  const std::uint64_t begin = first + (part == Part::train ? 0 : train_);
  const std::size_t bytes = ids_.type.bytes;
  std::vector<std::byte> stored(out.size() * bytes);
  file_.read(ids_.first_byte + begin * bytes, stored);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t id = ids_.type.id(stored.data() + i * bytes);
    if (id < 0 || static_cast<std::uint64_t>(id) >= vocab_size_) {
      refuse_file(path_,
                  fmt::format("has the id {} as its token {} (byte {}), and the vocabulary has {}: "
                              "give the --data-vocab-size of the tokenizer that wrote it",
                              id, begin + i, ids_.first_byte + (begin + i) * bytes, vocab_size_));
    }
    out[i] = static_cast<std::int32_t>(id);
  }
}

}  // namespace zeropp::data
