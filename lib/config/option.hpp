// One option of a program: where it lies in the JSON file, its flag, its help, and the value that
// it sets. A program's options are a vector of these, bound to its own struct; the JSON reader, the
// flags, the effective configuration, --help and suggestions all iterate over that vector, so
// adding an option is adding one entry.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/codec/spec.hpp"
#include "kernels/core/enum_names.hpp"

namespace zeropp::config {

/// A value with a form of its own, which a flag gives as JSON text.
struct Structured {
  /// Throws Error(usage) that begins with `where`.
  std::function<void(const nlohmann::json& value, const std::string& where)> set = {};
  std::function<nlohmann::json()> value = {};
  std::string description = {};  ///< for --help and messages
};

/// A member of an enum type, by the names of its values (kernels/core/enum_names.hpp); of an
/// optional one, "auto" stands before them, for what resolve() is to decide.
class EnumField {
 public:
  template <NamedEnum Enum>
  EnumField(Enum* field)
      : names_(names_of(Enum{})),
        name_([field] { return std::string(enum_name(*field)); }),
        set_([field](std::string_view name) { *field = parse_enum<Enum>(name).value(); }) {}
  template <NamedEnum Enum>
  EnumField(std::optional<Enum>* field)
      : names_(names_of(Enum{})),
        name_([field] { return *field ? std::string(enum_name(**field)) : kAutomatic; }),
        set_([field](std::string_view name) { *field = parse_enum<Enum>(name); }) {
    names_.insert(names_.begin(), kAutomatic);
  }

  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::string name() const { return name_(); }
  /// Sets the field to one of names().
  void set(std::string_view name) const { set_(name); }

 private:
  static constexpr const char* kAutomatic = "auto";
  template <class Enum>
  static std::vector<std::string> names_of(Enum any) {
    const auto known = enum_names(any);
    return {known.begin(), known.end()};
  }

  std::vector<std::string> names_;
  std::function<std::string()> name_;
  std::function<void(std::string_view)> set_;
};

/// The value that an option sets: a member of the program's struct, which outlives the option.
using Field = std::variant<bool*, int*, std::size_t*, double*, std::string*, codec::CodecSpec*,
                           EnumField, Structured>;

/// Legal values of a number.
struct Range {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool minimum_excluded = false;
  bool maximum_excluded = false;
};
constexpr Range at_least(double minimum) { return {.minimum = minimum}; }
constexpr Range between(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum};
}

struct Option {
  std::string path = {};    ///< JSON path, "zero_optimization.stage"; array elements by their index
  std::string flag = {};    ///< "--zero-stage"; a boolean has "--no-..." as well
  std::string letter = {};  ///< "-b", a short form of the flag; empty: none
  /// Names that other programs give the flag; of a boolean, they turn it on.
  std::vector<std::string> other_flags = {};
  Field field = {};
  /// Plain text. --help prints it up to the first semicolon or full stop, --help GROUP all of it.
  std::string help = {};
  std::string unit = {};  ///< "elements", "seconds"; empty for pure numbers and names
  Range range = {};
  bool binary_suffix = false;  ///< a flag's number may end in K, M or G: powers of 1024
  bool bytes_suffix = false;   ///< B or iB may follow, as in programs where it changes nothing
  std::vector<std::string> choices =
      {};                 ///< legal texts; empty: any, of an EnumField all its names
  bool any_case = false;  ///< `choices` are taken in any case
  /// Predicate of an option that others may leave without effect: false, and it is not part of the
  /// effective configuration, and giving it is an error. Empty: always in effect.
  std::function<bool()> in_effect = {};
  std::string effect_needs = {};  ///< what would put it in effect, for pages and messages
  /// The part of effect_needs that is missing, for the message about the option. Empty: all of it.
  std::function<std::string()> effect_lacks = {};
  /// Predicate of an option that others may rule out: true, and resolve() refuses all but its
  /// default. It is part of the effective configuration all the same. Empty: never.
  std::function<bool(const std::vector<Option>& all)> ruled_out = {};
  /// Warning for a configuration file whose key has no effect, where effect_needs does not suffice:
  /// the value that counts, why, and the remedy. Empty: effect_needs has the text.
  std::function<std::string(const std::vector<Option>& all)> why_ruled_out = {};
  /// DeepSpeed refuses it without effect too, as an argument that a constructor does not have.
  bool refused_idle = false;
  /// Action that sets what "auto" in a file stands for, once everything else is known
  /// (choose_automatic()); empty: there is no "auto".
  std::function<void()> automatic = {};
  bool is_automatic = false;        ///< the file says "auto", and no flag another value
  bool given = false;               ///< set by the file or a flag
  std::string key = {};             ///< of the file that set it; empty where a flag did
  std::function<void()> undo = {};  ///< puts back the value before it was set; empty until then
};

/// Action for an option whose default is what "auto" stands for.
inline void keep_default() {}

/// Sets `option` from a JSON value or a flag's text and marks it given. `where` names the key or
/// the flag in messages. Throws Error(usage): wrong type, not a whole number, out of range, unknown
/// choice, bad codec.
void set_from_json(Option& option, const nlohmann::json& value, const std::string& where);
void set_from_text(Option& option, const std::string& text, const std::string& where);

/// The value, as JSON: sizes are integers, codecs canonical names.
nlohmann::json value_of(const Option& option);

/// The legal texts; empty: any.
const std::vector<std::string>& choices_of(const Option& option);

/// "integer, 0 to 3", "size in elements, at least 1": for --help and messages.
std::string describe_values(const Option& option);

/// Whether the file or a flag set the option with this path.
bool is_given(const std::vector<Option>& options, std::string_view path);

/// Whether a value is a JSON text: of a name, a path, a codec.
bool takes_text(const Option& option);

/// The option with this path of the program's own. Throws std::logic_error where there is none.
const Option& option_at(const std::vector<Option>& options, std::string_view path);
Option& option_at(std::vector<Option>& options, std::string_view path);

bool is_boolean(const Option& option);

/// "--no-overlap-comm": what turns a boolean off.
std::string negative_flag(const Option& option);

/// All paths (or flags, letters included) of a table, for suggestions.
std::vector<std::string> paths_of(const std::vector<Option>& options);
std::vector<std::string> flags_of(const std::vector<Option>& options);

}  // namespace zeropp::config
