// The tokens of a training run, read once and known to be the same on all ranks: a program that
// trains several times on them opens and compares them once.
#pragma once

#include <memory>
#include <string>

#include "lib/app/app.hpp"
#include "lib/data/token_source.hpp"
#include "lib/trace/trace_data.hpp"

namespace zeropp::train {

struct Tokens {
  std::shared_ptr<const data::TokenSource> source;  ///< virtual ranks share one
  std::string fingerprint;                          ///< data::fingerprint()
};

/// Description of a source in a trace.
trace::DataInfo describe_tokens(const data::TokenSource& source);

/// Collective over the ranks of `context`. Throws AgreedError: a file that cannot be read, or that
/// is not the same on all ranks.
Tokens load_tokens(const data::Options& options, const app::Context& context);

}  // namespace zeropp::train
