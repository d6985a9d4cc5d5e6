#include "lib/config/options.hpp"

namespace zeropp::config {

void add_checkpoint(std::vector<Option>& table, TrainConfig& c) {
  const auto saves = [&c] { return !c.checkpoint.save.empty(); };
  const auto transformer = [&c] { return model::is_transformer(c.model); };
  table.insert(
      table.end(),
      {{.path = "zeropp.checkpoint.save",
        .flag = "--save",
        .field = &c.checkpoint.save,
        .help = "Folder for checkpoints, which all ranks see; it gets the last step's, and those "
                "of the interval; empty: none"},
       {.path = "zeropp.checkpoint.load",
        .flag = "--load",
        .field = &c.checkpoint.load,
        .help = "Folder of checkpoints whose newest the run resumes from, or the folder of one of "
                "them; it may be of any number of ranks and any stage; without one in the folder, "
                "the run begins at the first step where it saves there, and is refused elsewhere; "
                "empty: none"},
       {.path = "zeropp.checkpoint.weights",
        .flag = "--load-weights",
        .field = &c.checkpoint.weights,
        .help = "model.safetensors of GPT-2, Llama or Qwen2 that the run begins with, where there "
                "is no "
                "checkpoint to resume from; empty: initial weights by the seed",
        .in_effect = transformer,
        .effect_needs = "a transformer as zeropp.model.name"},
       {.path = "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        .flag = "--gather-weights-on-save",
        .other_flags = {"--zero3_save_16bit_model"},
        .field = &c.checkpoint.gather_weights,
        .help = "Write the weights into one file of each checkpoint too, as transformers has "
                "them, in the type that is computed in (at any stage)",
        .in_effect = [=] { return saves() && transformer(); },
        .effect_needs = "zeropp.checkpoint.save and a transformer as zeropp.model.name",
        .automatic = keep_default},
       {.path = "zeropp.checkpoint.interval",
        .flag = "--save-interval",
        .field = &c.checkpoint.interval,
        .help = "Steps between checkpoints; 0: only where the run ends, by a signal too",
        .unit = "steps",
        .in_effect = saves,
        .effect_needs = "zeropp.checkpoint.save"},
       {.path = "zeropp.checkpoint.keep",
        .flag = "--save-keep",
        .field = &c.checkpoint.keep,
        .help = "Newest checkpoints that stay",
        .range = at_least(1),
        .in_effect = saves,
        .effect_needs = "zeropp.checkpoint.save"},
       {.path = "zeropp.checkpoint.asynchronous",
        .flag = "--async-save",
        .field = &c.checkpoint.asynchronous,
        .help = "Write checkpoints from a copy in host memory while training continues",
        .in_effect = saves,
        .effect_needs = "zeropp.checkpoint.save"}});
}

}  // namespace zeropp::config
