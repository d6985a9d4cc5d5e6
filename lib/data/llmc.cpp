#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/data/data_file.hpp"
#include "lib/data/token_file.hpp"

namespace zeropp::data {

namespace {

constexpr std::size_t kHeader = 256;  ///< numbers

struct Format {
  std::int32_t magic;
  std::int32_t version;
  IdType type;
};

const Format kFormats[] = {
    {20240520, 1, id_type<std::uint16_t>("uint16")},  // the tokenizer of GPT-2
    {20240801, 7, id_type<std::uint32_t>("uint32")},  // of Llama 3
};

TokenFile::Ids find_ids(const File& file, const std::string& path) {
  std::array<std::int32_t, kHeader> header{};
  const std::uint64_t size = file.size();
  if (size < sizeof header) {
    refuse_file(path,
                fmt::format("is no token file of llm.c: it has {} bytes, and the header alone "
                            "{}; give what its data scripts write",
                            size, sizeof header));
  }
  file.read(0, std::as_writable_bytes(std::span(header)));
  const auto* const format = std::ranges::find_if(kFormats, [&](const Format& known) {
    return known.magic == header[0] && known.version == header[1];
  });
  if (format == std::end(kFormats)) {
    refuse_file(path,
                fmt::format("is no token file of llm.c: it begins with {} and version {}, and "
                            "those of tokens with 20240520 and 1, or 20240801 and 7; give "
                            "what its data scripts write",
                            header[0], header[1]));
  }
  const auto ids = static_cast<std::int64_t>(header[2]);
  const std::uint64_t rest = size - sizeof header;
  if (ids < 0 || static_cast<std::uint64_t>(ids) * format->type.bytes != rest) {
    refuse_file(path, fmt::format("says that it holds {} tokens as {}, and {} bytes follow its "
                                  "header: it was cut short or damaged, use another copy",
                                  ids, format->type.name, rest));
  }
  return {sizeof header, static_cast<std::uint64_t>(ids), format->type};
}

}  // namespace

std::unique_ptr<TokenSource> open_llmc(const std::string& path, const Options& options) {
  return std::make_unique<TokenFile>("llmc " + path, path, options,
                                     [&](const File& file) { return find_ids(file, path); });
}

}  // namespace zeropp::data
