#include "lib/base/log.hpp"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace zeropp::log {
namespace {

std::shared_ptr<spdlog::logger> make(const std::string& name) {
  auto logger =
      std::make_shared<spdlog::logger>(name, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%n: %l: %v");
  logger->flush_on(spdlog::level::info);
  return logger;
}

std::shared_ptr<spdlog::logger>& instance() {
  static std::shared_ptr<spdlog::logger> logger = make("zeropp");
  return logger;
}

/// A message may quote a file: what it says begins no line of its own and moves no terminal.
std::string one_line(const std::string& message) {
  std::string shown;
  for (const char each : message) {
    const auto byte = static_cast<unsigned char>(each);
    if (byte >= 0x20 && byte != 0x7F) {
      shown += each;
    } else {
      shown += fmt::format("\\x{:02x}", byte);
    }
  }
  return shown;
}

}  // namespace

void set_program(const std::string& name) { instance() = make(name); }

void set_muted(bool muted) {
  instance()->set_level(muted ? spdlog::level::err : spdlog::level::info);
}

// The message is an argument, never the format: it may hold braces.
void info(const std::string& message) { instance()->info("{}", one_line(message)); }
void warn(const std::string& message) { instance()->warn("{}", one_line(message)); }
void error(const std::string& message) { instance()->error("{}", one_line(message)); }

}  // namespace zeropp::log
