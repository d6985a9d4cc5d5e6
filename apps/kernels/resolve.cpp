#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <regex>

#include "apps/kernels/options.hpp"
#include "lib/base/nearest.hpp"
#include "lib/base/text.hpp"
#include "lib/config/effects.hpp"
#include "lib/config/lists.hpp"
#include "lib/config/refuse.hpp"

namespace zeropp::kernels {

namespace {

using config::list_of;
using config::refuse;

/// Whole number that the text is; 0 for what is no whole number.
std::size_t number(const std::string& text) {
  std::size_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end ? value : 0;
}

Backend choose_backend(std::optional<Backend>& backend, const config::Machine& machine) {
  if (!backend) backend = machine.gpus ? Backend::cuda : Backend::host;
  if (backend == Backend::cuda && !machine.gpus) {
    throw Error(ExitCode::environment, machine.gpu_problem);
  }
  return *backend;
}

bool is_automatic(const std::string& text) { return text == "auto"; }

std::vector<Dtype> choose_dtypes(std::string& text, Backend backend) {
  constexpr Dtype kKnown[] = {Dtype::fp32, Dtype::bf16, Dtype::fp16};
  if (is_automatic(text)) text = name_of(backend == Backend::host ? Dtype::fp32 : Dtype::bf16);
  std::vector<Dtype> dtypes;
  for (const std::string& name : list_of(text, "--dtype")) {
    const auto* const found =
        std::ranges::find(kKnown, name, [](Dtype dtype) { return name_of(dtype); });
    if (found == std::end(kKnown)) {
      refuse("--dtype: unknown \"{}\": give fp32, bf16 or fp16, several with commas", name);
    }
    dtypes.push_back(*found);
  }
  return dtypes;
}

std::vector<std::size_t> choose_images(const std::string& text, std::size_t values) {
  std::vector<std::size_t> images;
  for (const std::string& word : list_of(text, "--images")) {
    images.push_back(number(word));
    if (images.back() == 0 || images.back() > values) {
      refuse("--images: \"{}\" is no number of images from 1 to --values {}", word, values);
    }
  }
  return images;
}

std::vector<BlockShape> choose_shapes(std::string& text, Backend backend) {
  if (is_automatic(text)) {
    text =
        backend == Backend::host ? "1x256x768x12" : "8x1024x1600x25,4x2048x4096x32,1x512x6144x48";
  }
  std::vector<BlockShape> shapes;
  for (const std::string& word : list_of(text, "--shape")) {
    std::vector<std::size_t> sizes;
    for (const std::string& part : split(word, 'x')) sizes.push_back(number(part));
    const bool whole = sizes.size() == 4 && std::ranges::find(sizes, 0U) == sizes.end();
    if (!whole || sizes[2] % sizes[3] != 0) {
      refuse(
          "--shape: \"{}\" is not SEQUENCESxLENGTHxHIDDENxHEADS, four numbers above 0, the hidden "
          "size a multiple of the heads: as 8x1024x1600x25",
          word);
    }
    shapes.push_back({sizes[0], sizes[1], sizes[2], sizes[3]});
  }
  return shapes;
}

std::vector<Case> choose_cases(const Options& options, const Choice& choice,
                               const std::vector<const Kernel*>& table) {
  std::regex filter;
  try {
    filter = std::regex(options.filter);
  } catch (const std::regex_error& error) {
    refuse("--filter: \"{}\" is no regular expression ({}): as encode/int8", options.filter,
           error.what());
  }
  std::vector<Case> chosen;
  std::vector<std::string> names;
  for (const Kernel* kernel : table) {
    names.emplace_back(kernel->name);
    for (Case& each : kernel->cases(choice)) {
      // A kernel that does not see all sizes of a shape has one case for several shapes.
      const bool known = std::ranges::any_of(
          chosen, [&](const Case& other) { return other.name() == each.name(); });
      if (!known && std::regex_search(each.name(), filter)) chosen.push_back(std::move(each));
    }
  }
  if (chosen.empty()) {
    refuse(
        "--filter: no row of --backend {} and --dtype {} matches \"{}\" (nearest kernel: {}): "
        "--list names the rows",
        enum_name(*options.backend), options.dtype, options.filter, nearest(options.filter, names));
  }
  return chosen;
}

}  // namespace

Settings resolve(Options& o, const std::vector<config::Option>& given,
                 const config::Machine& machine, const std::vector<const Kernel*>& table) {
  config::check_effects(given);
  if (machine.world_size > 1) {
    refuse(
        "{} ranks: kernels are measured by one process; start it without a launcher, or with one "
        "rank",
        machine.world_size);
  }
  if (o.samples > 0 && config::is_given(given, "maximum_seconds")) {
    refuse("--max-seconds has no effect where --samples says how many: leave one out");
  }
  Settings settings;
  Choice& choice = settings.choice;
  choice.backend = choose_backend(o.backend, machine);
  if (o.values == 0) {
    o.values = std::size_t{choice.backend == Backend::host ? 16U : 256U} << 20U;
  }
  choice.values = o.values;
  choice.codecs = config::codecs_of(o.codec, "--codec");
  choice.dtypes = choose_dtypes(o.dtype, choice.backend);
  choice.images = choose_images(o.images, o.values);
  choice.shapes = choose_shapes(o.shape, choice.backend);
  choice.vocab = o.vocab;
  choice.source = Source(o.seed);
  settings.cases = choose_cases(o, choice, table);
  settings.repetition = repetition_of(o.samples, o.maximum_seconds);
  return settings;
}

}  // namespace zeropp::kernels
