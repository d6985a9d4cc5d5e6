#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "lib/data/data_file.hpp"
#include "lib/data/token_file.hpp"

namespace zeropp::data {

namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::uint64_t kVersion = 1;

/// Types of ids by the code of NumPy's type; those that are missing are floating-point.
struct CodedType {
  std::uint8_t code;
  IdType type;
};

const CodedType kTypes[] = {
    {1, id_type<std::uint8_t>("uint8")}, {2, id_type<std::int8_t>("int8")},
    {3, id_type<std::int16_t>("int16")}, {4, id_type<std::int32_t>("int32")},
    {5, id_type<std::int64_t>("int64")}, {8, id_type<std::uint16_t>("uint16")},
};

/// Header that the index begins with, packed: the numbers follow each other without gaps.
struct Header {
  static constexpr std::size_t kBytes = kMagic.size() + 8 + 1 + 8 + 8;
  std::uint64_t version = 0;
  std::uint8_t type = 0;
  std::uint64_t sequences = 0;
  std::uint64_t documents = 0;  ///< numbers that follow, of the first sequence of each and the end
};

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t position) {
  T value;
  std::memcpy(&value, bytes.data() + position, sizeof value);
  return value;
}

/// The index file, read once from begin to end. Its sizes are checked against a file of
/// `bytes_of_ids` bytes of ids.
class Index {
 public:
  explicit Index(const std::string& path) : path_(path), file_(path, O_RDONLY, "open") {
    read_header();
    const auto* const coded = std::ranges::find(kTypes, header_.type, &CodedType::code);
    if (coded == std::end(kTypes)) {
      refuse(
          fmt::format("stores its tokens as NumPy's type number {}, which is no integer: write "
                      "it again",
                      header_.type));
    }
    type_ = &coded->type;
    require_size();
  }

  /// Storage of the ids, and how many there are in a file of `bytes_of_ids` bytes.
  [[nodiscard]] TokenFile::Ids ids(std::uint64_t bytes_of_ids) const {
    const std::uint64_t count = bytes_of_ids / type_->bytes;
    std::uint64_t sum = 0;
    for (std::uint64_t first = 0; first < header_.sequences; first += kChunk) {
      const auto lengths = numbers<std::int32_t>(Header::kBytes, first, header_.sequences);
      const auto pointers = numbers<std::int64_t>(pointers_, first, header_.sequences);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        require_sequence(first + i, lengths[i], pointers[i], sum, count);
        sum += static_cast<std::uint64_t>(lengths[i]);
      }
    }
    require_documents();
    if (sum * type_->bytes != bytes_of_ids) {
      refuse(
          fmt::format("is of {} tokens as {}, and the file beside it has {} bytes: they are not "
                      "of one run, or one was cut short; use another copy",
                      sum, type_->name, bytes_of_ids));
    }
    return {0, sum, *type_};
  }

 private:
  static constexpr std::uint64_t kChunk = std::uint64_t{1} << 16U;  ///< numbers read at once

  [[noreturn]] void refuse(const std::string& why) const { refuse_file(path_, why); }

  void read_header() {
    std::vector<std::byte> bytes(Header::kBytes);
    size_ = file_.size();
    if (size_ >= bytes.size()) file_.read(0, bytes);
    if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
      refuse(
          "is no index of Megatron-LM: give the path of what its preprocess_data wrote, without "
          ".idx and .bin");
    }
    header_ = {number_at<std::uint64_t>(bytes, 9), number_at<std::uint8_t>(bytes, 17),
               number_at<std::uint64_t>(bytes, 18), number_at<std::uint64_t>(bytes, 26)};
    if (header_.version != kVersion) {
      refuse(
          fmt::format("is an index of version {}, and {} can be read: write it again with a "
                      "Megatron-LM that has it",
                      header_.version, kVersion));
    }
  }

  /// Requires that neither number is so large that sizes overflow.
  void require_size() {
    const std::uint64_t rest = size_ - Header::kBytes;
    const std::uint64_t sequences = header_.sequences;
    const bool fits = sequences <= rest / 12 && header_.documents <= rest / 8;
    if (!fits || 12 * sequences + 8 * header_.documents != rest) {
      refuse(
          fmt::format("says that it has {} sequences and {} ends of documents, and {} bytes "
                      "follow its header: it was cut short or damaged, or is of several modes; "
                      "use another",
                      sequences, header_.documents, rest));
    }
    pointers_ = Header::kBytes + 4 * sequences;
    documents_ = pointers_ + 8 * sequences;
  }

  /// Numbers [first, first + kChunk) of those of `count` that begin at byte `begin`.
  template <class T>
  [[nodiscard]] std::vector<T> numbers(std::uint64_t begin, std::uint64_t first,
                                       std::uint64_t count) const {
    std::vector<T> found(std::min(kChunk, count - first));
    file_.read(begin + first * sizeof(T), std::as_writable_bytes(std::span(found)));
    return found;
  }

  void require_sequence(std::uint64_t index, std::int32_t length, std::int64_t pointer,
                        std::uint64_t sum, std::uint64_t count) const {
    if (length < 0 || static_cast<std::uint64_t>(length) > count - sum) {
      refuse(
          fmt::format("says that sequence {} has {} tokens, and {} are left for it in the file "
                      "beside it: one of them was cut short or damaged, use another copy",
                      index, length, count - sum));
    }
    if (pointer < 0 || static_cast<std::uint64_t>(pointer) != sum * type_->bytes) {
      refuse(
          fmt::format("says that sequence {} begins at byte {}, and the one before it ends at {}: "
                      "write it again, in the order of the sequences",
                      index, pointer, sum * type_->bytes));
    }
  }

  void require_documents() const {
    std::int64_t before = 0;
    for (std::uint64_t first = 0; first < header_.documents; first += kChunk) {
      for (const std::int64_t end : numbers<std::int64_t>(documents_, first, header_.documents)) {
        if (end < before || static_cast<std::uint64_t>(end) > header_.sequences) {
          refuse(
              fmt::format("says that a document ends before sequence {}, after one that ends "
                          "before {}, of {}: it was damaged, use another copy",
                          end, before, header_.sequences));
        }
        before = end;
      }
    }
  }

  std::string path_;
  File file_;
  std::uint64_t size_ = 0;
  Header header_;
  const IdType* type_ = nullptr;
  std::uint64_t pointers_ = 0;  ///< byte at which they begin
  std::uint64_t documents_ = 0;
};

}  // namespace

std::unique_ptr<TokenSource> open_megatron(const std::string& index, const std::string& ids,
                                           const Options& options) {
  return std::make_unique<TokenFile>(
      "megatron " + options.path, ids, options,
      [&](const File& file) { return Index(index).ids(file.size()); });
}

}  // namespace zeropp::data
