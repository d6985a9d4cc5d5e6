// Lines that run a planned configuration elsewhere: keys of a DeepSpeed JSON, statements of a
// script of FSDP2 with zeropp.torch, keys of accelerate and flags of torchtitan.
#pragma once

#include <string>
#include <vector>

#include "lib/config/train_config.hpp"

namespace zeropp::plan_app {

/// Lines for one program; none where it has no such run.
struct Recipe {
  std::vector<std::string> deepspeed = {};   ///< keys of a JSON file
  std::vector<std::string> fsdp2 = {};       ///< statements of a Python script
  std::vector<std::string> accelerate = {};  ///< keys of its configuration, and where to compress
  std::vector<std::string> torchtitan = {};  ///< its flags, and where to compress
};

/// How to shard and to compress as the resolved `config` does, on so many nodes.
Recipe recipe_of(const config::TrainConfig& config, int nodes, int ranks_per_node);

}  // namespace zeropp::plan_app
