#include "lib/data/token_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "lib/base/error.hpp"
#include "lib/base/sha256.hpp"
#include "lib/data/markov.hpp"
#include "lib/data/text.hpp"
#include "lib/data/token_file.hpp"

namespace zeropp::data {

namespace {

struct Entry {
  std::string_view name;
  std::size_t vocab_size;  ///< 0: as options say
  std::unique_ptr<TokenSource> (*make)(const Options&);
};

const Entry kSources[] = {
    {"llmc", 0, [](const Options& options) { return open_llmc(options.path, options); }},
    {"markov", Markov::kVocab,
     [](const Options& options) -> std::unique_ptr<TokenSource> {
       return std::make_unique<Markov>(options.held_out_fraction);
     }},
    {"megatron", 0,
     [](const Options& options) {
       return open_megatron(options.path + ".idx", options.path + ".bin", options);
     }},
    {"text", Text::kVocab,
     [](const Options& options) -> std::unique_ptr<TokenSource> {
       return std::make_unique<Text>(options.path, options.held_out_fraction);
     }},
};

const Entry& entry(const std::string& name) {
  const auto* const found =
      std::find_if(std::begin(kSources), std::end(kSources),
                   [&](const Entry& candidate) { return candidate.name == name; });
  if (found != std::end(kSources)) return *found;
  throw Error(ExitCode::usage,
              fmt::format("zeropp.data.source: unknown token source '{}': use one of {}", name,
                          fmt::join(source_names(), ", ")));
}

/// Calls `visit` with the tokens of `part`, in order, piece by piece.
template <class Visit>
void for_each_chunk(const TokenSource& source, Part part, const Visit& visit) {
  std::vector<std::int32_t> chunk(std::size_t{1} << 16U);
  for (std::size_t first = 0; first < source.tokens(part); first += chunk.size()) {
    const auto piece = std::span(chunk).first(std::min(chunk.size(), source.tokens(part) - first));
    source.read(part, first, piece);
    visit(std::span<const std::int32_t>(piece));
  }
}

}  // namespace

std::vector<std::string_view> source_names() {
  std::vector<std::string_view> names;
  for (const Entry& candidate : kSources) names.push_back(candidate.name);
  return names;
}

std::size_t trained_on(std::size_t tokens, double held_out_fraction) {
  const double held_out = std::ceil(static_cast<double>(tokens) * held_out_fraction);
  return tokens - std::min(static_cast<std::size_t>(held_out), tokens);
}

void validate(const Options& options) {
  (void)entry(options.source);
  if (reads_file(options) && options.path.empty()) {
    throw Error(ExitCode::usage,
                fmt::format("the token source '{}' has no file: set zeropp.data.path (--data-path)",
                            options.source));
  }
  if (!reads_file(options) && !options.path.empty()) {
    throw Error(
        ExitCode::usage,
        fmt::format(
            "the token source '{}' reads no file, but '{}' was given: use the source 'text'",
            options.source, options.path));
  }
  if (reads_ids(options) && options.vocab_size == 0) {
    throw Error(ExitCode::usage,
                fmt::format("the token source '{}' does not know its tokenizer: set "
                            "zeropp.data.vocab_size (--data-vocab-size), 50257 for GPT-2's",
                            options.source));
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

std::size_t vocab_size(const Options& options) {
  const std::size_t own = entry(options.source).vocab_size;
  return own == 0 ? options.vocab_size : own;
}

std::string fingerprint(const TokenSource& source) {
  Sha256 hash;
  for (const Part part : {Part::train, Part::held_out}) {
    hash.update(fmt::format("{} ", source.tokens(part)));
    for_each_chunk(source, part, [&](auto tokens) { hash.update(std::as_bytes(tokens)); });
  }
  return hash.hex();
}

double held_out_unigram_entropy_bits(const TokenSource& source) {
  const std::size_t total = source.tokens(Part::held_out);
  std::vector<std::size_t> counts(source.vocab_size(), 0);
  for_each_chunk(source, Part::held_out, [&](std::span<const std::int32_t> tokens) {
    for (const std::int32_t token : tokens) ++counts[static_cast<std::size_t>(token)];
  });
  double entropy = 0.0;
  for (const std::size_t count : counts) {
    if (count == 0) continue;
    const double p = static_cast<double>(count) / static_cast<double>(total);
    entropy -= p * std::log2(p);
  }
  return entropy;
}

}  // namespace zeropp::data
