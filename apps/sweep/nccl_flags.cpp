#include "apps/sweep/nccl_flags.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "lib/base/text.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::sweep {

namespace {

/// Treatment of a value that is not 0, nccl-tests' default; `absent`: of a flag of rccl-tests
/// alone, which is refused whatever it says.
enum class Otherwise : std::uint8_t { taken, warned, refused, absent };

struct Flag {
  std::string_view letter;
  std::string_view name;
  Otherwise otherwise;
  std::string_view why;
};

constexpr std::array<Flag, 18> kFlags{{
    {"-p", "--parallel_init", Otherwise::taken, "every rank initializes NCCL in its own process"},
    {"-V", "--device_cta_count", Otherwise::taken, "a setting of -D alone"},
    {"-M", "--memory", Otherwise::warned, "the memory that NCCL takes is not reported"},
    {"-S", "--report_timestamps", Otherwise::warned,
     "rows have no timestamps; --json has the begin and the end"},
    {"-y", "--stream_null", Otherwise::refused, "operations run on a stream of their own"},
    {"-R", "--local_register", Otherwise::refused,
     "buffers are not registered with NCCL, so compare with nccl-tests at -R 0"},
    {"-x", "--cta_policy", Otherwise::refused, "communicators keep NCCL's default policy"},
    {"-D", "--device_implementation", Otherwise::refused,
     "the kernels of nccl-tests are not measured, only NCCL's and those of --algorithm"},
    {"-u", "--unalign", Otherwise::refused, "buffers are aligned"},
    {"-Y", "--memory_type", Otherwise::absent,
     "memory is that of the back end: --backend host or cuda"},
    {"-s", "--stress_cycles", Otherwise::absent, "give -N for the number of cycles"},
    {"-O", "--out_of_place", Otherwise::absent, "each row has both, out of place and in place"},
    {"-F", "--cache_flush", Otherwise::absent, "caches are not flushed between iterations"},
    {"-E", "--rotating_tensor", Otherwise::absent, "each row has buffers of its own"},
    {"-q", "--delay", Otherwise::absent, "there is no delay between out of place and in place"},
    {"-A", "", Otherwise::absent, "no flag of nccl-tests"},
    {"-Z", "--output_format", Otherwise::absent, "--json (-J) writes JSON, and --output a trace"},
    {"-X", "--output_file_name", Otherwise::absent,
     "--json (-J) writes JSON, and --output a trace"},
}};

std::string take(const Flag& flag, const std::string& text) {
  if (flag.otherwise == Otherwise::absent) {
    config::refuse("{} is a flag of rccl-tests; {}: leave it out", flag.letter, flag.why);
  }
  const std::string given = fmt::format("{} ({}) {}", flag.name, flag.letter, text);
  if (text.empty() || !std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); })) {
    config::refuse("{}: give a whole number, or leave it out", given);
  }
  if (flag.otherwise == Otherwise::taken || text.find_first_not_of('0') == std::string::npos) {
    return "";
  }
  if (flag.otherwise == Otherwise::warned) return fmt::format("{}: {}", given, flag.why);
  config::refuse("{}: {}: leave it at 0", given, flag.why);
}

}  // namespace

std::vector<app::TakenFlag> nccl_flags() {
  std::vector<app::TakenFlag> all;
  for (const Flag& flag : kFlags) {
    all.push_back(
        {.names = fmt::format("{}{}{}", flag.letter, flag.name.empty() ? "" : ",", flag.name),
         .help = fmt::format(
             "Flag of nccl-tests that {}: {}",
             flag.otherwise == Otherwise::refused ? "may say 0 only" : "has no effect", flag.why),
         .group = flag.otherwise == Otherwise::absent ? "" : "timing",
         .take = [&flag](const std::string& text) { return take(flag, text); }});
  }
  return all;
}

std::string about_collective(const std::string& collective, const std::vector<std::string>& known) {
  const auto bare = [](std::string name) {
    name = lower(std::move(name));
    if (name.starts_with("osu_")) name.erase(0, 4);
    if (name.ends_with("_perf")) name.erase(name.size() - 5);
    std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
    return name == "bcast" ? std::string("broadcast") : name;
  };
  const std::string name = bare(collective);
  const auto same = std::ranges::find(known, name, bare);
  if (same != known.end()) return fmt::format("give {}", *same);
  constexpr std::array<std::string_view, 6> pairs{"sendrecv", "latency", "bw",
                                                  "bibw",     "send",    "recv"};
  if (std::ranges::find(pairs, name) != pairs.end()) return "zpp_fabric measures pairs of ranks";
  constexpr std::array<std::string_view, 7> others{
      "reduce", "gather", "scatter", "hypercube", "alltoallv", "allgatherv", "reducescatterv"};
  if (std::ranges::find(others, name) == others.end()) return "";
  return "ZeRO does not send by it, and it is not measured";
}

std::string about_split() {
  constexpr std::array<const char*, 2> names{"NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK"};
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value == nullptr || std::string_view(value).find_first_not_of("0x ") == std::string::npos) {
      continue;
    }
    return fmt::format(
        "{}={} is not read: --group node runs a collective in every node, --group rail one over "
        "the "
        "ranks with the same place in their nodes",
        name, value);
  }
  return "";
}

}  // namespace zeropp::sweep
