#include "lib/zero/engine/kept_copies.hpp"

#include <fmt/format.h>

#include <cstring>

namespace zeropp::zero {

namespace {
/// Version of the weights that the copies follow.
checkpoint::Slice copy_version() { return {"copy_version", sizeof(std::uint64_t), 1, 0, 1}; }
}  // namespace

std::size_t KeptCopies::pieces(std::size_t unit) const {
  return memory_.copy(unit).count / context_.units()[unit].shard;
}

/// Copies are kept with what no tensor covers, which is encoded as well.
checkpoint::Slice KeptCopies::slice(std::size_t unit, std::size_t number) const {
  const UnitPartition& of = context_.units()[unit];
  const std::size_t apart = context_.world_size() / pieces(unit);  // 1, or the ranks of a node
  const std::size_t rank = number * apart + context_.shard_rank() % apart;
  return {fmt::format("{}/copy/{}", context_.model.units()[unit].name, name_of(of.secondary_dtype)),
          size_of(of.secondary_dtype), of.padded, rank * of.shard, of.shard};
}

View KeptCopies::piece(std::size_t unit, std::size_t number) const {
  const std::size_t shard = context_.units()[unit].shard;
  return memory_.copy(unit).part(number * shard, shard);
}

std::uint64_t& KeptCopies::held_version() const {
  Progress& progress = context_.progress;
  return memory_.secondary ? progress.secondary : progress.resident;
}

std::vector<KeptSlice> KeptCopies::slices() const {
  std::vector<KeptSlice> slices;
  if (!context_.options.weight_differences.enabled) return slices;
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    if (pieces(u) == 0) continue;
    const std::size_t own = context_.own_piece(pieces(u));
    const auto* const from = static_cast<const std::byte*>(piece(u, own).data);
    slices.push_back({slice(u, own), [this, from](std::span<std::byte> to) {
                        context_.compute().copy(to.data(), from, to.size());
                      }});
  }
  if (context_.groups.world->rank() == 0) {
    slices.push_back({copy_version(), [this](std::span<std::byte> to) {
                        std::memcpy(to.data(), &held_version(), to.size());
                      }});
  }
  return slices;
}

bool KeptCopies::restore(const ReadSlice& read, const HasSlice& has) {
  context_.recorder.copies_found = "none";
  if (!context_.options.weight_differences.enabled) return true;
  if (!has(copy_version())) return false;
  const std::vector<UnitPartition>& units = context_.units();
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (pieces(u) > 0 && !has(slice(u, 0))) return false;
  }
  std::uint64_t version = 0;
  read(copy_version(), std::as_writable_bytes(std::span(&version, 1)));
  // Exact differences are taken anew of current copies too: a run that loses something may have
  // made them. Where it did not, nothing differs, and nothing is sent.
  if (context_.options.weight_differences.exact && version == context_.progress.version) --version;
  if (version == 0) return true;  // the run that saved them had not yet filled them either
  const Stream& compute = context_.compute();
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (memory_.secondary) memory_.secondary->set_version(u, version);
    for (std::size_t k = 0; k < pieces(u); ++k) {
      const View to = piece(u, k);
      std::vector<std::byte> values(to.bytes());
      read(slice(u, k), values);
      compute.copy(static_cast<std::byte*>(to.data), values.data(), values.size());
      compute.synchronize();
    }
  }
  const bool current = version == context_.progress.version;
  held_version() = version;
  context_.recorder.copies_found = current ? "current" : "behind";
  return true;
}

}  // namespace zeropp::zero
