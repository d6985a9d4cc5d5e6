// The options of zpp_kernels, as asked for and as they run.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "apps/kernels/bench.hpp"
#include "lib/config/option.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::kernels {

/// Options as the user gave them.
struct Options {
  std::string filter = ".*";
  bool list = false;
  std::optional<Backend> backend = {};  ///< empty: `auto`, which resolve() decides
  std::string codec = "int8:256,int4:128";
  std::string dtype = "auto";
  std::string images = "4,16";
  std::size_t values = 0;
  std::string shape = "auto";
  std::size_t vocab = 50'257;
  std::size_t cache = 0;  ///< bytes; 0: of the machine's largest
  double maximum_seconds = 0.5;
  std::size_t samples = 0;
  std::size_t seed = 1;
};

/// Every option, bound to `options`, which outlives the table.
std::vector<config::Option> option_table(Options& options);

/// Settings of the run, resolved from the options.
struct Settings {
  Choice choice;
  std::vector<Case> cases;  ///< that the filter leaves; one at least
  bench::Repetition repetition;
};

/// Decides `auto` in `options`, and refuses what does not exist or would have no effect, with the
/// reason. `table`: the kernels that there are. Throws Error(usage), or Error(environment) where
/// GPUs are asked for that are not there.
Settings resolve(Options& options, const std::vector<config::Option>& given,
                 const config::Machine& machine, const std::vector<const Kernel*>& table);

}  // namespace zeropp::kernels
