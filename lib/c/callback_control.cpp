#include "lib/c/callback_control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/c/error_guard.hpp"
#include "lib/comm/rank_order.hpp"

namespace zeropp::c {

template <class Value>
std::vector<Value> CallbackControl::gather_values(std::span<const Value> part) {
  std::vector<Value> all(part.size() * static_cast<std::size_t>(size_));
  if (part.empty()) return all;
  const int status =
      callbacks_.all_gather_bytes(callbacks_.context, part.data(), all.data(), part.size_bytes());
  if (status != 0) {
    throw CallbackFailure(fmt::format(
        "all_gather_bytes of {} bytes, rank {} of {}: the callback returned {}: look for what it "
        "reported",
        part.size_bytes(), rank_, size_, status));
  }
  return all;
}

void CallbackControl::barrier() {
  const std::array<std::uint64_t, 1> nothing{};
  (void)gather_values(std::span<const std::uint64_t>(nothing));
}

void CallbackControl::all_reduce_sum(std::span<double> values) {
  const auto all = gather_values(std::span<const double>(values));
  comm::add_in_rank_order(std::span<const double>(all), values);
}

void CallbackControl::all_reduce_sum(std::span<std::uint64_t> values) {
  const auto all = gather_values(std::span<const std::uint64_t>(values));
  comm::add_in_rank_order(std::span<const std::uint64_t>(all), values);
}

void CallbackControl::all_reduce_max(std::span<double> values) {
  const auto all = gather_values(std::span<const double>(values));
  comm::take_maxima(all, values);
}

std::vector<double> CallbackControl::all_gather(std::span<const double> part) {
  return gather_values(part);
}

std::vector<std::uint64_t> CallbackControl::all_gather(std::span<const std::uint64_t> part) {
  return gather_values(part);
}

std::vector<std::string> CallbackControl::all_gather_texts(const std::string& part) {
  const std::array<std::uint64_t, 1> length{part.size()};
  const auto lengths = gather_values(std::span<const std::uint64_t>(length));
  const std::size_t longest = std::ranges::max(lengths);
  std::string padded = part;
  padded.resize(longest);
  const auto all = gather_values(std::span<const char>(padded));
  std::vector<std::string> parts;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    parts.emplace_back(all.data() + r * longest, lengths[r]);
  }
  return parts;
}

std::vector<std::string> CallbackControl::gather(const std::string& part) {
  auto parts = all_gather_texts(part);
  if (rank_ != 0) parts.clear();
  return parts;
}

std::string CallbackControl::broadcast(const std::string& from_rank_0) {
  return all_gather_texts(rank_ == 0 ? from_rank_0 : std::string()).front();
}

}  // namespace zeropp::c
