// What an engine tells of itself: the hash and the values of its parameters, and its memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/base/log.hpp"
#include "lib/base/sha256.hpp"
#include "lib/base/status.hpp"
#include "lib/zero/engine.hpp"

namespace zeropp::zero {

namespace {

std::size_t bytes_of(const std::vector<Buffer>& buffers) {
  std::size_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes();
  return total;
}

}  // namespace

std::vector<std::string> Engine::gather_by_shard(const std::string& part) const {
  std::vector<std::string> of_ranks = control_.gather(part);
  std::vector<std::string> of_shards(of_ranks.size());
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    of_shards[canonical_shard(rank, world_size(), shard_groups())] = std::move(of_ranks[rank]);
  }
  return of_shards;
}

std::vector<std::byte> Engine::fetch_master(std::size_t unit) const {
  const std::size_t shard = plans_.units[unit].canonical;
  const std::size_t begin = canonical() * shard;
  const Stream& compute = stream(StreamId::compute);
  join({StreamId::update});
  compute.synchronize();  // the copy to pageable memory would wait unwatched
  std::vector<std::byte> bytes;
  for (const KeptArray& array : kept_arrays(unit, 0)) {
    const std::size_t first = std::max(begin, array.begin);
    const std::size_t last = std::min(begin + shard, array.begin + array.count);
    if (first >= last) continue;
    const std::size_t at = bytes.size();
    bytes.resize(at + (last - first) * sizeof(float));
    array.read(array.at({first, last - first}), std::span(bytes).subspan(at));
    compute.synchronize();
  }
  return bytes;
}

std::string Engine::parameters_hash() const {
  Sha256 own;
  for (std::size_t u = 0; u < plans_.units.size(); ++u) {
    own.update(fetch_master(u));
  }
  Sha256 all;
  for (const std::string& digest : gather_by_shard(own.hex())) {
    all.update(std::as_bytes(std::span(digest)));
  }
  return control_.broadcast(all.hex());
}

std::vector<float> Engine::gather_master(std::size_t unit) const {
  std::vector<float> full;
  std::string own;
  control_.agree(status_of([&] {
    if (control_.rank() == 0) full.reserve(plans_.units[unit].padded);
    const std::vector<std::byte> shard = fetch_master(unit);
    own.assign(reinterpret_cast<const char*>(shard.data()), shard.size());
  }));
  for (std::string& part : gather_by_shard(own)) {
    const std::size_t at = full.size();
    full.resize(at + part.size() / sizeof(float));
    std::memcpy(full.data() + at, part.data(), part.size());
    part = {};  // gigabytes, of which rank 0 has all
  }
  if (!full.empty()) full.resize(plans_.units[unit].flat);
  return full;
}

std::vector<const AsyncFile*> Engine::files() const {
  std::vector<const AsyncFile*> found;
  if (offloaded_ && offloaded_->records() != nullptr)
    found.push_back(&offloaded_->records()->file());
  if (filed_) found.push_back(&filed_->file());
  return found;
}

void Engine::record_files() {
  for (const AsyncFile* file : files()) {
    ++recorder_.counters["files"];
    if (file->has_ring()) ++recorder_.counters["files_io_uring"];
    if (file->is_direct()) ++recorder_.counters["files_direct"];
  }
  if (recorder_.counters.contains("files") && !recorder_.counters.contains("files_io_uring")) {
    log::warn(fmt::format("files are read and written by threads: {}", why_no_ring()));
  }
}

AsyncFileTotals Engine::transfers() const {
  AsyncFileTotals totals;
  for (const AsyncFile* file : files()) totals += file->totals();
  return totals;
}

void Engine::count_transfers(const AsyncFileTotals& before) {
  const AsyncFileTotals after = transfers();
  const auto count = [&](const char* name, std::uint64_t value) {
    if (value > 0) recorder_.counters[name] += value;
  };
  count("file_bytes_read", after.bytes_read - before.bytes_read);
  count("file_bytes_written", after.bytes_written - before.bytes_written);
  count("file_reads", after.reads - before.reads);
  count("file_writes", after.writes - before.writes);
  count("file_wait_ns", static_cast<std::uint64_t>((after.waited - before.waited) * 1e9));
}

std::vector<MemoryReport> Engine::memory() const {
  const bool weights_stay = options_.offload_param.enabled();
  const std::size_t weights = bytes_of(compute_shards_);
  const std::size_t secondary = secondary_ ? secondary_->bytes() : 0;
  std::vector<std::size_t> actual{optimizer_.master_bytes(),
                                  optimizer_.state_bytes(),
                                  bytes_of(gradient_shards_),
                                  weights_stay ? 0 : weights,
                                  bytes_of(resident_weights_),
                                  bytes_of(local_gradients_),
                                  secondary};
  if (offloaded_) {
    actual.push_back(offloaded_->shard().master_bytes());
    actual.push_back(offloaded_->shard().state_bytes());
    actual.push_back(offloaded_->staging_bytes());
  }
  if (weights_stay) actual.push_back(weights);
  if (options_.offload_param.on_file()) actual.push_back(filed_ ? filed_->bytes() : 0);
  std::vector<MemoryReport> reports;
  const auto predicted = state_memory(plans_.units, preset_, options_.compute, optimizer_.states(),
                                      options_.offload_optimizer, options_.offload_param);
  for (std::size_t i = 0; i < actual.size(); ++i)
    reports.push_back({predicted[i].name, predicted[i].bytes, actual[i]});
  for (const MemoryReport& errors : plans_.gradients.errors().memory()) reports.push_back(errors);
  if (adaptive_) reports.push_back(adaptive_->memory());
  if (errors_) reports.push_back(errors_->memory());
  reports.push_back({"arena", plans_.step.arena_bytes(), arena_.bytes()});
  reports.push_back(model_.memory());
  return reports;
}

}  // namespace zeropp::zero
