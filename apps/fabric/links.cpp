#include "apps/fabric/links.hpp"

#include <algorithm>
#include <utility>

#include "lib/base/statistics.hpp"
#include "lib/bench/timing.hpp"

namespace zeropp::fabric {

namespace {

constexpr std::size_t kRoundTrips = 10;  // of a repetition: long beside a synchronization
constexpr std::size_t kTransfers = 4;
constexpr double kSeconds = 0.02;  // of all repetitions
constexpr std::size_t kFewest = 5;
constexpr std::size_t kMost = 1000;

constexpr std::byte kPoison{0xA5};

/// Two floats, which are integers: the sum of two such words is exact.
using Pair = std::array<float, 2>;

/// Word `index` of what `sender` sends: another one for every sender and place.
Pair word(int sender, std::size_t index) {
  const std::uint64_t mixed = (index + 1) * 0x9E3779B97F4A7C15U;
  const std::uint64_t both = mixed ^ (static_cast<std::uint64_t>(sender) + 1) * 0xD6E8FEB86659FD93U;
  return {static_cast<float>(both >> 42U), static_cast<float>(both >> 20U & 0x3FFFFFU)};
}
Pair sum(const Pair& a, const Pair& b) { return {a[0] + b[0], a[1] + b[1]}; }

auto words_of(int sender) {
  return [=](std::size_t index) { return word(sender, index); };
}

/// Noise only adds to a latency, and the smallest is the link's own; a bandwidth is what is had.
Timing latency_of(const std::vector<double>& seconds) {
  const double least = std::ranges::min(seconds);
  return {least, median(seconds) - least, least};
}
Timing transfer_of(const std::vector<double>& seconds) {
  const double middle = median(seconds);
  const double least = std::ranges::min(seconds);
  return {middle, middle - least, least};
}

}  // namespace

LinkBench::LinkBench(comm::Control& control, const Device& device, const Stream& stream,
                     std::size_t bytes, std::size_t rail_bytes)
    : control_(control),
      rank_(control.rank()),
      device_(device),
      stream_(stream),
      bytes_(bytes),
      out_(std::max(bytes, rail_bytes), device.memory),
      in_(out_.bytes(), device.memory),
      small_out_(kSmallMessage, device.memory),
      small_in_(kSmallMessage, device.memory),
      words_(out_.bytes() / sizeof(Pair)) {
  for (std::size_t i = 0; i < words_.size(); ++i) words_[i] = word(rank_, i);
  const auto* const words = reinterpret_cast<const std::byte*>(words_.data());
  stream_.copy(out_.data(), words, out_.bytes());
  stream_.copy(small_out_.data(), words, kSmallMessage);
  stream_.synchronize();
}

Link LinkBench::meet(comm::Communicator& group, int peer, bool begins) {
  const bool has_peer = peer >= 0;
  const auto send = [&](const Buffer& from, std::size_t bytes) {
    exchange(group, has_peer ? Sends{{from.data(), bytes, peer}} : Sends{}, {});
  };
  const auto receive = [&](const Buffer& to, std::size_t bytes) {
    exchange(group, {}, has_peer ? Receives{{to.data(), bytes, peer}} : Receives{});
  };
  const auto round_trip = [&] {
    if (begins) send(small_out_, kSmallMessage);
    receive(small_in_, kSmallMessage);
    if (!begins) send(small_out_, kSmallMessage);
  };
  const auto transfers = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) begins ? send(out_, bytes_) : receive(in_, bytes_);
    begins ? receive(small_in_, kSmallMessage) : send(small_out_, kSmallMessage);
  };
  poison();
  round_trip();  // connections are made by the first message of a pair
  transfers(1);
  const auto trips = time(kRoundTrips, round_trip);
  auto seconds = time(1, [&] { transfers(kTransfers); });
  Link link;
  if (!has_peer) return link;
  if (!begins) {
    link.corrupted = static_cast<double>(damaged(words_of(peer), 0, bytes_));
    return link;
  }
  link.latency = latency_of(trips);
  for (double* part : {&link.latency.value, &link.latency.spread, &link.latency.least}) *part /= 2;
  for (double& value : seconds) value /= static_cast<double>(kTransfers);
  link.transfer = transfer_of(seconds);
  return link;
}

