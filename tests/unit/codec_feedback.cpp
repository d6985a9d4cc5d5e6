// ctest: name=contract1_codec_feedback labels=sanitize
// Encoding with error feedback, for every codec: the image is the image of the values plus their
// errors. The new error is, bit for bit, the decayed old error plus the share of the codec's loss;
// nothing else is written. Where the new error is not finite, because a value was not, the old
// error stays.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/codec/feedback.hpp"
#include "kernels/core/counter_rng.hpp"
#include "tests/support/codec_cases.hpp"
#include "tests/support/feedback_cases.hpp"

namespace zeropp::test {
namespace {

using codec::Codec;
using codec::Errors;
using codec::FeedbackEncode;
using codec::Layout;

class Feedback : public testing::TestWithParam<Binding> {};

void check(const Codec& codec, const FeedbackShape& shape, float beta, Dtype memory,
           bool in_place) {
  const Layout& layout = shape.layout;
  std::vector<float> drawn = random_values(shape.values(), 31);
  if (drawn.size() > 400) {
    drawn[7] = std::numeric_limits<float>::quiet_NaN();
    drawn[399] = -std::numeric_limits<float>::infinity();
  }
  std::vector<std::byte> bytes(shape.values() * size_of(memory));
  const View values(bytes.data(), shape.values(), memory);
  with_type(memory, [&]<class T>(T*) {
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      values.as<T>()[i] = saturating_cast<T>(drawn[i]);
      drawn[i] = to_float(values.as<T>()[i]);
    }
  });
  std::vector<float> current = random_values(shape.errors(), 32);
  for (float& error : current) error *= 0.1F;
  const std::vector<float> before = current;
  std::vector<float> next(shape.errors(), -7.0F);
  std::vector<float> scratch(FeedbackEncode::scratch_elements(layout), -1.0F);
  Wire out(codec, layout.wire_elements(), std::max<std::size_t>(layout.images, 1));
  float* const written = in_place ? current.data() : next.data();
  const Errors errors{current.data(), written, shape.errors_image_stride,
                      shape.errors_slice_stride};
  // Numbered as one row of wire values, as the image below.
  FeedbackEncode(codec, beta)
      .run(values, layout, errors, out.images(), scratch.data(), {}, {.slice_step = layout.padded});
  EXPECT_TRUE(out.guards_intact());

  std::vector<float> expected = in_place ? before : std::vector<float>(shape.errors(), -7.0F);
  for (std::size_t image = 0; image < layout.images; ++image) {
    std::vector<float> carried(layout.wire_elements());
    for (std::size_t slice = 0; slice < layout.slices; ++slice) {
      for (std::size_t e = 0; e < layout.length; ++e) {
        carried[slice * layout.padded + e] =
            drawn[image * layout.image_stride + slice * layout.slice_stride + e] +
            before[image * shape.errors_image_stride + slice * shape.errors_slice_stride + e];
      }
    }
    Wire want(codec, carried.size());
    codec.encode(ConstView::of(carried.data(), carried.size()), Layout::contiguous(carried.size()),
                 want.images(), {});
    ASSERT_EQ(out.image(image), want.image()) << "image " << image;
    std::vector<float> decoded(carried.size());
    codec.decode(want.images(), Layout::contiguous(carried.size()),
                 View::of(decoded.data(), decoded.size()), {});
    for (std::size_t slice = 0; slice < layout.slices; ++slice) {
      for (std::size_t e = 0; e < layout.length; ++e) {
        const std::size_t wire = slice * layout.padded + e;
        const std::size_t at =
            image * shape.errors_image_stride + slice * shape.errors_slice_stride + e;
        const float lost = carried[wire] - decoded[wire];
        const float fresh = std::fma(beta, before[at], (1.0F - beta) * lost);
        expected[at] = std::isfinite(fresh) ? fresh : before[at];
      }
    }
  }
  const std::vector<float>& left = in_place ? current : next;
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(bits_of(left[i]), bits_of(expected[i])) << "error " << i;
    ASSERT_TRUE(std::isfinite(left[i])) << "error " << i;
  }
  if (!in_place) {
    EXPECT_EQ(current, before) << "the old errors";
  }
}

TEST_P(Feedback, LeavesWhatTheCodecLost) {
  const Codec codec = GetParam().bind();
  const Dtype memory = GetParam().memory;
  for (const FeedbackShape& shape : feedback_shapes(codec.block())) {
    for (const float beta : kDecays) {
      for (const bool in_place : {false, true}) {
        if (in_place && beta != kDecays[0]) continue;  // where the image lies is no matter of decay
        SCOPED_TRACE(testing::Message() << "decay " << beta << ", " << shape.layout.images
                                        << " images of " << shape.layout.slices << " slices of "
                                        << shape.layout.length << (in_place ? ", in place" : ""));
        ASSERT_NO_FATAL_FAILURE(check(codec, shape, beta, memory, in_place));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Feedback, testing::ValuesIn(all_bindings()),
                         [](const auto& binding) { return label_of(binding); });

TEST(FeedbackOfConstantValues, ErrsInTheMeanByOneStepOverTheNumberOfRuns) {
  // The sent values add up to the given values, except for the error that is still kept.
  const Codec codec(codec::parse_codec("int4:128"), Dtype::fp32);
  constexpr std::size_t n = 1000;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = standard_normal(33, 0, i);
  for (const float beta : kDecays) {
    std::vector<float> errors(n, 0.0F);
    std::vector<float> scratch(2 * n);
    std::vector<double> sent(n, 0.0);
    const Layout layout = Layout::contiguous(n);
    Wire image(codec, n);
    double first = 0;
    for (int run = 1; run <= 256; ++run) {
      FeedbackEncode(codec, beta)
          .run(ConstView::of(values.data(), n), layout, {errors.data(), errors.data()},
               image.images(), scratch.data(), {});
      std::vector<float> decoded(n);
      codec.decode(image.images(), layout, View::of(decoded.data(), n), {});
      double largest = 0;
      for (std::size_t i = 0; i < n; ++i) {
        sent[i] += decoded[i];
        largest = std::max(largest, std::abs(sent[i] / run - values[i]));
      }
      if (run == 1) first = largest;
      // Classical: the sum errs by the kept error, of at most about half a step.
      const double decay = 1.0 / (1.0 - beta);
      EXPECT_LE(largest, 2.5 * decay * first / run) << "decay " << beta << ", run " << run;
    }
    EXPECT_GT(first, 0.1) << "the case is about a codec that errs";
  }
}

TEST(FeedbackEncode, RefusesADecayThatKeepsEverything) {
  const Codec codec(codec::parse_codec("int4"), Dtype::fp32);
  for (const float beta : {1.0F, -0.1F, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_THROW(FeedbackEncode(codec, beta), std::invalid_argument) << beta;
  }
}

TEST(FeedbackScale, IsExactForPowersOfTwo) {
  std::vector<float> values = random_values(1030, 34);
  values[3] = float_of(kCanonicalNan32);
  const std::vector<float> before = values;
  codec::feedback_ops(Backend::host).scale(2.0F, View::of(values.data(), values.size()), {});
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(bits_of(values[i]), bits_of(i == 3 ? before[i] : before[i] * 2.0F)) << i;
  }
}

}  // namespace
}  // namespace zeropp::test
