#include "lib/data/token_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/data/markov.hpp"
#include "lib/data/text.hpp"

namespace zeropp::data {

namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<TokenSource> (*make)(const Options&);
};

const Entry kSources[] = {
    {"markov",
     [](const Options& options) -> std::unique_ptr<TokenSource> {
       return std::make_unique<Markov>(options.held_out_fraction);
     }},
    {"text",
     [](const Options& options) -> std::unique_ptr<TokenSource> {
       return std::make_unique<Text>(options.path, options.held_out_fraction);
     }},
};

const Entry& entry(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kSources), std::end(kSources),
                   [&](const Entry& candidate) { return candidate.name == name; });
  if (found != std::end(kSources)) return *found;
  throw Error(ExitCode::usage, fmt::format("unknown token source '{}': use one of {}", name,
                                           fmt::join(source_names(), ", ")));
}

}  // namespace

std::vector<std::string_view> source_names() {
  std::vector<std::string_view> names;
  for (const Entry& candidate : kSources) names.push_back(candidate.name);
  return names;
}

void validate(const Options& options) {
  (void)entry(options.source);
  if (options.source == "text" && options.path.empty()) {
    throw Error(ExitCode::usage, "the token source 'text' has no file: give its path");
  }
  if (options.source != "text" && !options.path.empty()) {
    throw Error(
        ExitCode::usage,
        fmt::format(
            "the token source '{}' reads no file, but '{}' was given: use the source 'text'",
            options.source, options.path));
  }
  if (!(options.held_out_fraction > 0.0 && options.held_out_fraction < 1.0)) {
    throw Error(ExitCode::usage,
                fmt::format("held_out_fraction is {}: give a number between 0 and 1, both excluded",
                            options.held_out_fraction));
  }
}

std::unique_ptr<TokenSource> make_source(const Options& options) {
  validate(options);
  return entry(options.source).make(options);
}

double held_out_unigram_entropy_bits(const TokenSource& source) {
  const std::size_t total = source.tokens(Part::held_out);
  std::vector<std::size_t> counts(source.vocab_size(), 0);
  std::vector<std::int32_t> chunk(std::size_t{1} << 16U);
  for (std::size_t first = 0; first < total; first += chunk.size()) {
    const std::size_t length = std::min(chunk.size(), total - first);
    source.read(Part::held_out, first, std::span(chunk).first(length));
    for (std::size_t i = 0; i < length; ++i) ++counts[static_cast<std::size_t>(chunk[i])];
  }
  double entropy = 0.0;
  for (const std::size_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(total);
    entropy -= p * std::log2(p);
  }
  return entropy;
}

}  // namespace zeropp::data
