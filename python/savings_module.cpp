// The Python module `zeropp._savings`: the savings call and its table (lib/plan/savings.hpp).
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.hpp"
#include "lib/plan/savings.hpp"

namespace py = pybind11;
using namespace py::literals;
using namespace zeropp;

namespace {

/// Python writes 18e9, a float.
std::size_t whole(const char* name, const py::object& given) {
  if (!py::isinstance<py::int_>(given) && !py::isinstance<py::float_>(given)) {
    throw py::type_error(std::string(name) + " is no number: give a whole one, such as 18e9");
  }
  const auto value = given.cast<double>();
  if (!(value >= 1) || value > 0x1p53 || value != std::floor(value)) {
    throw py::value_error(std::string(name) + " is no whole number from 1 to 2^53");
  }
  return static_cast<std::size_t>(value);
}

/// `value` as a Wanted, which is a type of Python's; `name` is what a message calls it.
template <class Made, class Wanted>
Made as(const std::string& name, const py::handle& value, const char* wanted) {
  if (!py::isinstance<Wanted>(value)) throw py::type_error(name + " is no " + wanted);
  return value.cast<Made>();
}

plan::SavingsConfig config_of(const py::dict& given) {
  plan::SavingsConfig config;
  for (const auto& [key, value] : given) {
    const auto name = as<std::string, py::str>("a key of config", key, "text");
    const auto codec = [&, &each = value] {
      return codec::parse_codec(as<std::string, py::str>("config's " + name, each, "text"));
    };
    if (name == "weight_codec") {
      config.weights = codec();
    } else if (name == "gradient_codec") {
      config.gradients = codec();
    } else if (name == "hpz") {
      config.hpz = as<bool, py::bool_>("config's hpz", value, "True or False");
    } else if (name == "weight_differences") {
      config.weight_differences =
          as<bool, py::bool_>("config's weight_differences", value, "True or False");
    } else if (name == "weight_difference_codec") {
      config.differences = codec();
    } else if (name == "exact_planned_bits") {
      config.exact_bits = as<double, py::float_>("config's exact_planned_bits", value, "float");
    } else {
      throw py::value_error("config has the unknown key '" + name +
                            "': its keys are weight_codec, gradient_codec, hpz, "
                            "weight_differences, weight_difference_codec, exact_planned_bits");
    }
  }
  // As the command refuses them: one of the two codecs is not counted with.
  if (config.weight_differences && given.contains("weight_codec")) {
    throw py::value_error(
        "config's weight_codec has no effect with weight_differences, since whole weights are not "
        "counted: leave it out, or weight_differences");
  }
  if (!config.weight_differences && given.contains("weight_difference_codec")) {
    throw py::value_error(
        "config's weight_difference_codec has no effect without weight_differences: leave it out, "
        "or count with weight_differences True");
  }
  return config;
}

/// Arguments are objects: pybind11's own refusal has many lines.
py::dict savings(const py::object& model_params, const py::object& world_size,
                 const py::object& config, const py::object& baseline, const py::object& passes) {
  if (baseline.is_none()) {
    throw py::type_error(
        "savings() needs baseline=, what the uncompressed step sends: 'fp32', 'bf16' or 'fp16'");
  }
  const plan::Savings found =
      plan::savings(whole("model_params", model_params), whole("world_size", world_size),
                    config_of(as<py::dict, py::dict>("config", config, "dict")),
                    plan::parse_baseline(as<std::string, py::str>("baseline", baseline, "text")),
                    plan::parse_passes(as<std::string, py::str>("passes", passes, "text")));
  return py::dict(
      "baseline_gb"_a = found.baseline_gb, "zero_plusplus_gb"_a = found.zero_plusplus_gb,
      "reduction_factor"_a = found.reduction_factor, "savings_percent"_a = found.savings_percent);
}

py::list savings_table(const std::optional<std::vector<std::string>>& codecs) {
  std::vector<codec::CodecSpec> specs = plan::overview_codecs();
  if (codecs) {
    specs.clear();
    for (const std::string& name : *codecs) specs.push_back(codec::parse_codec(name));
  }
  py::list rows;
  for (const plan::WidthRow& row : plan::savings_table(specs)) {
    rows.append(py::dict(
        "codec"_a = row.codec, "bytes_per_value"_a = row.bytes_per_value,
        "scale_overhead"_a = row.scale_overhead, "bytes_per_step"_a = row.bytes_per_step,
        "reduction_fp32"_a = row.reduction_fp32, "reduction_16bit"_a = row.reduction_16bit));
  }
  return rows;
}

}  // namespace

PYBIND11_MODULE(_savings, module) {
  module.doc() = "What ZeRO++ (arXiv 2306.10209) saves of the traffic of a training step.";
  py::register_exception<Error>(module, "Error", PyExc_ValueError);
  module.def("savings", savings, "model_params"_a, "world_size"_a, "config"_a = py::dict(),
             py::kw_only(), "baseline"_a = py::none(), "passes"_a = "once",
             R"(Bytes that one rank sends in a step, without and with ZeRO++.

model_params  parameters of the model, a whole number (18e9)
world_size    ranks, 2 or more
config        dict: weight_codec ('int8:256'), gradient_codec ('int4:128'), hpz (False),
               weight_differences (False), weight_difference_codec ('int4:128')
baseline      what the uncompressed step sends: 'fp32', 'bf16' or 'fp16'
passes        'once': one gather and one reduce-scatter; 'zero3': two gathers, of which hpz keeps the
              second inside the nodes, and one reduce-scatter

Returns a dict: baseline_gb and zero_plusplus_gb (1e9 bytes), reduction_factor, savings_percent.
Raises ValueError for what cannot be counted, TypeError for what is no number or text.)");
  module.def("savings_table", savings_table, "codecs"_a = py::none(),
             R"(Bytes a parameter by codec, one gather and one reduce-scatter, of a large model.

codecs  names, as in ['int8:64', 'int4:128']; None: int8, int6 and int4 in blocks of 64

Returns a list of dicts: codec, bytes_per_value, scale_overhead (bytes of scales over those of codes),
bytes_per_step, reduction_fp32 (over 8 bytes) and reduction_16bit (over 4). Raises ValueError.)");
}
