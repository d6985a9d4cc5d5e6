#include "lib/checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "kernels/core/half.hpp"
#include "kernels/core/view.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"
#include "lib/base/sha256.hpp"

namespace zeropp::checkpoint {

namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format's byte order");

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kMostDimensions = 8;
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48U;
constexpr std::size_t kDigestLength = 64;
constexpr std::string_view kMetadata = "__metadata__";

constexpr std::array<std::pair<Dtype, std::string_view>, 3> kNames{
    {{Dtype::fp32, "F32"}, {Dtype::bf16, "BF16"}, {Dtype::fp16, "F16"}}};

/// Throws the error of a file that cannot be read.
class Refusal {
 public:
  explicit Refusal(const std::filesystem::path& path) : path_(path) {}

  template <class... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw Error(
        ExitCode::io,
        fmt::format("{} is no safetensors file that can be read: {}; use another file",
                    path_.string(), fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

 private:
  const std::filesystem::path& path_;
};

std::uint64_t number_of(const json& value, const std::string& name, const Refusal& refusal) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMostElements) {
    refusal.fail("a size of '{}' is no whole number up to {}", name, kMostElements);
  }
  return value.get<std::uint64_t>();
}

const json& member(const json& object, const char* key, const std::string& name,
                   const Refusal& refusal) {
  const auto found = object.find(key);
  if (found == object.end()) refusal.fail("'{}' has no '{}'", name, key);
  return *found;
}

Dtype dtype_of(const json& value, const std::string& name, const Refusal& refusal) {
  const auto* const found = std::ranges::find_if(
      kNames, [&](const auto& known) { return value.is_string() && value == known.second; });
  if (found == kNames.end()) refusal.fail("the type of '{}' is none of F32, BF16, F16", name);
  return found->first;
}

StoredTensor tensor_of(const std::string& name, const json& entry, const Refusal& refusal) {
  if (!entry.is_object()) refusal.fail("'{}' is no object", name);
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype_of(member(entry, "dtype", name, refusal), name, refusal);
  const json& shape = member(entry, "shape", name, refusal);
  if (!shape.is_array() || shape.size() > kMostDimensions) {
    refusal.fail("the shape of '{}' is no list of up to {} sizes", name, kMostDimensions);
  }
  std::uint64_t count = 1;
  for (const json& size : shape) {
    tensor.shape.push_back(number_of(size, name, refusal));
    if (tensor.shape.back() > 0 && count > kMostElements / tensor.shape.back()) {
      refusal.fail("'{}' has more than {} elements", name, kMostElements);
    }
    count *= tensor.shape.back();
  }
  const json& offsets = member(entry, "data_offsets", name, refusal);
  if (!offsets.is_array() || offsets.size() != 2) {
    refusal.fail("'data_offsets' of '{}' are no begin and end", name);
  }
  tensor.begin = number_of(offsets[0], name, refusal);
  if (number_of(offsets[1], name, refusal) != tensor.begin + tensor.bytes()) {
    refusal.fail("'{}' has other bytes than its shape", name);
  }
  return tensor;
}

/// Refuses tensors that do not lie one after the other, from the first byte to the last.
void require_no_gap(const std::map<std::string, StoredTensor>& tensors, std::uint64_t bytes,
                    const Refusal& refusal) {
  std::vector<const StoredTensor*> order;
  order.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) order.push_back(&tensor);
  std::ranges::sort(
      order, {}, [](const StoredTensor* t) { return std::pair(t->begin, t->begin + t->bytes()); });
  std::uint64_t end = 0;
  for (const StoredTensor* tensor : order) {
    if (tensor->begin != end) refusal.fail("'{}' does not begin where another ends", tensor->name);
    end += tensor->bytes();
  }
  if (end != bytes) refusal.fail("its tensors have {} bytes, and it has {}", end, bytes);
}

/// A free text of the header, which has the digests one after the other: "sha256 of
/// transformer.wte.weight".
std::string digest_key(const std::string& name) { return "sha256 of " + name; }

/// Digests that a file of ours has of a tensor.
std::uint64_t digests_of(const StoredTensor& tensor) {
  return std::max<std::uint64_t>(ceil_div(tensor.bytes(), kPiece), 1);
}

/// Header of the tensors; it is as long whatever the digests are.
std::string header_of(const std::vector<StoredTensor>& tensors) {
  json header = json::object();
  json metadata{{"format", "pt"}};  // rows first, as PyTorch's are
  for (const StoredTensor& tensor : tensors) {
    const auto* const name =
        std::ranges::find(kNames, tensor.dtype, [](const auto& known) { return known.first; });
    header[tensor.name] = {{"dtype", name->second},
                           {"shape", tensor.shape},
                           {"data_offsets", {tensor.begin, tensor.begin + tensor.bytes()}}};
    metadata[digest_key(tensor.name)] = tensor.digests.empty()
                                            ? std::string(kDigestLength * digests_of(tensor), '0')
                                            : fmt::format("{}", fmt::join(tensor.digests, ""));
  }
  header[std::string(kMetadata)] = std::move(metadata);
  std::string text = header.dump();
  text.resize(round_up<std::size_t>(text.size(), kLengthBytes), ' ');
  return text;
}

std::vector<StoredTensor> one_after_the_other(std::vector<StoredTensor> tensors) {
  std::uint64_t begin = 0;
  for (StoredTensor& tensor : tensors) {
    tensor.begin = begin;
    begin += tensor.bytes();
  }
  return tensors;
}

