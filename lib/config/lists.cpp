#include "lib/config/lists.hpp"

#include <algorithm>
#include <stdexcept>

#include "lib/base/text.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::config {

std::vector<std::string> list_of(const std::string& text, const char* flag) {
  auto words = split(text, ',');
  for (const std::string& word : words) {
    if (word.empty()) refuse("{}: \"{}\" has an empty entry: leave it out", flag, text);
    if (std::ranges::count(words, word) > 1) {
      refuse("{}: {} is given twice: leave one out", flag, word);
    }
  }
  return words;
}

std::vector<codec::CodecSpec> codecs_of(const std::string& text, const char* flag) {
  std::vector<codec::CodecSpec> codecs;
  for (const std::string& name : list_of(text, flag)) {
    try {
      codecs.push_back(codec::parse_codec(name));
    } catch (const std::invalid_argument& error) {
      refuse("{}: {}", flag, error.what());
    }
  }
  return codecs;
}

}  // namespace zeropp::config
