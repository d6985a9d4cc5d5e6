#include "apps/converge/options.hpp"

#include <limits>

namespace zeropp::converge {

std::vector<config::Option> option_table(Options& o) {
  return {
      {.path = "ranks_per_run",
       .flag = "--ranks-per-run",
       .field = &o.ranks_per_run,
       .help = "Ranks of a team: teams take runs side by side; 0: all ranks are one team",
       .unit = "ranks",
       .range = config::between(0, std::numeric_limits<int>::max())},
      {.path = "backend",
       .flag = "--backend",
       .field = &o.backend,
       .help = "Back end of the matrix' base, zeropp.backend; settings that name one keep it",
       .choices = {"auto", "host", "cuda"},
       .in_effect = [&o] { return !o.backend.empty(); }},
      {.path = "transport",
       .flag = "--transport",
       .field = &o.transport,
       .help =
           "Transport of the matrix' base, zeropp.transport. With cuda, mpi lets ranks share a GPU",
       .choices = {"auto", "mpi", "nccl"},
       .in_effect = [&o] { return !o.transport.empty(); }},
      {.path = "data_path",
       .flag = "--data-path",
       .field = &o.data_path,
       .help = "File of the settings whose source is text, zeropp.data.path",
       .in_effect = [&o] { return !o.data_path.empty(); }}};
}

}  // namespace zeropp::converge