Link LinkBench::all_reduce(comm::Communicator& pair, int peer) {
  const auto reduce = [&](const Buffer& from, const Buffer& to, std::size_t bytes) {
    const std::size_t count = bytes / sizeof(float);
    const comm::NativeCall call{comm::NativeOp::all_reduce, from.view(count, Dtype::fp32),
                                to.view(count, Dtype::fp32)};
    return [this, &pair, peer, call] {
      if (peer >= 0) pair.native_collective(call, stream_.handle())->wait(stream_.handle());
    };
  };
  Link link = repeat(reduce(small_out_, small_in_, kSmallMessage), reduce(out_, in_, bytes_));
  if (peer < 0) return {};
  link.corrupted = static_cast<double>(damaged(
      [&](std::size_t index) { return sum(word(rank_, index), word(peer, index)); }, 0, bytes_));
  return link;
}

Link LinkBench::copy_own(comm::Communicator& group) {
  const int own = group.rank();
  const auto copy = [&](const Buffer& from, const Buffer& to, std::size_t bytes) {
    return [this, &group, sends = Sends{{from.data(), bytes, own}},
            receives = Receives{{to.data(), bytes, own}}] { exchange(group, sends, receives); };
  };
  Link link = repeat(copy(small_out_, small_in_, kSmallMessage), copy(out_, in_, bytes_));
  link.corrupted = static_cast<double>(damaged(words_of(rank_), 0, bytes_));
  return link;
}

RailLoad LinkBench::load_rail(comm::Communicator& rail, const std::vector<int>& members,
                              std::size_t bytes, std::vector<double>& corrupted) {
  const std::size_t others = members.size() - 1;
  const std::size_t part = bytes / others;
  const auto with_all = [&](const Buffer& from, const Buffer& to, std::size_t size) {
    Sends sends;
    Receives receives;
    for (int peer = 0; peer < rail.size(); ++peer) {
      if (peer == rail.rank()) continue;
      sends.push_back({from.data(), size, peer});
      receives.push_back({to.data() + receives.size() * size, size, peer});
    }
    return [this, &rail, sends, receives] { exchange(rail, sends, receives); };
  };
  const Buffer small_in(kSmallMessage * others, device_.memory);
  const auto small = with_all(small_out_, small_in, kSmallMessage);
  const auto large = with_all(out_, in_, part);
  poison();
  small();
  large();
  RailLoad load;
  load.latency = latency_of(time(kRoundTrips, small));
  load.transfer = transfer_of(time(kTransfers, large));
  std::size_t place = 0;
  for (std::size_t member = 0; member < members.size(); ++member) {
    if (static_cast<int>(member) == rail.rank()) continue;
    corrupted[member] +=
        static_cast<double>(damaged(words_of(members[member]), place++ * part, part));
  }
  return load;
}

void LinkBench::exchange(comm::Communicator& group, const Sends& sends, const Receives& receives) {
  comm::Bytes uncounted;
  group.exchange(sends, receives, stream_.handle(), uncounted)->wait(stream_.handle());
}

Link LinkBench::repeat(const std::function<void()>& small, const std::function<void()>& large) {
  poison();
  small();
  large();
  return {.latency = latency_of(time(kRoundTrips, small)),
          .transfer = transfer_of(time(kTransfers, large))};
}

std::vector<double> LinkBench::time(std::size_t count, const std::function<void()>& run) const {
  stream_.synchronize();
  std::vector<double> seconds;
  double elapsed = 0;  // on the slowest rank
  // The first repetitions do not tell how many fit: where a processor is busy, one may last as long
  // as all others.
  for (std::size_t more = kFewest; elapsed < kSeconds && seconds.size() < kMost; more *= 2) {
    std::array<double, 1> slowest{0};
    for (std::size_t i = 0; i < more; ++i) {
      const double one = bench::seconds_of(stream_, count, run);
      slowest[0] += one;
      seconds.push_back(one / static_cast<double>(count));
    }
    control_.all_reduce_max(slowest);
    elapsed += slowest[0];
  }
  return seconds;
}

void LinkBench::poison() { device_.runtime->fill(in_.data(), bytes_, device_.memory, kPoison); }

template <class Expected>
std::size_t LinkBench::damaged(Expected expected, std::size_t first, std::size_t bytes) {
  const std::size_t count = bytes / sizeof(Pair);
  stream_.copy(reinterpret_cast<std::byte*>(words_.data()), in_.data() + first, bytes);
  stream_.synchronize();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) wrong += words_[i] == expected(i) ? 0 : 1;
  return wrong;
}

}  // namespace zeropp::fabric
