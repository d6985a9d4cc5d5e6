#include "apps/sweep/operation.hpp"

#include <span>
#include <utility>

#include "apps/sweep/comparison.hpp"

namespace zeropp::sweep {

Operation::Operation(const SweepContext& sweep, const Collective& collective, const Shape& shape,
                     const Variant& variant, std::size_t aggregated)
    : sweep_(sweep),
      collective_(collective),
      shape_(shape),
      variant_(variant),
      memory_(collective.memory(shape, variant)),
      staging_(pieces_of_round() * kPiece * sizeof(float), sweep.device.staging()),
      input_(sweep.groups.make_memory(memory_.input_bytes(shape.dtype))) {
  const std::size_t bytes = std::max(memory_.result_bytes(), memory_.in_place_bytes(shape.dtype));
  for (std::size_t i = 0; i < aggregated; ++i) {
    const collective::Context context{.groups = sweep.groups,
                                      .group = sweep.group,
                                      .recorder = recorder_,
                                      .device = sweep.device};
    Slot slot{.workspace = {},
              .result = sweep.groups.make_memory(bytes),
              .registered = {},
              .plan = collective.plan(context, shape, variant)};
    slot.workspace = sweep.groups.make_memory(slot.plan->workspace_bytes());
    slots_.push_back(std::move(slot));
  }
}

void Operation::register_memory() {
  comm::Control& control = sweep_.context.control();
  registered_input_ = sweep_.groups.register_memory(input_, control);
  for (Slot& slot : slots_) {
    for (const Buffer* memory : {&slot.workspace, &slot.result}) {
      for (auto& one : sweep_.groups.register_memory(*memory, control))
        slot.registered.push_back(std::move(one));
    }
  }
}

View Operation::stage(std::size_t slot, const Data& data, double sign, std::size_t first,
                      std::size_t length) {
  const int own = shape_.members[static_cast<std::size_t>(shape_.rank)];
  const std::size_t filled = first < memory_.filled ? std::min(length, memory_.filled - first) : 0;
  std::vector<float> values(length, 0.0F);
  data.values(own, first, std::span(values).first(filled));
  const View made = staged(slot, length, shape_.dtype);
  with_type(shape_.dtype, [&]<class T>(T*) {
    for (std::size_t i = 0; i < length; ++i) {
      made.as<T>()[i] = saturating_cast<T>(static_cast<float>(sign) * values[i]);
    }
  });
  return made;
}

void Operation::send(const Data& data, double sign) {
  const View input = input_.view(memory_.input, shape_.dtype);
  const std::size_t pieces = (memory_.input + kPiece - 1) / kPiece;
  std::vector<View> made(pieces_of_round());
  for (std::size_t begin = 0; begin < pieces; begin += pieces_of_round()) {
    const std::size_t round = std::min(pieces_of_round(), pieces - begin);
    sweep_.workers.parallel_for(round, [&](std::size_t /*worker*/, std::size_t i) {
      const std::size_t first = (begin + i) * kPiece;
      made[i] = stage(i, data, sign, first, std::min(kPiece, memory_.input - first));
    });
    for (std::size_t i = 0; i < round; ++i) {
      const View to = input.part((begin + i) * kPiece, made[i].count);
      copy(to.data, made[i].data, to.bytes());
    }
    sweep_.stream.synchronize();
  }
}

void Operation::send_repeated(const Data& data) {
  const View input = input_.view(memory_.input, shape_.dtype);
  const View made = stage(0, data, 1, 0, std::min(kPiece, memory_.input));
  for (std::size_t first = 0; first < memory_.input; first += kPiece) {
    const View piece = input.part(first, std::min(kPiece, memory_.input - first));
    copy(piece.data, made.data, piece.bytes());
  }
  sweep_.stream.synchronize();
}

void Operation::forget() {
  for (const Slot& slot : slots_) {
    if (slot.result.bytes() == 0) continue;
    sweep_.device.runtime->fill(slot.result.data(), slot.result.bytes(), slot.result.kind(),
                                Comparison::kPoison);
  }
}

void Operation::restore() {
  if (mode_ == Mode::out_of_place) return;
  for (const Slot& slot : slots_) {
    copy(slot.result.data() + memory_.input_at, input_.data(), input_.bytes());
  }
}

void Operation::run() {
  const StreamHandle stream = sweep_.stream.handle();
  for (const Slot& slot : slots_) {
    slot.plan->start(input_of(slot), result_of(slot), slot.workspace.span(), stream);
  }
  for (const Slot& slot : slots_) slot.plan->finish(stream);
  runs_ += slots_.size();
}

void Operation::run_alone() {
  forget();
  restore();
  run();
  sweep_.stream.synchronize();
}

comm::Bytes Operation::count_traffic() {
  const comm::Bytes before = counted();
  run();
  sweep_.stream.synchronize();
  if (is_modelled()) return slots_.front().plan->volume();
  const comm::Bytes sent = counted() - before;
  return {sent.intra / slots_.size(), sent.inter / slots_.size()};
}

bool Operation::sent_as_predicted() const {
  const comm::Bytes predicted = slots_.front().plan->volume();
  return is_modelled() ||
         counted() == comm::Bytes{runs_ * predicted.intra, runs_ * predicted.inter};
}

bool Operation::is_modelled() const { return sweep::is_modelled(collective_, variant_.algorithm); }

ConstView Operation::input_of(const Slot& slot) const {
  return mode_ == Mode::out_of_place
             ? input_.view(memory_.input, shape_.dtype)
             : slot.result.view(memory_.input, shape_.dtype, memory_.input_at);
}

View Operation::result_of(const Slot& slot) const {
  return slot.result.view(memory_.result, memory_.result_dtype,
                          mode_ == Mode::out_of_place ? 0 : memory_.result_at);
}

comm::Bytes Operation::counted() const {
  comm::Bytes sum;
  for (const auto& row : recorder_.collectives) sum += {row.wire_bytes_intra, row.wire_bytes_inter};
  return sum;
}

void Operation::copy(void* to, const void* from, std::size_t bytes) const {
  sweep_.stream.copy(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
}

}  // namespace zeropp::sweep
