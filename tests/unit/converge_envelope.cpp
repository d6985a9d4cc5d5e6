// ctest: name=converge_envelope timeout=60 labels=sanitize link=zeropp_app_converge
// The bound of descent on the quadratic under codecs: kept by real codecs, near enough to say
// something, and left by a codec that does not keep what it promises.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "apps/converge/codec_lists.hpp"
#include "apps/converge/envelope.hpp"
#include "lib/base/error.hpp"
#include "lib/device/buffer.hpp"
#include "lib/model/quadratic.hpp"

namespace zeropp::converge {
namespace {

constexpr std::size_t kParameters = 300;
constexpr double kTilt = 0.3;

codec::Codec bound_codec(const std::string& name) {
  return {codec::parse_codec(name), Dtype::fp32};
}

/// Values after a trip over the wire.
std::vector<float> sent(const codec::Codec& codec, std::vector<float> values) {
  const std::size_t n = values.size();
  const Buffer wire(codec.wire_bytes(n), MemoryKind::host);
  const auto layout = codec::Layout::contiguous(n);
  const View view{values.data(), n, Dtype::fp32};
  codec.encode(view, layout, {wire.data(), wire.bytes()}, {});
  codec.decode(codec::WireImages{wire.data(), wire.bytes()}, layout, view, {});
  return values;
}

/// Descent of one rank in fp32, with what `codec` makes of weights and gradients.
class Descending {
 public:
  Descending(const codec::Codec& codec, const CodecBound& promised, bool weights)
      : codec_(codec), on_weights_(weights), model_({kParameters}, 64, timers_), envelope_([&] {
          Descent descent;
          for (std::size_t p = 0; p < kParameters; ++p) {
            descent.curvature.push_back(model::Quadratic::curvature(p));
          }
          descent.step_size = kStep;
          Image all(kParameters);
          std::iota(all.begin(), all.end(), std::size_t{0});
          descent.gathered = descent.reduced = {all};
          (weights ? descent.weights : descent.first) = promised;
          return descent;
        }()) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& weight : weights_) weight = normal(random);
    closed_.assign(weights_.begin(), weights_.end());
  }

  /// Tilts change from step to step, as batches do.
  void step(int number) {
    const double tilt = kTilt + 0.1 * std::sin(number);
    std::vector<double> exact(kParameters);
    std::vector<float> gradient(kParameters);
    const std::vector<float> seen = on_weights_ ? sent(codec_, weights_) : weights_;
    for (std::size_t p = 0; p < kParameters; ++p) {
      exact[p] = model_.gradient(p, weights_[p], tilt);
      gradient[p] = static_cast<float>(model_.gradient(p, seen[p], tilt));
      closed_[p] -= kStep * model_.gradient(p, closed_[p], tilt);
    }
    if (!on_weights_) gradient = sent(codec_, gradient);
    const std::vector<std::vector<double>> gradients{exact};
    envelope_.step(weights_, gradients);
    for (std::size_t p = 0; p < kParameters; ++p) {
      weights_[p] = std::fmaf(-static_cast<float>(kStep), gradient[p], weights_[p]);
    }
  }

  /// The distance to the closed form, as a share of the bound.
  [[nodiscard]] double ratio() const {
    double sum = 0;
    for (std::size_t p = 0; p < kParameters; ++p) {
      sum += std::pow(static_cast<double>(weights_[p]) - closed_[p], 2);
    }
    return std::sqrt(sum) / envelope_.bound();
  }

 private:
  static constexpr double kStep = kParameters / 2.0;
  codec::Codec codec_;
  bool on_weights_;
  trace::Timers timers_;
  model::Quadratic model_;
  Envelope envelope_;
  std::vector<float> weights_ = std::vector<float>(kParameters);
  std::vector<double> closed_;
};

double largest_ratio(const codec::Codec& codec, const CodecBound& promised, bool weights) {
  Descending descending(codec, promised, weights);
  double largest = 0;
  for (int step = 0; step < 200; ++step) {
    descending.step(step);
    largest = std::max(largest, descending.ratio());
  }
  return largest;
}

TEST(Envelope, EveryCodecKeepsItAndComesNearIt) {
  for (const std::string& name : every_codec()) {
    const codec::Codec codec = bound_codec(name);
    for (const bool weights : {true, false}) {
      const double largest = largest_ratio(codec, CodecBound::of(codec), weights);
      EXPECT_LE(largest, 1.0) << name << (weights ? " on weights" : " on gradients");
      EXPECT_GE(largest, 0.05) << name << (weights ? " on weights" : " on gradients");
    }
  }
}

TEST(Envelope, ACodecThatErrsBeyondItsPromiseIsFound) {
  for (const std::string name : {"int8:128", "int4:128", "int4:128+had32", "fp8e4m3:128"}) {
    const codec::Codec codec = bound_codec(name);
    for (const bool weights : {true, false}) {
      CodecBound lie = CodecBound::of(codec);
      lie.error = [codec](float x, float absmax) { return 0.02 * codec.error_bound(x, absmax); };
      EXPECT_GT(largest_ratio(codec, lie, weights), 1.0)
          << name << (weights ? " on weights" : " on gradients");
    }
  }
}

TEST(Envelope, TheRootMeanSquareOfABlocksErrorsHasItsShareOfTheBound) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const std::string& name : every_codec()) {
    const codec::Codec codec = bound_codec(name);
    for (int round = 0; round < 50; ++round) {
      std::vector<float> values(codec.block());
      for (float& value : values) value = normal(random) * (round % 2 == 0 ? 1e-3F : 10.0F);
      const std::vector<float> arrived = sent(codec, values);
      float absmax = 0;
      for (const float value : values) absmax = std::max(absmax, std::abs(value));
      double errors = 0;
      double bounds = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        errors += std::pow(static_cast<double>(values[i]) - arrived[i], 2);
        bounds += std::pow(codec.rms_share() * codec.error_bound(values[i], absmax), 2);
      }
      EXPECT_LE(errors, bounds) << name;
    }
  }
}

TEST(Envelope, AStepThatIsTooLargeIsRefused) {
  Descent descent;
  descent.curvature = {0.5, 1.5};
  descent.step_size = 2.7;
  try {
    const Envelope envelope(descent);
    FAIL() << "such a descent leaves every bound";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), testing::HasSubstr("optimizer.params.lr"));
  }
}

}  // namespace
}  // namespace zeropp::converge
