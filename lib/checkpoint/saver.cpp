#include "lib/checkpoint/saver.hpp"

#include <chrono>
#include <functional>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp::checkpoint {

namespace {

/// What `work` throws as Error, for comm::Control::agree().
std::optional<Error> status_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

std::vector<StoredSlice> write(const std::filesystem::path& folder, std::uint64_t rank,
                               const std::vector<OwnedSlice>& slices) {
  std::vector<HostSlice> views;
  views.reserve(slices.size());
  for (const OwnedSlice& owned : slices) views.push_back({owned.slice, owned.values});
  return write_rank_file(folder, rank, views);
}

}  // namespace

Saver::Saver(comm::Control& control, std::filesystem::path root, std::size_t keep)
    : control_(control), folder_(std::move(root)), keep_(keep) {}

Saver::~Saver() {
  if (writing_ && writing_->file.valid()) writing_->file.wait();
}

void Saver::agree(std::uint64_t step, const std::optional<Error>& status) {
  try {
    control_.agree(status);
  } catch (const comm::AgreedError&) {  // no rank writes any more
    if (control_.rank() == 0) folder_.give_up(step);
    throw;
  }
}

void Saver::start(std::uint64_t step, std::string state, std::vector<OwnedSlice> slices) {
  commit();
  agree(step, status_of([&] {
          if (control_.rank() == 0) folder_.begin(step);
        }));
  writing_.emplace();
  writing_->manifest = {step, static_cast<std::uint64_t>(control_.size()), std::move(state), {}};
  writing_->slices = std::move(slices);
  writing_->file = std::async(std::launch::async, [this, folder = folder_.partial(step)] {
    return write(folder, static_cast<std::uint64_t>(control_.rank()), writing_->slices);
  });
}

bool Saver::written() const {
  return writing_ && writing_->file.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

void Saver::commit() {
  if (!writing_) return;
  std::string own;
  const auto status = status_of([&] { own = slices_to_text(writing_->file.get()); });
  Manifest whole = std::move(writing_->manifest);
  writing_.reset();
  agree(whole.step, status);
  const std::vector<std::string> parts = control_.gather(own);
  agree(whole.step, status_of([&] {
          if (control_.rank() != 0) return;
          for (const std::string& part : parts) {
            for (StoredSlice& slice : slices_from_text(part, whole.world_size))
              whole.slices.push_back(std::move(slice));
          }
          folder_.commit(whole);
          folder_.prune(keep_);
        }));
}

}  // namespace zeropp::checkpoint
