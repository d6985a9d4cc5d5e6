#include "lib/trace/sinks/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace zeropp::trace {
namespace {

/// Characters of UTF-8 text: bytes that do not continue one.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789+-.,e%x ") == std::string::npos &&
         text.find_first_of("0123456789") != std::string::npos;
}

}  // namespace

TextTable::TextTable(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void TextTable::add(std::vector<std::string> row) {
  if (row.size() != rows_.front().size()) throw std::logic_error("a table row of another width");
  rows_.push_back(std::move(row));
}

std::string TextTable::str() const {
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> numbers(columns, rows_.size() > 1);
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], width_of(rows_[r][c]));
      if (r > 0 && !is_number(rows_[r][c])) numbers[c] = false;
    }
  }
  std::string text;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string& cell = rows_[r][c];
      const std::string fill(widths[c] - width_of(cell), ' ');
      line += (c == 0 ? "" : "  ") + (numbers[c] ? fill + cell : cell + fill);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r == 0) {
      std::size_t total = 2 * (columns - 1);
      for (const std::size_t width : widths) total += width;
      text += std::string(total, '-') + "\n";
    }
  }
  return text;
}

}  // namespace zeropp::trace
