#include "lib/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "lib/base/text.hpp"

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

thread_local bool muted = false;

}  // namespace

void set_program(const std::string& name) { instance() = make(name); }

void set_muted(bool now) { muted = now; }
bool is_muted() { return muted; }

// The message is an argument, never the format: it may hold braces. Text that it quotes from a file
// may hold any characters.
void info(const std::string& message) {
  if (!muted) instance()->info("{}", escaped(message));
}
void warn(const std::string& message) {
  if (!muted) instance()->warn("{}", escaped(message));
}
void error(const std::string& message) { instance()->error("{}", escaped(message)); }

}  // namespace zeropp::log
