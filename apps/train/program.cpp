#include "apps/train/program.hpp"

#include "apps/train/trainer.hpp"
#include "lib/app/app.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"

namespace zeropp::train_app {

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
      .virtual_ranks = &config.virtual_ranks,
      .config_flags = "--config,--deepspeed_config"};
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine& machine) {
    config::resolve(config, given, machine);
  };
  app.run = [&](const app::Context& context) { return Trainer(config, context).run(); };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::train_app
