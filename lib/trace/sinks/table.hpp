// Rows of text in aligned columns, for a terminal.
#pragma once

#include <string>
#include <vector>

namespace zeropp::trace {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header);
  /// Adds a row of as many cells as the header has.
  void add(std::vector<std::string> row);
  /// Header, a rule, rows; two spaces between columns. A column whose cells are all numbers is
  /// aligned to the right. No trailing spaces; ends with a newline.
  [[nodiscard]] std::string str() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace zeropp::trace
