#include "lib/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"
#include "lib/base/sha256.hpp"

namespace zeropp::checkpoint {

namespace {

using nlohmann::json;

constexpr std::string_view kSchema = "zeropp-checkpoint";
constexpr std::string_view kVersion = "1.0";
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 48U;
constexpr std::uint64_t kMostRanks = std::uint64_t{1} << 20U;
constexpr std::size_t kDigestLength = 64;
constexpr int kDeepest = 8;  // nesting; the digest's text is made by recursion

json to_json(const StoredSlice& stored) {
  const Slice& slice = stored.slice;
  return {{"array", slice.array},        {"element_bytes", slice.element_bytes},
          {"total", slice.total},        {"offset", slice.offset},
          {"count", slice.count},        {"rank", stored.rank},
          {"position", stored.position}, {"sha256", stored.digests}};
}

json to_json(const std::vector<StoredSlice>& slices) {
  json list = json::array();
  for (const StoredSlice& stored : slices) list.push_back(to_json(stored));
  return list;
}

json to_json(const std::vector<StoredFile>& files) {
  json list = json::array();
  for (const StoredFile& file : files) {
    list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.digest}});
  }
  return list;
}

/// Digest of a document without its own digest.
std::string digest_of(const json& document) { return sha256_hex(document.dump()); }

/// Reads fields of one object, and says which is wrong.
class Fields {
 public:
  Fields(const json& object, const std::string& where) : object_(object), where_(where) {
    if (!object.is_object()) fail("an entry is no object");
  }
  [[nodiscard]] const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(fmt::format("'{}' is missing", key));
    return *found;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string()) fail(fmt::format("'{}' is no text", key));
    return value.get<std::string>();
  }
  [[nodiscard]] std::uint64_t number(const char* key, std::uint64_t most) const {
    const json& value = at(key);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
      fail(fmt::format("'{}' is no whole number up to {}", key, most));
    }
    return value.get<std::uint64_t>();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::io, fmt::format("{} is not a checkpoint's manifest: {}; use another "
                                          "checkpoint",
                                          where_, what));
  }

 private:
  const json& object_;
  const std::string& where_;
};

std::vector<std::string> digests_of(const Fields& fields, std::uint64_t bytes) {
  const json& list = fields.at("sha256");
  if (!list.is_array() || list.size() != ceil_div(bytes, kChunk)) {
    fields.fail("'sha256' does not have a digest for each chunk");
  }
  std::vector<std::string> digests;
  for (const json& digest : list) {
    if (!digest.is_string() || digest.get_ref<const std::string&>().size() != kDigestLength) {
      fields.fail("'sha256' holds what is no digest");
    }
    digests.push_back(digest.get<std::string>());
  }
  return digests;
}

StoredSlice slice_of(const json& object, const std::string& where, std::uint64_t world_size) {
  const Fields fields(object, where);
  StoredSlice stored;
  Slice& slice = stored.slice;
  slice.array = fields.text("array");
  slice.element_bytes = fields.number("element_bytes", 16);
  slice.total = fields.number("total", kMostElements);
  slice.offset = fields.number("offset", slice.total);
  slice.count = fields.number("count", slice.total - slice.offset);
  stored.rank = fields.number("rank", world_size - 1);
  stored.position = fields.number("position", kMostElements);
  stored.digests = digests_of(fields, slice.bytes());
  return stored;
}

StoredFile file_of(const json& object, const std::string& where) {
  const Fields fields(object, where);
  StoredFile file{fields.text("name"), fields.number("bytes", kMostElements),
                  fields.text("sha256")};
  if (file.name.find('/') != std::string::npos) fields.fail("a file has a path for its name");
  return file;
}

std::vector<StoredSlice> slices_of(const json& list, const std::string& where,
                                   std::uint64_t world_size) {
  std::vector<StoredSlice> slices;
  for (const json& slice : list) slices.push_back(slice_of(slice, where, world_size));
  return slices;
}

/// Every array is there once: its slices follow each other from its begin to its end.
void require_complete(const Manifest& manifest, const Fields& fields) {
  std::map<std::string, std::vector<const Slice*>> arrays;
  for (const StoredSlice& stored : manifest.slices) {
    arrays[stored.slice.array].push_back(&stored.slice);
  }
  for (auto& [name, slices] : arrays) {
    std::ranges::sort(slices, {}, [](const Slice* s) { return std::pair(s->offset, s->count); });
    std::uint64_t end = 0;
    for (const Slice* slice : slices) {
      if (slice->total != slices.front()->total ||
          slice->element_bytes != slices.front()->element_bytes) {
        fields.fail(fmt::format("slices of '{}' are not of one array", name));
      }
      if (slice->offset != end) {
        fields.fail(fmt::format("'{}' {} element {}", name,
                                slice->offset > end ? "lacks" : "has twice",
                                std::min(slice->offset, end)));
      }
      end += slice->count;
    }
    if (end != slices.front()->total) fields.fail(fmt::format("'{}' lacks element {}", name, end));
  }
}

}  // namespace

std::string rank_file(std::uint64_t rank) { return fmt::format("rank-{:05}.bin", rank); }

std::string slices_to_text(const std::vector<StoredSlice>& slices) {
  return to_json(slices).dump();
}

std::vector<StoredSlice> slices_from_text(const std::string& text, std::uint64_t world_size) {
  return slices_of(json::parse(text), "what a rank told of its file", world_size);
}

std::string to_text(const Manifest& manifest) {
  json document{{"schema", kSchema},       {"schema_version", kVersion},
                {"step", manifest.step},   {"world_size", manifest.world_size},
                {"state", manifest.state}, {"slices", json::array()}};
  document["slices"] = to_json(manifest.slices);
  if (!manifest.files.empty()) document["files"] = to_json(manifest.files);
  document["sha256"] = digest_of(document);
  return document.dump(1) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  const auto shallow = [&](int depth, json::parse_event_t /*event*/, json& /*parsed*/) {
    if (depth <= kDeepest) return true;
    throw Error(ExitCode::io, fmt::format("{} is not a checkpoint's manifest: it is nested deeper "
                                          "than {}; use another checkpoint",
                                          where, kDeepest));
  };
  json document = json::parse(text, shallow, /*allow_exceptions=*/false);
  const Fields fields(document, where);
  if (fields.text("schema") != kSchema) fields.fail("'schema' is another");
  if (fields.text("schema_version") != kVersion) {
    fields.fail(fmt::format("'schema_version' is not {}", kVersion));
  }
  const std::string digest = fields.text("sha256");
  document.erase("sha256");
  if (digest_of(document) != digest) fields.fail("its digest is not that of its text");
  Manifest manifest;
  manifest.step = fields.number("step", kMostElements);
  manifest.world_size = fields.number("world_size", kMostRanks);
  if (manifest.world_size == 0) fields.fail("'world_size' is 0");
  manifest.state = fields.text("state");
  manifest.slices = slices_of(fields.at("slices"), where, manifest.world_size);
  for (const json& file : document.value("files", json::array())) {
    manifest.files.push_back(file_of(file, where));
  }
  require_complete(manifest, fields);
  return manifest;
}

}  // namespace zeropp::checkpoint
