// tool: link=zeropp_app_sweep
// zpp_sweep with collectives that are broken on purpose, for tests/cli/sweep_broken.py: every
// collective of the table gets algorithms that run the right one and then spoil the result, each in
// one way. Host memory only.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/sweep/sweep.hpp"

namespace zeropp::sweep {
namespace {

constexpr std::size_t kBlock = 64;  // elements

/// Input of a planted error: the result, and the bytes that lay there before the run.
struct Spoiled {
  View result;
  std::vector<std::byte> before;
  std::vector<std::byte>& first;  ///< the result of the first run of all
  int rank;
  std::size_t part;  ///< elements of a part of the result
};

std::byte* bytes_of(const View& view) { return static_cast<std::byte*>(view.data); }

void flip_a_bit(const Spoiled& s) {
  if (s.rank == 1) bytes_of(s.result)[s.result.count / 2 * size_of(s.result.dtype)] ^= std::byte{4};
}

void drop_a_block(const Spoiled& s) {
  if (s.rank == 1) std::memcpy(s.result.data, s.before.data(), kBlock * size_of(s.result.dtype));
}

template <class Change>
void change_every(const View& result, Change change) {
  with_type(result.dtype, [&]<class T>(T*) {
    T* const values = result.as<T>();
    for (std::size_t i = 0; i < result.count; ++i) {
      values[i] = saturating_cast<T>(change(to_float(values[i])));
    }
  });
}

void scale(const Spoiled& s) {
  change_every(s.result, [](float value) { return 2 * value; });
}

void scale_a_little(const Spoiled& s) {
  change_every(s.result, [](float value) { return 1.03F * value; });
}

void hide_what_is_not_finite(const Spoiled& s) {
  change_every(s.result, [](float value) { return std::isfinite(value) ? value : 0; });
}

void keep_a_part(const Spoiled& s) {
  if (s.rank == 0) std::memcpy(s.result.data, s.first.data(), s.part * size_of(s.result.dtype));
}

void leave_as_it_is(const Spoiled& /*s*/) {}

void hang(const Spoiled& s) {
  while (s.rank == 1) ::pause();
}

struct Failure {
  std::string_view name;
  void (*spoil)(const Spoiled&);
  bool drops_the_codec = false;  ///< the run is exact, whatever codec was asked for
  bool lazy = false;             ///< a run is left out where the result of the last one still lies
};
constexpr Failure kFailures[] = {{"flipped-bit", flip_a_bit},
                                 {"dropped-block", drop_a_block},
                                 {"scaled", scale},
                                 {"stale-part", keep_a_part},
                                 {"biased", scale_a_little, true},
                                 {"finite", hide_what_is_not_finite},
                                 {"lazy", leave_as_it_is, false, true},
                                 {"hangs", hang}};

class BrokenRun final : public Planned {
 public:
  BrokenRun(std::unique_ptr<Planned> run, const Failure& failure, int rank, std::size_t part)
      : run_(std::move(run)), failure_(failure), rank_(rank), part_(part) {}
  void start(ConstView in, View out, std::span<std::byte> workspace, StreamHandle stream) override {
    out_ = out;
    before_.assign(bytes_of(out), bytes_of(out) + out.bytes());
    left_out_ = failure_.lazy && before_ == last_;
    if (!left_out_) run_->start(in, out, workspace, stream);
  }
  void finish(StreamHandle stream) override {
    if (left_out_) return;
    run_->finish(stream);
    last_.assign(bytes_of(out_), bytes_of(out_) + out_.bytes());
    if (first_.empty()) first_ = last_;
    failure_.spoil({out_, before_, first_, rank_, part_});
  }
  [[nodiscard]] std::size_t workspace_bytes() const override { return run_->workspace_bytes(); }
  [[nodiscard]] comm::Bytes volume() const override { return run_->volume(); }

 private:
  std::unique_ptr<Planned> run_;
  const Failure& failure_;
  int rank_;
  std::size_t part_;
  View out_;
  bool left_out_ = false;
  std::vector<std::byte> before_;
  std::vector<std::byte> last_;
  std::vector<std::byte> first_;
};

class Broken final : public Collective {
 public:
  explicit Broken(const Collective& right) : right_(right) {}
  [[nodiscard]] std::string_view name() const override { return right_.name(); }
  [[nodiscard]] std::string_view redop() const override { return right_.redop(); }
  [[nodiscard]] bool has_root() const override { return right_.has_root(); }
  [[nodiscard]] std::size_t count(std::size_t bytes, Dtype dtype,
                                  std::size_t ranks) const override {
    return right_.count(bytes, dtype, ranks);
  }
  [[nodiscard]] std::size_t bytes(const Shape& shape) const override { return right_.bytes(shape); }
  [[nodiscard]] double bus_factor(std::size_t ranks) const override {
    return right_.bus_factor(ranks);
  }
  [[nodiscard]] std::vector<Algorithm> algorithms() const override {
    auto all = right_.algorithms();
    for (const auto& failure : kFailures) {
      all.push_back({.name = std::string(failure.name),
                     .traits = {.any_codec = !right_.preferred(false).empty()}});
    }
    return all;
  }
  [[nodiscard]] std::string_view preferred(bool levels) const override {
    return right_.preferred(levels);
  }
  [[nodiscard]] Memory memory(const Shape& shape, const Variant& variant) const override {
    return right_.memory(shape, inner(variant));
  }
  [[nodiscard]] std::unique_ptr<Planned> plan(const collective::Context& context,
                                              const Shape& shape,
                                              const Variant& variant) const override {
    Variant planned = inner(variant);
    for (const auto& failure : kFailures) {
      if (failure.name == variant.algorithm && failure.drops_the_codec) planned.codec = {};
    }
    auto run = right_.plan(context, shape, planned);
    for (const auto& failure : kFailures) {
      if (failure.name != variant.algorithm) continue;
      return std::make_unique<BrokenRun>(std::move(run), failure, shape.rank,
                                         right_.part_length(shape, 0));
    }
    return run;
  }
  [[nodiscard]] std::size_t parts(const Shape& shape) const override { return right_.parts(shape); }
  [[nodiscard]] std::size_t part_stride(const Shape& shape) const override {
    return right_.part_stride(shape);
  }
  [[nodiscard]] std::size_t part_length(const Shape& shape, std::size_t part) const override {
    return right_.part_length(shape, part);
  }
  [[nodiscard]] Expected expected(const Shape& shape, const Variant& variant, const Data& data,
                                  std::size_t part, std::size_t first,
                                  std::size_t length) const override {
    return right_.expected(shape, inner(variant), data, part, first, length);
  }

 private:
  [[nodiscard]] Variant inner(const Variant& variant) const {
    const auto is_failure = [&](const Failure& f) { return f.name == variant.algorithm; };
    if (std::ranges::none_of(kFailures, is_failure)) return variant;
    const std::string_view name = right_.preferred(false);
    return {std::string(name.empty() ? "native" : name), variant.codec};
  }

  const Collective& right_;
};

}  // namespace
}  // namespace zeropp::sweep

int main(int argc, char** argv) {
  using namespace zeropp::sweep;
  std::vector<std::unique_ptr<const Collective>> broken;
  std::vector<const Collective*> table;
  for (const Collective* right : collectives()) {
    broken.push_back(std::make_unique<Broken>(*right));
    table.push_back(broken.back().get());
  }
  return run(argc, argv, table);
}
