#include "lib/comm/flight_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <span>

#include "lib/base/atomic_file.hpp"
#include "lib/base/host.hpp"
#include "lib/base/text.hpp"

namespace zeropp::comm {

std::string flight_file_name(int rank) { return fmt::format("flight-record.{:04}.json", rank); }

void write_flight_file(const std::filesystem::path& folder, const FlightHeader& header,
                       const FlightRecord& record) {
  using nlohmann::ordered_json;
  const auto now = FlightRecord::Clock::now();
  const auto before = [now](FlightRecord::Clock::time_point time) {
    return std::chrono::duration<double>(now - time).count();
  };
  ordered_json operations = ordered_json::array();
  for (const Operation& operation : record.read()) {
    operations.push_back({{"number", operation.number},
                          {"operation", operation.name},
                          {"group", operation.group},
                          {"sequence", operation.sequence},
                          {"bytes", operation.bytes},
                          {"state", name_of(operation.state)},
                          {"began", before(operation.began)},
                          {"changed", before(operation.changed)}});
  }
  const ordered_json file{{"schema", "zeropp-flight-record"},
                          {"rank", header.rank},
                          {"ranks", header.ranks},
                          {"host", host_name()},
                          {"pid", ::getpid()},
                          {"written", utc(std::time(nullptr))},
                          {"cause", header.cause},
                          {"operations", operations}};
  const std::string text = file.dump(1) + "\n";
  const std::filesystem::path path = folder / flight_file_name(header.rank);
  preflight_write(path, text.size());  // it makes the folder
  write_atomically(path, std::as_bytes(std::span(text)));
}

}  // namespace zeropp::comm
