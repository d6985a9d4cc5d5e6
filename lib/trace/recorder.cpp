#include "lib/trace/recorder.hpp"

namespace zeropp::trace {

std::string_view Timers::name_of(Category category) {
  switch (category) {
    case Category::matmul:
      return "matmul";
    case Category::nn:
      return "nn";
    case Category::codec:
      return "codec";
    case Category::optimizer:
      return "optimizer";
    case Category::communication:
      return "communication";
    case Category::data:
      return "data";
    case Category::other:
      return "other";
    case Category::count:
      break;
  }
  return "?";
}

double Timers::seconds(Category category) const {
  return seconds_.at(static_cast<std::size_t>(category));
}

Timers::Category Timers::enter(Category category) {
  const auto now = Clock::now();
  if (running_ != Category::count) {
    seconds_.at(static_cast<std::size_t>(running_)) +=
        std::chrono::duration<double>(now - since_).count();
  }
  since_ = now;
  const Category outer = running_;
  running_ = category;
  return outer;
}

bool same_keys(const CollectiveRow& a, const CollectiveRow& b) {
  return a.operation == b.operation && a.purpose == b.purpose && a.phase == b.phase &&
         a.algorithm == b.algorithm && a.codec == b.codec && a.group == b.group &&
         a.path == b.path && a.modelled == b.modelled;
}

CollectiveRow& Recorder::collective(const CollectiveRow& keys) {
  for (auto& row : collectives) {
    if (same_keys(row, keys)) return row;
  }
  return collectives.emplace_back(keys);
}

}  // namespace zeropp::trace
