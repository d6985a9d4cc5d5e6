// ctest: name=data_sources labels=sanitize
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "lib/base/error.hpp"
#include "lib/data/markov.hpp"
#include "lib/data/text.hpp"
#include "lib/data/token_source.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::data {
namespace {

using testing::HasSubstr;

std::vector<std::int32_t> all(const TokenSource& source, Part part) {
  std::vector<std::int32_t> tokens(source.tokens(part));
  source.read(part, 0, tokens);
  return tokens;
}

std::filesystem::path write(const test::TemporaryFolder& folder, const std::string& name,
                            const std::string& content) {
  const auto file = folder.path() / name;
  std::ofstream(file, std::ios::binary) << content;
  return file;
}

Options options_of(const std::string& source, const std::string& path,
                   double held_out_fraction = 0.05) {
  Options options;
  options.source = source;
  options.path = path;
  options.held_out_fraction = held_out_fraction;
  return options;
}

std::string refusal(const Options& options, ExitCode code) {
  try {
    (void)make_source(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  return "";
}

TEST(Text, BytesInOrderAndTheEndHeldOut) {
  const test::TemporaryFolder scratch;
  std::string content;
  for (int i = 0; i < 1003; ++i) content.push_back(static_cast<char>(i * 7 % 256));
  const auto path = write(scratch, "corpus", content);
  const auto source = make_source(options_of("text", path.string(), 0.1));
  EXPECT_EQ(source->vocab_size(), 256U);
  EXPECT_EQ(source->tokens(Part::held_out), 101U);
  EXPECT_EQ(source->tokens(Part::train), 902U);
  EXPECT_TRUE(std::isnan(source->entropy_bits()));
  EXPECT_EQ(source->description(), "text " + path.string());
  auto tokens = all(*source, Part::train);
  const auto held_out = all(*source, Part::held_out);
  tokens.insert(tokens.end(), held_out.begin(), held_out.end());
  ASSERT_EQ(tokens.size(), content.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    EXPECT_EQ(tokens[i], static_cast<std::int32_t>(static_cast<unsigned char>(content[i])));
  }
  std::vector<std::int32_t> part(5);
  source->read(Part::held_out, 7, part);
  EXPECT_EQ(part.front(), static_cast<std::int32_t>((902 + 7) * 7 % 256));
}

TEST(Text, UnreadableFilesAreIoErrors) {
  const test::TemporaryFolder scratch;
  const auto with_path = [](const std::filesystem::path& path) {
    return options_of("text", path.string());
  };
  const auto missing = scratch.path() / "missing";
  EXPECT_THAT(refusal(with_path(missing), ExitCode::io), HasSubstr(missing.string()));
  EXPECT_THAT(refusal(with_path(missing), ExitCode::io), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(with_path(scratch.path()), ExitCode::io), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal(with_path(write(scratch, "empty", "")), ExitCode::io), HasSubstr("is empty"));
}

TEST(Options, RefusalsNameTheRemedy) {
  EXPECT_THAT(refusal(options_of("txt", ""), ExitCode::usage),
              HasSubstr("use one of llmc, markov, megatron, text"));
  EXPECT_THAT(refusal(options_of("text", ""), ExitCode::usage), HasSubstr("has no file"));
  EXPECT_THAT(refusal(options_of("markov", "x"), ExitCode::usage),
              HasSubstr("use the source 'text'"));
  for (const double fraction : {0.0, 1.0, -0.1, std::nan("")}) {
    EXPECT_THAT(refusal(options_of("markov", "", fraction), ExitCode::usage),
                HasSubstr("between 0 and 1"));
  }
}

TEST(Markov, RowsAreDistributions) {
  const Markov markov(0.05);
  for (std::size_t from = 0; from < Markov::kVocab; ++from) {
    double sum = 0.0;
    std::size_t successors = 0;
    for (std::size_t to = 0; to < Markov::kVocab; ++to) {
      const double p = markov.probability(from, to);
      EXPECT_GE(p, 0.0);
      sum += p;
      successors += p > 0.0 ? 1 : 0;
    }
    EXPECT_DOUBLE_EQ(sum, 1.0);
    EXPECT_EQ(successors, Markov::kSuccessors);
    EXPECT_GT(markov.probability(from, (from + 1) % Markov::kVocab), 0.0);
  }
  const auto pi = markov.stationary();
  double total = 0.0;
  for (std::size_t to = 0; to < Markov::kVocab; ++to) {
    double next = 0.0;
    for (std::size_t from = 0; from < Markov::kVocab; ++from) {
      next += pi[from] * markov.probability(from, to);
    }
    EXPECT_NEAR(next, pi[to], 1e-12);
    total += pi[to];
  }
  EXPECT_NEAR(total, 1.0, 1e-12);
}

/// The stream has the entropy that the closed form says, and the frequencies of the chain.
TEST(Markov, StreamAgreesWithTheClosedForm) {
  const Markov markov(0.05);
  const auto tokens = all(markov, Part::train);
  std::map<std::pair<std::int32_t, std::int32_t>, double> pairs;
  std::vector<double> counts(Markov::kVocab, 0.0);
  double bits = 0.0;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const auto from = static_cast<std::size_t>(tokens[i - 1]);
    const auto to = static_cast<std::size_t>(tokens[i]);
    ASSERT_GT(markov.probability(from, to), 0.0);
    bits -= std::log2(markov.probability(from, to));
    counts[from] += 1.0;
    pairs[{tokens[i - 1], tokens[i]}] += 1.0;
  }
  const auto n = static_cast<double>(tokens.size() - 1);
  EXPECT_NEAR(bits / n, markov.entropy_bits(), 0.005);
  double empirical = 0.0;
  for (const auto& [pair, count] : pairs) {
    empirical -= count / n * std::log2(count / counts[static_cast<std::size_t>(pair.first)]);
  }
  EXPECT_NEAR(empirical, markov.entropy_bits(), 0.005);
  const auto pi = markov.stationary();
  for (std::size_t i = 0; i < Markov::kVocab; ++i) EXPECT_NEAR(counts[i] / n, pi[i], 0.002);
}

TEST(Markov, ThereIsSomethingToLearnAndItIsAlwaysTheSame) {
  const Markov first(0.05);
  const Markov second(0.05);
  EXPECT_EQ(all(first, Part::held_out), all(second, Part::held_out));
  EXPECT_GT(held_out_unigram_entropy_bits(first), first.entropy_bits() + 2.0);
  EXPECT_EQ(first.tokens(Part::train) + first.tokens(Part::held_out), Markov::kTokens);
}

TEST(UnigramEntropy, OfAKnownText) {
  const test::TemporaryFolder scratch;
  // Held out: the last half, a a a a b b c d: entropy 1.75 bits.
  const auto path = write(scratch, "corpus", "zzzzzzzzaaaabbcd");
  const Text text(path.string(), 0.5);
  EXPECT_DOUBLE_EQ(held_out_unigram_entropy_bits(text), 1.75);
}

}  // namespace
}  // namespace zeropp::data
