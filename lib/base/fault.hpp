// Faults of the machine that a test makes happen: a rank that dies or stops, a message that is lost
// or damaged, a disk that fails, memory that is used up or forgets a bit, a clock that is wrong. In
// every shipped build these functions do nothing, and nothing of a fault is compiled in: only the
// test programs defective_* (tests/CMakeLists.txt) compile the sources that call them with
// ZEROPP_TEST_DEFECTS, with tests/support/planted_faults.cpp, which has the names and says how one
// is asked for.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace zeropp::fault {

/// Calls that are made of a disk: to take bytes, to have them for good, to give a file its name; of
/// what is offloaded there, to take it and to give it back.
enum class DiskCall : std::uint8_t { write, flush, name, put, get };

/// Resources that a machine may have no more of.
enum class Resource : std::uint8_t { memory, threads };

/// Values of a training step that lie in memory.
enum class Values : std::uint8_t { gathered, secondary, sum, resident, master, moments, updated };

#ifdef ZEROPP_TEST_DEFECTS
/// Kills, stops or delays this process at the begin of its operation `number`, if that is planted.
void at_operation(std::uint64_t number) noexcept;
/// Whether a message of operation `number` gets lost.
bool drops_message(std::uint64_t number);
/// Bytes that are sent instead of `data`: the same, or a copy with one bit flipped.
const std::byte* as_sent(std::uint64_t number, const std::byte* data, std::size_t bytes);
/// Errno that such a call fails with; 0: it does not fail.
int of_disk(DiskCall call);
/// Throws what is thrown where there is none left: std::bad_alloc, std::system_error.
void run_out_of(Resource resource);
/// Seconds that the clock of this machine is ahead.
std::chrono::seconds of_clock();
/// Whether bits are flipped somewhere.
bool flips();
/// Flips a bit of a unit's values, `bytes` bytes in the memory of the host, in this step.
void flip(Values values, std::uint64_t step, std::size_t unit, void* data, std::size_t bytes);
#else
constexpr void at_operation(std::uint64_t /*number*/) noexcept {}
constexpr bool drops_message(std::uint64_t /*number*/) { return false; }
constexpr const std::byte* as_sent(std::uint64_t /*number*/, const std::byte* data,
                                   std::size_t /*bytes*/) {
  return data;
}
constexpr int of_disk(DiskCall /*call*/) { return 0; }
constexpr void run_out_of(Resource /*resource*/) {}
constexpr std::chrono::seconds of_clock() { return {}; }
constexpr bool flips() { return false; }
constexpr void flip(Values /*values*/, std::uint64_t /*step*/, std::size_t /*unit*/, void* /*data*/,
                    std::size_t /*bytes*/) {}
#endif

}  // namespace zeropp::fault
