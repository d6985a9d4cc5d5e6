// Rows of a program as the columns of a trace.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/trace/document.hpp"

namespace zeropp::trace {

/// The column of `rows` that `project` (a member or a function) reads: real numbers, unsigned
/// integers or text.
template <class Rows, class Project>
Column column(const char* name, const char* units, const char* description, const Rows& rows,
              Project project) {
  using Value = std::decay_t<std::invoke_result_t<Project, const typename Rows::value_type&>>;
  using Stored = std::conditional_t<
      std::is_floating_point_v<Value>, double,
      std::conditional_t<std::is_convertible_v<Value, std::string>, std::string, std::uint64_t>>;
  std::vector<Stored> values;
  values.reserve(rows.size());
  for (const auto& row : rows) values.push_back(static_cast<Stored>(std::invoke(project, row)));
  return {name, units, description, std::move(values)};
}

}  // namespace zeropp::trace
