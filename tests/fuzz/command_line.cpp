// The command line of zpp_train: a word a line. No word names a file, since files have targets of
// their own.
#include "lib/app/command_line.hpp"

#include <sstream>
#include <vector>

#include "lib/config/options.hpp"
#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  std::vector<std::string> words{"zpp_train"};
  std::istringstream lines(test::text_of(data, size));
  for (std::string line; std::getline(lines, line);)
    words.push_back(line.substr(0, line.find('\0')));
  for (const std::string& word : words) {
    // --config or --deepspeed_config, however it is cut short
    if (word.starts_with("--co") || word.starts_with("--de")) return 0;
  }
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  test::may_refuse([&] {
    config::TrainConfig config;
    app::App app{.name = "train", .summary = "fuzz", .options = config::options(config)};
    (void)app::parse_command_line(app, static_cast<int>(pointers.size()), pointers.data());
  });
  return 0;
}
