// What an engine tells of itself: the hash and the values of its parameters, and its memory.
#include <algorithm>
#include <cstring>

#include "lib/base/sha256.hpp"
#include "lib/zero/engine.hpp"

namespace zeropp::zero {

namespace {

std::size_t bytes_of(const std::vector<Buffer>& buffers) {
  std::size_t total = 0;
  for (const Buffer& buffer : buffers) total += buffer.bytes();
  return total;
}

}  // namespace

std::vector<std::byte> Engine::fetch(ConstView view) const {
  std::vector<std::byte> bytes(view.bytes());
  const Stream& compute = stream(StreamId::compute);
  join({StreamId::update});
  compute.synchronize();  // the copy to pageable memory would wait unwatched
  device_.memory_ops->copy(view, {bytes.data(), view.count, view.dtype}, compute.handle());
  compute.synchronize();
  return bytes;
}

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
  std::vector<std::byte> bytes;
  for (const KeptArray& array : kept_masters(unit)) {
    const std::size_t first = std::max(begin, array.begin);
    const std::size_t last = std::min(begin + shard, array.begin + array.values.count);
    if (first >= last) continue;
    const auto part = fetch(array.at({first, last - first}));
    bytes.insert(bytes.end(), part.begin(), part.end());
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
  const std::vector<std::byte> shard = fetch_master(unit);
  const auto parts =
      gather_by_shard(std::string(reinterpret_cast<const char*>(shard.data()), shard.size()));
  std::vector<float> full;
  for (const std::string& part : parts) {
    const std::size_t at = full.size();
    full.resize(at + part.size() / sizeof(float));
    std::memcpy(full.data() + at, part.data(), part.size());
  }
  if (!full.empty()) full.resize(plans_.units[unit].flat);
  return full;
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
