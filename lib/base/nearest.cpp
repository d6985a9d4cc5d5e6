#include "lib/base/nearest.hpp"

#include <algorithm>
#include <cctype>
#include <limits>

#include "lib/base/text.hpp"

namespace zeropp {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // The usual table is kept in three rows: the one before last is needed for swaps.
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t differs = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + differs});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

namespace {

/// A longer name is compared by its beginning: comparing takes time in proportion to its length.
constexpr std::size_t kLongestName = 200;

std::string digits_of(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  }
  return digits;
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  // Letters of the other case are the least difference.
  const std::string wanted = lower(std::string(name.substr(0, kLongestName)));
  const std::string digits = digits_of(name);
  std::string best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const auto& candidate : known) {
    const std::string folded = lower(candidate);
    // A name that was begun lacks one letter, however many are left. Another number is one more: of
    // a codec it says more than the letters around it.
    const bool begun =
        !wanted.empty() && folded.size() > wanted.size() && folded.starts_with(wanted);
    const std::size_t edits =
        begun ? 1 : edit_distance(wanted, folded) + (digits == digits_of(candidate) ? 0 : 1);
    const std::size_t distance = 2 * edits + (name == candidate ? 0 : 1);
    if (distance < least) {
      least = distance;
      best = candidate;
    }
  }
  return best;
}

std::string alike(std::string_view name, const std::vector<std::string>& known) {
  const std::string best = nearest(name, known);
  const std::string wanted = lower(std::string(name));
  const std::string folded = lower(best);
  const std::string digits = digits_of(name);
  const bool same_number = !digits.empty() && digits == digits_of(best);
  const bool begun = !wanted.empty() && folded.starts_with(wanted);
  const bool same_letters = 2 * edit_distance(wanted, folded) < wanted.size();
  return same_number || begun || same_letters ? best : "";
}

}  // namespace zeropp
