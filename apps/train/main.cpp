// zpp_train: trains a model with ZeRO and ZeRO++ over MPI and writes its trace.
#include "apps/train/trainer.hpp"
#include "lib/app/app.hpp"
#include "lib/config/options.hpp"
#include "lib/config/resolve.hpp"

int main(int argc, char** argv) {
  using namespace zeropp;
  config::TrainConfig config;
  app::App app{
      .name = "train",
      .summary =
          "Trains a model with ZeRO stages 0-3 and ZeRO++ (qwZ, hpZ, qgZ) and writes a trace",
      .options = config::options(config),
      .node_size = &config.node_size,
      .config_flags = "--config,--deepspeed_config"};
  app.resolve = [&](const std::vector<config::Option>& given, const config::Machine& machine) {
    config::resolve(config, given, machine);
  };
  app.run = [&](const app::Context& context) { return train::Trainer(config, context).run(); };
  return app::run(std::move(app), argc, argv);
}
