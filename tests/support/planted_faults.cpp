// Fault of the programs defective_*: ZEROPP_FAULT names it as KIND:RANK:NUMBER.
//   kill, stop, late   rank RANK ends by SIGKILL, stops, or sleeps for two seconds at its operation
//                      NUMBER
//   drop, corrupt      the first message that it sends from its operation NUMBER on is lost, or has
//                      a bit flipped
//   of kDiskFaults     its call NUMBER of that sort, from 1, and all later ones fail
//   no_memory,         so does its writer of checkpoints, at the chunk NUMBER, from 1, or where the
//   no_thread          thread NUMBER is to be started
//   clock              its clock is NUMBER seconds ahead
//   flip_VALUES,       in its step NUMBER / kUnits a bit of the VALUES of kFlips of unit NUMBER %
//   flips_VALUES       kUnits is flipped, once or in every step from then on
// Ranks are those of the launcher.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/base/fault.hpp"

namespace zeropp::fault {
namespace {

/// A disk that is full or fails, and a quota that is used up. Local file systems notice it when
/// bytes are written, file systems of a network when bytes are flushed, and all of them when a file
/// is one too many.
struct DiskFault {
  std::string_view kind;
  DiskCall call;
  int error;
};
constexpr DiskFault kDiskFaults[] = {
    {"disk_full", DiskCall::write, ENOSPC},   {"disk_error", DiskCall::write, EIO},
    {"quota_write", DiskCall::write, EDQUOT}, {"quota_flush", DiskCall::flush, EDQUOT},
    {"quota_name", DiskCall::name, EDQUOT},   {"offload_full", DiskCall::put, ENOSPC},
    {"offload_error", DiskCall::get, EIO},
};

/// Values in memory whose bits are flipped, and the word for them.
struct Flip {
  std::string_view word;
  Values values;
};
constexpr Flip kFlips[] = {{"gathered", Values::gathered}, {"secondary", Values::secondary},
                           {"sum", Values::sum},           {"resident", Values::resident},
                           {"master", Values::master},     {"moments", Values::moments},
                           {"updated", Values::updated}};
constexpr std::uint64_t kUnits = 100;

struct Planted {
  std::string kind;  ///< empty: none here
  std::uint64_t number = 0;
};

std::string_view own_rank() {
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* rank = std::getenv(variable)) return rank;
  }
  return "0";
}

Planted read() {
  const char* const variable = std::getenv("ZEROPP_FAULT");
  if (variable == nullptr) return {};
  const std::string text = variable;
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first + 1);
  const std::string kind = text.substr(0, first);
  bool known = false;
  for (const std::string_view name :
       {"kill", "stop", "late", "drop", "corrupt", "clock", "no_memory", "no_thread"}) {
    known = known || kind == name;
  }
  for (const DiskFault& disk : kDiskFaults) known = known || kind == disk.kind;
  for (const Flip& flip : kFlips) {
    known = known || kind == "flip_" + std::string(flip.word) ||
            kind == "flips_" + std::string(flip.word);
  }
  if (!known || second == std::string::npos) {
    throw Error(ExitCode::usage, "ZEROPP_FAULT is no KIND:RANK:NUMBER: " + text +
                                     ": see tests/support/planted_faults.cpp");
  }
  if (text.substr(first + 1, second - first - 1) != own_rank()) return {};
  return {kind, std::stoull(text.substr(second + 1))};
}

const Planted& planted() {
  static const Planted found = read();
  return found;
}

/// Whether the fault strikes, which it does once, at `number` or after it.
bool strikes(std::string_view kind, std::uint64_t number) {
  static bool struck = false;
  if (struck || planted().kind != kind || number < planted().number) return false;
  struck = true;
  return true;
}

}  // namespace

void at_operation(std::uint64_t number) noexcept {
  if (strikes("kill", number)) std::raise(SIGKILL);
  if (strikes("stop", number)) std::raise(SIGSTOP);
  if (strikes("late", number)) std::this_thread::sleep_for(std::chrono::seconds(2));
}

bool drops_message(std::uint64_t number) { return strikes("drop", number); }

const std::byte* as_sent(std::uint64_t number, const std::byte* data, std::size_t bytes) {
  static std::vector<std::byte> copy;  // until the end: the message may be read at any time
  if (bytes == 0 || !strikes("corrupt", number)) return data;
  copy.assign(data, data + bytes);
  copy[bytes / 2] ^= std::byte{0x40};
  return copy.data();
}

int of_disk(DiskCall call) {
  static std::atomic<std::uint64_t> calls = 0;  // checkpoints are written on a thread
  for (const DiskFault& disk : kDiskFaults) {
    if (disk.call == call && disk.kind == planted().kind) {
      return ++calls < planted().number ? 0 : disk.error;
    }
  }
  return 0;
}

void run_out_of(Resource resource) {
  static std::atomic<std::uint64_t> calls = 0;
  if (planted().kind != (resource == Resource::memory ? "no_memory" : "no_thread")) return;
  if (++calls < planted().number) return;
  if (resource == Resource::memory) throw std::bad_alloc();
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

bool flips() { return planted().kind.starts_with("flip"); }

void flip(Values values, std::uint64_t step, std::size_t unit, void* data, std::size_t bytes) {
  const Planted& plan = planted();
  const std::size_t word = plan.kind.find('_') + 1;
  for (const Flip& flip : kFlips) {
    if (!flips() || bytes == 0 || flip.values != values || plan.kind.substr(word) != flip.word)
      continue;
    const bool again = plan.kind.starts_with("flips_") && plan.number % kUnits == unit &&
                       plan.number <= step * kUnits + unit;
    if (again || (plan.number % kUnits == unit &&
                  strikes("flip_" + std::string(flip.word), step * kUnits + unit))) {
      static_cast<std::byte*>(data)[bytes / 2] ^= std::byte{0x10};
    }
  }
}

std::chrono::seconds of_clock() {
  return std::chrono::seconds(planted().kind == "clock" ? planted().number : 0);
}

}  // namespace zeropp::fault
