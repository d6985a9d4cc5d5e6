#include "apps/converge/options.hpp"

#include <limits>

#include "apps/converge/fields.hpp"

namespace zeropp::converge {

namespace {

/// The seeds of a matrix, as a list of JSON.
config::Structured seeds_field(std::vector<std::uint64_t>& seeds) {
  return {.set =
              [&seeds](const nlohmann::json& value, const std::string& where) {
                const nlohmann::json object{{"seeds", value}};
                seeds = Fields(object, where, {"seeds"}).wholes("seeds");
              },
          .value = [&seeds] { return nlohmann::json(seeds); },
          .description = "a JSON array of whole numbers"};
}

}  // namespace

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
      {.path = "data_source",
       .flag = "--data-source",
       .field = &o.data_source,
       .help =
           "Source of the settings whose source reads a file, zeropp.data.source; their data are "
           "then those of the flags alone, as corpus.json lists them",
       .choices = {"text", "llmc", "megatron"},
       .in_effect = [&o] { return !o.data_source.empty(); }},
      {.path = "data_path",
       .flag = "--data-path",
       .field = &o.data_path,
       .help = "File of the settings whose source reads one, zeropp.data.path",
       .in_effect = [&o] { return !o.data_path.empty(); }},
      {.path = "data_vocab_size",
       .flag = "--data-vocab-size",
       .field = &o.data_vocab_size,
       .help = "Size of the vocabulary of that file of ids, zeropp.data.vocab_size",
       .unit = "tokens",
       .range = config::between(0, std::numeric_limits<int>::max()),
       .in_effect = [&o] { return o.data_vocab_size > 0; }},
      {.path = "held_out_fraction",
       .flag = "--held-out-fraction",
       .field = &o.held_out_fraction,
       .help = "Share at the end of that file that is never trained on, "
               "zeropp.data.held_out_fraction; 0: as the matrix says",
       .range = {.minimum = 0, .maximum = 1, .maximum_excluded = true},
       .in_effect = [&o] { return o.held_out_fraction > 0; }},
      {.path = "seeds",
       .flag = "--seeds",
       .field = seeds_field(o.seeds),
       .help = "Seeds of the matrix, instead of the seeds in its file; levels and settings that "
               "have their own keep them",
       .in_effect = [&o] { return !o.seeds.empty(); }}};
}

}  // namespace zeropp::converge
