#include "apps/kernels/ceilings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "apps/kernels/linear.hpp"
#include "kernels/core/host_runtime.hpp"
#include "kernels/core/memory_probe.hpp"
#include "lib/base/checked.hpp"
#include "lib/base/error.hpp"
#include "lib/base/statistics.hpp"

namespace zeropp::kernels {

namespace {

/// Two arrays that no cache holds, and the passes over them: a run takes the next part, so that it
/// lasts about as long as a kernel does, and what disturbs the machine meets both alike.
class Passes {
 public:
  explicit Passes(const Bench& bench)
      : bench_(bench),
        on_host_(bench.device().backend == Backend::host),
        probe_(on_host_ ? host_memory_probe() : *cuda_memory_probe()),
        part_(on_host_ ? std::size_t{16} << 20U : std::size_t{256} << 20U),
        parts_(std::max(ceil_div(bench.least(), part_), std::size_t{4})),
        from_(Buffer::zeros(parts_ * elements(), Dtype::fp32, bench.device().memory)),
        to_(Buffer::zeros(parts_ * elements(), Dtype::fp32, bench.device().memory)),
        far_(Buffer::zeros(on_host_ ? 0 : elements(), Dtype::fp32, bench.device().staging())),
        result_(Buffer::zeros(1, Dtype::fp32, bench.device().memory)) {}

  Ceiling one_memcpy() const {
    return pass(
        "memcpy", "memcpy by one thread, bytes counted once", 1,
        [](const View& from, const View& to) { std::memcpy(to.data, from.data, from.bytes()); });
  }
  Ceiling copy() const {
    const char* const means = on_host_ ? "memcpy by all threads, bytes read + written"
                                       : "the driver's copy, bytes read + written";
    return pass("copy", means, 2,
                [this](const View& from, const View& to) { probe_.copy(from, to, stream()); });
  }
  /// Ceiling of the copy by all threads where there is one thread: that thread's memcpy.
  Ceiling as_copy(const Ceiling& memcpy) const {
    return {"copy", "the same, bytes read + written", memcpy.unit, 2 * memcpy.amount,
            memcpy.samples};
  }
  Ceiling read() const {
    return pass("read", "every byte once", 1, [this](const View& from, const View&) {
      probe_.read(from, result_.view(1, Dtype::fp32), stream());
    });
  }
  Ceiling write() const {
    return pass("write", on_host_ ? "memset by all threads" : "the driver's memset", 1,
                [this](const View&, const View& to) { probe_.write(to, stream()); });
  }

  /// Ceiling of the copy from a GPU into page-locked memory of its host.
  Ceiling to_host() const {
    return pass("to host", "the driver's copy into page-locked memory", 1,
                [this](const View& from, const View&) {
                  bench_.stream().copy(far_.data(), static_cast<std::byte*>(from.data), part_);
                });
  }
  Ceiling from_host() const {
    return pass("from host", "the driver's copy from page-locked memory", 1,
                [this](const View&, const View& to) {
                  bench_.stream().copy(static_cast<std::byte*>(to.data), far_.data(), part_);
                });
  }

 private:
  [[nodiscard]] std::size_t elements() const { return part_ / sizeof(float); }
  [[nodiscard]] StreamHandle stream() const { return bench_.stream().handle(); }

  template <class Run>
  [[nodiscard]] Ceiling pass(const char* name, const char* means, double times,
                             const Run& run) const {
    std::size_t turn = 0;
    const auto next = [&] {
      run(from_.view(elements(), Dtype::fp32, turn * part_),
          to_.view(elements(), Dtype::fp32, turn * part_));
      turn = (turn + 1) % parts_;
    };
    return {name, means, "B/s", times * static_cast<double>(part_), bench_.time(next)};
  }

  const Bench& bench_;
  bool on_host_;
  const MemoryProbe& probe_;
  std::size_t part_;   ///< bytes of one run
  std::size_t parts_;  ///< that no cache holds together
  Buffer from_;
  Buffer to_;
  Buffer far_;  ///< of one part, on the host of a GPU
  Buffer result_;
};

Ceiling product(const Bench& bench, Dtype dtype, const Source& source) {
  // Large enough for the peak of a processor, and of a GPU's fp32 and bf16 units.
  const bool on_host = bench.device().backend == Backend::host;
  const std::size_t n = on_host ? 1024 : dtype == Dtype::fp32 ? 4096 : 8192;
  const Problem problem = linear_forward_of({n, n, n, 0}, {"-"}, dtype, source, bench.device());
  const std::string means = fmt::format("a {} product of {} x {} matrices", name_of(dtype), n, n);
  Measured measured = bench.measure(problem);
  if (!measured.wrong.empty()) {
    throw Error(ExitCode::check_failed,
                fmt::format("{} on {}, the ceiling of arithmetic: {}: the product is wrong, which "
                            "is a defect of the build or the machine",
                            means, bench.device().name(), measured.wrong));
  }
  return {std::string(name_of(dtype)), means, "op/s", problem.work.operations,
          std::move(measured.samples)};
}

Limit memory_limit(const Work& work, const Ceilings& ceilings) {
  constexpr double kOneSided = 8;
  if (kOneSided * work.written < work.read) return {"read", work.moved() / ceilings.read};
  if (kOneSided * work.read < work.written) return {"write", work.moved() / ceilings.write};
  return {"copy", work.moved() / ceilings.copy};
}

}  // namespace

double Ceiling::rate() const { return amount / summarize(samples.slowest()).median; }

std::vector<Ceiling> measure_ceilings(const Bench& bench, bool bf16, const Source& source) {
  std::vector<Ceiling> ceilings;
  {
    const Passes passes(bench);
    if (bench.device().backend == Backend::host) ceilings.push_back(passes.one_memcpy());
    if (bench.device().backend == Backend::host && HostRuntime::threads() == 1) {
      ceilings.push_back(passes.as_copy(ceilings.back()));
    } else {
      ceilings.push_back(passes.copy());
    }
    ceilings.push_back(passes.read());
    ceilings.push_back(passes.write());
    if (bench.device().backend != Backend::host) {
      ceilings.push_back(passes.to_host());
      ceilings.push_back(passes.from_host());
    }
  }
  ceilings.push_back(product(bench, Dtype::fp32, source));
  if (bf16) ceilings.push_back(product(bench, Dtype::bf16, source));
  return ceilings;
}

Ceiling measure_copy(const Bench& bench) {
  Ceiling again = Passes(bench).copy();
  again.name = "copy again";
  return again;
}

Ceilings ceilings_of(const std::vector<Ceiling>& measured) {
  const auto rate = [&](std::string_view name) {
    const auto found = std::ranges::find(measured, name, &Ceiling::name);
    return found == measured.end() ? std::numeric_limits<double>::quiet_NaN() : found->rate();
  };
  const bool on_host = std::ranges::find(measured, "memcpy", &Ceiling::name) != measured.end();
  return {.reference = rate(on_host ? "memcpy" : "copy"),
          .copy = rate("copy"),
          .read = rate("read"),
          .write = rate("write"),
          .fp32 = rate("fp32"),
          .bf16 = rate("bf16")};
}

Limit limit_of(const Work& work, const Ceilings& ceilings) {
  const Limit memory = memory_limit(work, ceilings);
  const Limit compute = work.arithmetic == Arithmetic::bf16
                            ? Limit{"bf16", work.operations / ceilings.bf16}
                            : Limit{"fp32", work.operations / ceilings.fp32};
  return compute.seconds > memory.seconds ? compute : memory;
}

}  // namespace zeropp::kernels
