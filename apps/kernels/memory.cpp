// Copying, clearing and converting flat arrays.
#include <fmt/format.h>

#include "apps/kernels/codec_checks.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/verdict.hpp"
#include "kernels/core/memory_ops.hpp"

namespace zeropp::kernels {

namespace {

constexpr std::size_t kLooks = 4096;

double bytes_of(std::size_t n, Dtype dtype) { return static_cast<double>(n * size_of(dtype)); }

Problem copy_of(std::size_t n, Dtype from, Dtype to, const Source& source) {
  const Values values = source.normals(1, from);
  return {.work = {.read = bytes_of(n, from),
                   .written = bytes_of(n, to),
                   .operations = from == to ? 0.0 : static_cast<double>(n)},
          .arrays = {{"source", n, from, filled_with(values)}, {"destination", n, to}},
          .bind = [](const Set& set, const ComputeDevice& device, StreamHandle) -> Call {
            return [&set, ops = device.memory_ops](StreamHandle stream) {
              const auto move = set[0].dtype == set[1].dtype ? ops->copy : ops->convert;
              move(set[0], set[1], stream);
            };
          },
          .check =
              [=](const Results& results) {
                Verdict verdict;
                const Result got = results[1];
                verdict.written(got);
                for (const std::size_t i : some_of(n, kLooks)) {
                  const double wanted = values(i);
                  verdict.close(got, i, wanted, from == to ? 0.0 : rounding(wanted, to));
                }
                return verdict.text();
              }};
}

Problem clear_of(std::size_t n, Dtype dtype) {
  return {.work = {.written = bytes_of(n, dtype)},
          .arrays = {{"values", n, dtype}},
          .bind = [](const Set& set, const ComputeDevice& device, StreamHandle) -> Call {
            return [&set, ops = device.memory_ops](StreamHandle stream) {
              ops->clear(set[0], stream);
            };
          },
          .check =
              [=](const Results& results) {
                Verdict verdict;
                const std::vector<std::byte> zeros(n * size_of(dtype));
                verdict.same_bytes(results[0], zeros);
                return verdict.text();
              }};
}

Case flat_case(std::string_view kernel, std::string variant, Dtype dtype, std::size_t n,
               std::function<Problem(const ComputeDevice&)> make) {
  return {std::string(kernel), std::move(variant), std::string(name_of(dtype)), std::to_string(n),
          std::move(make)};
}

std::vector<Case> copies(const Choice& choice) {
  std::vector<Case> cases;
  cases.reserve(choice.dtypes.size());
  for (const Dtype dtype : choice.dtypes) {
    cases.push_back(
        flat_case(copy.name, "-", dtype, choice.values,
                  [n = choice.values, dtype, source = choice.source](const ComputeDevice&) {
                    return copy_of(n, dtype, dtype, source);
                  }));
  }
  return cases;
}

std::vector<Case> clears(const Choice& choice) {
  std::vector<Case> cases;
  cases.reserve(choice.dtypes.size());
  for (const Dtype dtype : choice.dtypes) {
    cases.push_back(
        flat_case(clear.name, "-", dtype, choice.values,
                  [n = choice.values, dtype](const ComputeDevice&) { return clear_of(n, dtype); }));
  }
  return cases;
}

std::vector<Case> conversions(const Choice& choice) {
  std::vector<Case> cases;
  cases.reserve(choice.dtypes.size());
  for (const Dtype dtype : choice.dtypes) {
    if (dtype == Dtype::fp32) continue;
    cases.push_back(
        flat_case(convert.name, "from-fp32", dtype, choice.values,
                  [n = choice.values, dtype, source = choice.source](const ComputeDevice&) {
                    return copy_of(n, Dtype::fp32, dtype, source);
                  }));
  }
  return cases;
}

}  // namespace

const Kernel copy{"copy", "an array into another, in one dtype", copies};
const Kernel clear{"clear", "zeros", clears};
const Kernel convert{"convert", "fp32 into a 16-bit dtype, saturating", conversions};

}  // namespace zeropp::kernels
