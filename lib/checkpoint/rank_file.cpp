#include "lib/checkpoint/rank_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <future>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/fault.hpp"
#include "lib/base/file.hpp"
#include "lib/base/sha256.hpp"

namespace zeropp::checkpoint {

namespace {

namespace fs = std::filesystem;

std::string digest_of(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

/// Digest of a chunk that is being written. One costs more time than the chunk takes a fast disk:
/// several are made at once.
struct Digest {
  std::size_t slice;
  std::future<std::string> hex;  ///< waits when destroyed
};
constexpr std::size_t kDigests = 4;

/// Reads stored slices of one file chunk by chunk.
class ChunkReader {
 public:
  ChunkReader(const fs::path& folder, std::uint64_t rank)
      : path_(folder / rank_file(rank)), file_(path_, O_RDONLY, "open") {}

  /// Chunk `index` of `stored`, checked; valid until the next call.
  std::span<const std::byte> read(const StoredSlice& stored, std::uint64_t index) {
    const std::uint64_t first = index * kChunk;
    memory_.resize(std::min(kChunk, stored.slice.bytes() - first));
    file_.read(stored.position + first, memory_);
    if (digest_of(memory_) != stored.digests[index]) {
      throw Error(ExitCode::io,
                  fmt::format("{} was damaged after it was written: the digest of bytes {} to {} "
                              "('{}') is another; use another checkpoint",
                              path_.string(), stored.position + first,
                              stored.position + first + memory_.size() - 1, stored.slice.array));
    }
    return memory_;
  }

 private:
  fs::path path_;
  File file_;
  std::vector<std::byte> memory_;
};

bool same_array(const Slice& one, const Slice& other) {
  return one.total == other.total && one.element_bytes == other.element_bytes;
}

void require_same_array(const Slice& stored, const Slice& wanted, const fs::path& folder) {
  if (same_array(stored, wanted)) return;
  throw Error(ExitCode::usage,
              fmt::format("'{}' of {} has {} elements of {} bytes, and here {} of {}: it is of "
                          "another model; give a checkpoint of this one",
                          wanted.array, folder.string(), stored.total, stored.element_bytes,
                          wanted.total, wanted.element_bytes));
}

/// Copies what `stored` and `wanted` share to its place in `values`, which are wanted's.
void copy_shared(const fs::path& folder, const StoredSlice& stored, const Slice& wanted,
                 std::span<std::byte> values) {
  const Slice& slice = stored.slice;
  const std::uint64_t begin = std::max(wanted.offset, slice.offset);
  const std::uint64_t end = std::min(wanted.offset + wanted.count, slice.offset + slice.count);
  if (begin >= end) return;
  ChunkReader reader(folder, stored.rank);
  // Bytes from the stored slice's begin.
  const std::uint64_t first = (begin - slice.offset) * slice.element_bytes;
  const std::uint64_t last = (end - slice.offset) * slice.element_bytes;
  std::byte* to = values.data() + (begin - wanted.offset) * slice.element_bytes;
  for (std::uint64_t index = first / kChunk; index * kChunk < last; ++index) {
    const auto chunk = reader.read(stored, index);
    const std::uint64_t from = std::max(first, index * kChunk);
    const std::uint64_t until = std::min<std::uint64_t>(last, index * kChunk + chunk.size());
    std::memcpy(to, chunk.data() + (from - index * kChunk), until - from);
    to += until - from;
  }
}

}  // namespace

std::vector<StoredSlice> write_rank_file(const fs::path& folder, std::uint64_t rank,
                                         std::span<const HostSlice> slices) {
  File file(folder / rank_file(rank), O_WRONLY | O_CREAT | O_EXCL, "create");
  std::vector<StoredSlice> stored;
  std::deque<Digest> digests;  // in the order of the chunks
  const auto take_digest = [&] {
    stored[digests.front().slice].digests.push_back(digests.front().hex.get());
    digests.pop_front();
  };
  std::uint64_t position = 0;
  for (const HostSlice& slice : slices) {
    stored.push_back({slice.slice, rank, position, {}});
    for (std::size_t first = 0; first < slice.values.size(); first += kChunk) {
      const auto chunk =
          slice.values.subspan(first, std::min<std::size_t>(kChunk, slice.values.size() - first));
      if (digests.size() == kDigests) take_digest();
      fault::run_out_of(fault::Resource::memory);
      digests.push_back({stored.size() - 1, std::async(std::launch::async, digest_of, chunk)});
      file.write(chunk);
    }
    position += slice.values.size();
  }
  while (!digests.empty()) take_digest();
  file.sync();
  file.close();
  return stored;
}

ArrayReader::ArrayReader(fs::path folder, const Manifest& manifest) : folder_(std::move(folder)) {
  for (const StoredSlice& stored : manifest.slices) {
    arrays_[stored.slice.array].push_back(&stored);
  }
}

bool ArrayReader::has(const Slice& slice) const {
  const auto found = arrays_.find(slice.array);
  return found != arrays_.end() && same_array(found->second.front()->slice, slice);
}

void ArrayReader::read(const Slice& slice, std::span<std::byte> values) const {
  const auto found = arrays_.find(slice.array);
  if (found == arrays_.end()) {
    throw Error(ExitCode::usage,
                fmt::format("{} has no array '{}': it is of another model or optimizer; give a "
                            "checkpoint of this one",
                            folder_.string(), slice.array));
  }
  for (const StoredSlice* stored : found->second) {
    require_same_array(stored->slice, slice, folder_);
    copy_shared(folder_, *stored, slice, values);
  }
}

}  // namespace zeropp::checkpoint
