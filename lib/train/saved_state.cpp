#include "lib/train/saved_state.hpp"

#include <fmt/format.h>

#include "lib/base/error.hpp"

namespace zeropp::train {

using nlohmann::json;

std::string to_text(const SavedState& state) {
  return json{{"steps_taken", state.steps.taken},
              {"steps_begun", state.steps.begun},
              {"loss_scale",
               {{"scale", state.loss_scale.scale},
                {"overflows_left", state.loss_scale.overflows_left},
                {"clean_steps", state.loss_scale.clean_steps},
                {"dynamic", state.searches_loss_scale}}},
              {"run", state.run},
              {"seed", state.seed},
              {"tokens", state.tokens},
              {"decayed_parameters", state.decayed}}
      .dump();
}

SavedState state_of(const std::string& text) {
  try {
    const json j = json::parse(text);
    const json& scale = j.at("loss_scale");
    return {
        .steps = {j.at("steps_taken"), j.at("steps_begun")},
        .loss_scale = {scale.at("scale"), scale.at("overflows_left"), scale.at("clean_steps")},
        .searches_loss_scale = scale.at("dynamic"),
        .run = j.at("run"),
        .seed = j.at("seed"),
        .tokens = j.at("tokens"),
        .decayed = j.value("decayed_parameters", "matrices")};  // which it was before it was kept
  } catch (const json::exception& error) {
    throw Error(ExitCode::io, fmt::format("a checkpoint's state is none of a training run ({}): "
                                          "use another checkpoint",
                                          error.what()));
  }
}

}  // namespace zeropp::train
