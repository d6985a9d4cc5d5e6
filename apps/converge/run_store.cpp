#include "apps/converge/run_store.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>

#include "apps/converge/matrix.hpp"
#include "lib/base/atomic_file.hpp"
#include "lib/base/sha256.hpp"

namespace zeropp::converge {

namespace {

using nlohmann::json;

constexpr const char* kSchema = "zeropp-converge-run";
constexpr std::size_t kDigits = 12;  // of the key, in a file's name

using Bytes = std::vector<std::uint8_t>;

std::string hash_of(const Bytes& bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.hex();
}

}  // namespace

std::string pack(const RunRecord& record) {
  const Bytes bytes = json::to_cbor(record);
  return {bytes.begin(), bytes.end()};
}

RunRecord unpack(const std::string& bytes) { return json::from_cbor(bytes).get<RunRecord>(); }

std::filesystem::path RunStore::path(const std::string& setting, std::uint64_t seed,
                                     const std::string& key) const {
  return folder_ /
         fmt::format("{}.seed{}.{}.cbor", file_stem(setting), seed, key.substr(0, kDigits));
}

void RunStore::preflight() const { preflight_write(folder_ / "preflight.cbor", 0); }

std::optional<RunRecord> RunStore::find(const std::string& setting, std::uint64_t seed,
                                        const std::string& key) const {
  std::ifstream file(path(setting, seed, key), std::ios::binary);
  if (!file) return std::nullopt;
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  try {
    const json kept = json::from_cbor(bytes);
    const Bytes& record = kept.at("record").get_binary();
    if (kept.at("schema") != kSchema || kept.at("key") != key ||
        kept.at("sha256") != hash_of(record)) {
      return std::nullopt;
    }
    return json::from_cbor(record).get<RunRecord>();
  } catch (const json::exception&) {  // of other bytes, whatever they are
    return std::nullopt;
  }
}

void RunStore::keep(const RunRecord& record, const std::string& key) const {
  const Bytes packed = json::to_cbor(record);
  const Bytes bytes = json::to_cbor({{"schema", kSchema},
                                     {"key", key},
                                     {"sha256", hash_of(packed)},
                                     {"record", json::binary(packed)}});
  std::error_code error;  // the folder may be gone since the preflight: a run is worth more
  std::filesystem::create_directories(folder_, error);
  write_atomically(path(record.setting, record.seed, key), std::as_bytes(std::span(bytes)));
}

}  // namespace zeropp::converge
