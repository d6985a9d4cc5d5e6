// Checks of a row's results: every element exactly or within the codec's bound, the slope, and
// values that are not finite. A result that was found right is kept, and a later result with the
// same bits is not compared again. Collective over the world.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/sweep/comparison.hpp"
#include "apps/sweep/operation.hpp"
#include "apps/sweep/outcome.hpp"

namespace zeropp::sweep {

class Checks {
 public:
  /// `label` begins every finding. `data` is what was sent. Refers to its arguments.
  Checks(const SweepContext& sweep, const Collective& collective, const Shape& shape,
         const Variant& variant, const Data& data, Operation& operation, std::string label,
         std::vector<Finding>& findings);

  /// Compares the results in memory now with those of data times `sign`. `run` names the run in
  /// findings. Adds counts of wrong elements to `m`; returns any other finding as text, or an empty
  /// text.
  std::string compare(std::string_view run, double sign, Measurement& m);
  /// Sends a NaN and an infinity from one rank: they stay non-finite wherever they belong, and no
  /// other block becomes so.
  void compare_non_finite(Measurement& m);

 private:
  /// Judges the slope of each rank by itself: some collectives give all ranks the same result, so
  /// that their moments together are no more data.
  std::string judge_slope(std::string_view run, const Moments& moments, Measurement& m) const;
  /// Whether a slot has the bits of the kept result, or their negatives with negated data: the
  /// codecs are symmetric.
  [[nodiscard]] bool is_known(const Slot& slot, double sign);
  void keep(const Slot& slot, double sign, const Comparison& comparison);
  /// Reports one line for each rank that found something.
  void report(std::string_view run, const std::string& finding) const;

  const SweepContext& sweep_;
  const Collective& collective_;
  const Shape& shape_;
  const Variant& variant_;
  const Data& data_;
  Operation& operation_;
  std::string label_;
  std::vector<Finding>& findings_;
  std::vector<std::byte> known_;  ///< a result that is right; empty: none yet
  double known_sign_ = 1;
  double known_error_ = 0;  ///< of its comparison, as are the moments
  Moments known_moments_;
};

}  // namespace zeropp::sweep
