#include "lib/checkpoint/saver.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <functional>
#include <random>
#include <utility>

#include "lib/base/error.hpp"
#include "lib/base/fault.hpp"
#include "lib/base/status.hpp"

namespace zeropp::checkpoint {

namespace {

/// A name that no other run has.
std::string new_writer() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Saver::Saver(comm::Control& control, std::filesystem::path root, std::size_t keep)
    : control_(control), folder_(std::move(root), control.broadcast(new_writer())), keep_(keep) {
  control_.agree(status_of([&] {
    if (control_.rank() == 0) folder_.adopt();
  }));
}

Saver::~Saver() {
  if (writing_ && writing_->file.valid()) writing_->file.wait();
}

void Saver::or_give_up(std::uint64_t step, const std::function<void()>& work) {
  try {
    work();
  } catch (const comm::AgreedError& error) {  // no rank writes any more
    std::string cause;                        // as rank 0 sees it
    if (control_.rank() == 0) {
      cause = folder_.taken_away(step);
      folder_.give_up(step);
    }
    cause = control_.broadcast(cause);
    if (cause.empty()) throw;
    throw comm::AgreedError(ExitCode::io, cause, error.reporter());
  }
}

void Saver::start(std::uint64_t step, std::string state, std::vector<HostSlice> slices,
                  const Beside& beside) {
  settle();
  control_.agree(status_of([&] {
    if (control_.rank() == 0) folder_.begin(step);
  }));
  std::vector<StoredFile> files;
  if (beside) or_give_up(step, [&] { files = beside(folder_.partial(step)); });
  writing_.emplace();
  writing_->manifest = {
      step, static_cast<std::uint64_t>(control_.size()), std::move(state), {}, std::move(files)};
  for (const HostSlice& slice : slices) writing_->bytes += slice.values.size();
  writing_->file = begin_to_write(step, std::move(slices));
}

std::future<Saver::Written> Saver::begin_to_write(std::uint64_t step,
                                                  std::vector<HostSlice> slices) const {
  const auto rank = static_cast<std::uint64_t>(control_.rank());
  try {
    fault::run_out_of(fault::Resource::threads);
    return std::async(
        std::launch::async, [rank, folder = folder_.partial(step), slices = std::move(slices)] {
          using Clock = std::chrono::steady_clock;
          const Clock::time_point begin = Clock::now();
          Written written{write_rank_file(folder, rank, slices), 0};
          written.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
          return written;
        });
  } catch (...) {  // the other ranks write: all hear of it in commit()
    std::promise<Written> failed;
    failed.set_exception(std::current_exception());
    return failed.get_future();
  }
}

bool Saver::written() const {
  return writing_ && writing_->file.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

std::optional<Saved> Saver::commit() {
  if (!writing_) return std::nullopt;
  std::string own;
  Saved saved{writing_->manifest.step, writing_->bytes, 0};
  auto status = status_of([&] {
    const Written written = writing_->file.get();
    saved.seconds = written.seconds;
    own = slices_to_text(written.slices);
  });
  if (status && status->code() == ExitCode::environment) {  // it does not say of what
    status.emplace(status->code(), fmt::format("cannot save the checkpoint after {} steps: {}",
                                               saved.step, status->what()));
  }
  Manifest whole = std::move(writing_->manifest);
  writing_.reset();
  or_give_up(whole.step, [&] {
    control_.agree(status);
    const std::vector<std::string> parts = control_.gather(own);
    control_.agree(status_of([&] {
      if (control_.rank() == 0) complete(whole, parts);
    }));
  });
  control_.agree(status_of([&] {
    if (control_.rank() != 0) return;
    removing_ = std::async(std::launch::async, Folder::remove, folder_.retire(keep_));
  }));
  return saved;
}

void Saver::settle() {
  control_.agree(status_of([&] {
    if (removing_.valid()) removing_.get();
  }));
}

void Saver::complete(Manifest& whole, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    for (StoredSlice& slice : slices_from_text(part, whole.world_size))
      whole.slices.push_back(std::move(slice));
  }
  folder_.commit(whole);
}

}  // namespace zeropp::checkpoint
