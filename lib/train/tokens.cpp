#include "lib/train/tokens.hpp"

#include <fmt/format.h>

namespace zeropp::train {

namespace {

/// Ranks may see different files under one path: on other machines, or from other folders.
void agree_on_tokens(const Tokens& tokens, const app::Context& context) {
  const std::string reference = context.control().broadcast(tokens.fingerprint);
  context.agree_on([&] {
    if (tokens.fingerprint == reference) return;
    throw Error(ExitCode::io,
                fmt::format("token source '{}' is not the same on rank {} as on rank 0: give all "
                            "ranks the same file",
                            tokens.source->description(), context.control().rank()));
  });
}

Tokens make_tokens(const data::Options& options) {
  Tokens tokens;
  tokens.source = data::make_source(options);
  tokens.fingerprint = data::fingerprint(*tokens.source);
  return tokens;
}

/// Tokens that the first of the virtual ranks of a run has made, for the others too: they have one
/// configuration, and take turns.
Tokens of_virtual_ranks(const data::Options& options) {
  static std::weak_ptr<const data::TokenSource> source;
  static std::string fingerprint;
  if (auto made = source.lock()) return {made, fingerprint};
  Tokens tokens = make_tokens(options);
  source = tokens.source;
  fingerprint = tokens.fingerprint;
  return tokens;
}

}  // namespace

trace::DataInfo describe_tokens(const data::TokenSource& source) {
  return {source.description(),
          source.tokens(data::Part::train),
          source.tokens(data::Part::held_out),
          source.vocab_size(),
          data::held_out_unigram_entropy_bits(source),
          source.entropy_bits()};
}

Tokens load_tokens(const data::Options& options, const app::Context& context) {
  Tokens tokens;
  context.agree_on([&] {
    tokens = context.topology().virtual_ranks ? of_virtual_ranks(options) : make_tokens(options);
  });
  agree_on_tokens(tokens, context);
  return tokens;
}

}  // namespace zeropp::train