std::string digest_of(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

}  // namespace

std::uint64_t StoredTensor::count() const {
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape) elements *= size;
  return elements;
}

SafetensorsWriter::SafetensorsWriter(std::filesystem::path path, std::vector<StoredTensor> tensors)
    : path_(std::move(path)),
      file_(path_, O_WRONLY | O_CREAT | O_EXCL, "create"),
      tensors_(one_after_the_other(std::move(tensors))) {
  const std::string header = header_of(tensors_);
  const std::uint64_t length = header.size();
  file_.write(std::as_bytes(std::span(&length, 1)));
  file_.write(std::as_bytes(std::span(header)));
}

void SafetensorsWriter::write(std::span<const std::byte> values) {
  StoredTensor& tensor = tensors_.at(next_++);
  for (std::uint64_t piece = 0; piece < digests_of(tensor); ++piece) {
    const std::uint64_t first = piece * kPiece;
    tensor.digests.push_back(
        digest_of(values.subspan(first, std::min(kPiece, values.size() - first))));
  }
  file_.write(values);
}

StoredFile SafetensorsWriter::finish() {
  const std::string header = header_of(tensors_);
  file_.write_at(kLengthBytes, std::as_bytes(std::span(header)));
  file_.sync();
  file_.close();
  const std::uint64_t length = header.size();
  Sha256 digest;
  digest.update(std::as_bytes(std::span(&length, 1)));
  digest.update(header);
  return {path_.filename().string(), kLengthBytes + length, digest.hex()};
}

SafetensorsReader::SafetensorsReader(std::filesystem::path path)
    : path_(std::move(path)), file_(path_, O_RDONLY, "open") {
  const Refusal refusal(path_);
  const std::uint64_t size = file_.size();
  std::uint64_t length = 0;
  if (size < kLengthBytes) refusal.fail("it has {} bytes", size);
  file_.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > kLongestHeader || length > size - kLengthBytes) {
    refusal.fail("its header of {} bytes is longer than the file, or than {}", length,
                 kLongestHeader);
  }
  std::string text(length, '\0');
  file_.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  const json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) refusal.fail("its header is no JSON object");
  for (const auto& [name, entry] : header.items()) {
    if (name != kMetadata) tensors_.emplace(name, tensor_of(name, entry, refusal));
  }
  const json metadata = header.value(std::string(kMetadata), json::object());
  for (auto& [name, tensor] : tensors_) {
    const auto digest = metadata.find(digest_key(name));
    if (digest == metadata.end() || !digest->is_string()) continue;
    const std::string hex = *digest;
    const std::uint64_t count = hex.size() / kDigestLength;
    if (hex.size() % kDigestLength != 0 || (count != 1 && count != digests_of(tensor))) {
      refusal.fail("the digests of '{}' are not those of its pieces", name);
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      tensor.digests.push_back(hex.substr(i * kDigestLength, kDigestLength));
    }
  }
  values_ = kLengthBytes + length;
  require_no_gap(tensors_, size - values_, refusal);
}

std::vector<float> SafetensorsReader::read(const StoredTensor& tensor, std::uint64_t begin,
                                           std::uint64_t end) const {
  std::vector<float> values;
  if (begin >= end) return values;
  values.reserve(end - begin);
  const bool checked = !tensor.digests.empty();
  with_type(tensor.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    const std::uint64_t piece =
        tensor.digests.size() == 1 ? tensor.count() : kPiece / sizeof(T);  // elements
    std::vector<T> stored;
    for (std::uint64_t first = checked ? begin / piece * piece : begin; first < end;
         first += piece) {
      stored.resize(std::min(piece, (checked ? tensor.count() : end) - first));
      file_.read(values_ + tensor.begin + first * sizeof(T),
                 std::as_writable_bytes(std::span(stored)));
      if (checked) {
        require_digest(tensor, first / piece, digest_of(std::as_bytes(std::span(stored))));
      }
      const auto from = begin > first ? begin - first : 0;
      const auto until = std::min<std::uint64_t>(stored.size(), end - first);
      std::ranges::transform(std::span(stored).subspan(from, until - from),
                             std::back_inserter(values), [](T value) { return to_float(value); });
    }
  });
  return values;
}

void SafetensorsReader::verify(const StoredTensor& tensor) const {
  const std::uint64_t piece = tensor.digests.size() == 1 ? tensor.bytes() : kPiece;
  std::vector<std::byte> memory(std::min(kPiece, tensor.bytes()));
  for (std::size_t i = 0; i < tensor.digests.size(); ++i) {
    Sha256 digest;
    const std::uint64_t end = std::min((i + 1) * piece, tensor.bytes());
    for (std::uint64_t first = i * piece; first < end; first += kPiece) {
      const auto part = std::span(memory).first(std::min(kPiece, end - first));
      file_.read(values_ + tensor.begin + first, part);
      digest.update(part);
    }
    require_digest(tensor, i, digest.hex());
  }
}

void SafetensorsReader::require_digest(const StoredTensor& tensor, std::size_t piece,
                                       const std::string& digest) const {
  if (digest == tensor.digests.at(piece)) return;
  Refusal(path_).fail("the values of '{}' do not have their digest, it was damaged", tensor.name);
}

}  // namespace zeropp::checkpoint
