#include "apps/train/program.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "apps/train/trainer.hpp"
#include "lib/app/app.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::train_app {

namespace {

// Flags of zpp_plan, which plans models by their names and clusters.
constexpr std::array<std::string_view, 2> kModelFlags{"--model-preset", "--hf-config"};
constexpr std::array<std::string_view, 2> kClusterFlags{"--gpu", "--cluster"};

}  // namespace

int run(int argc, char** argv) {
  config::TrainConfig config;
  app::App app{
      .name = "train",
      .summary =
          "Trains a model with ZeRO stages 0-3 and ZeRO++ (qwZ, hpZ, qgZ) and writes a trace",
      .examples =
          {"mpirun -n 4 zpp_train --config inputs/demo.json --node-size 2 --output out/mine",
           "mpirun -n 4 zpp_train --node-size 2 --zero-quantized-weights "
           "--zero-quantized-gradients",
           "mpirun -n 4 zpp_train --config inputs/demo.json --save checkpoints --load checkpoints"},
      .options = config::options(config),
      .groups = config::option_groups(),
      .common_flags = config::common_flags(),
      .node_size = &config.node_size,
      .config_flags = "--config,--deepspeed_config"};
  app.elsewhere = [](const std::string& flag, const std::string&) -> std::string {
    if (std::ranges::find(kModelFlags, flag) != kModelFlags.end()) {
      return "zpp_plan has it; here a model has its sizes: --num-layers, --hidden-size, "
             "--num-attention-heads";
    }
    if (std::ranges::find(kClusterFlags, flag) != kClusterFlags.end()) {
      return "zpp_plan has it; here --backend cuda takes the GPUs that there are";
    }
    return "";
  };
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine& machine) {
    config::resolve(config, given, machine);
  };
  app.run = [&](const app::Context& context) { return Trainer(config, context).run(); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::train_app
