#include "lib/zero/engine/optimizer_arrays.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/checked.hpp"

namespace zeropp::zero {

namespace {

/// Elements of a unit's flat buffer that canonical shard `number` has.
Extent part_of(const UnitPartition& unit, std::size_t number) {
  const std::size_t begin = std::min(number * unit.canonical, unit.flat);
  return {begin, std::min(unit.canonical, unit.flat - begin)};
}

/// Elements that lie in both extents; none, at the place where they would begin, where the two do
/// not meet.
Extent common(const Extent& one, const Extent& other) {
  const std::size_t end = std::min(one.begin + one.count, other.begin + other.count);
  const std::size_t begin = std::min(std::max(one.begin, other.begin), end);
  return {begin, end - begin};
}

/// Elements of an array of which each is for `elements` of the flat buffer.
Extent in_array(const Extent& part, std::size_t elements) {
  return {part.begin / elements, ceil_div(part.count, elements)};
}

std::string moments_name(const std::string& array, optim::Moments moments) {
  return moments == optim::Moments::fp32 ? array : fmt::format("{}/{}", array, enum_name(moments));
}

std::string scales_name(const std::string& array) { return array + "/scales"; }

}  // namespace

std::string OptimizerArrays::array_name(std::size_t unit, std::size_t index) const {
  const std::string array = index == 0 ? "master" : fmt::format("state{}", index - 1);
  return context_.model.units()[unit].name + "/" + array;
}

checkpoint::Slice OptimizerArrays::slice(std::string array, const Form& form, std::size_t unit,
                                         const Extent& part) const {
  return {std::move(array), form.element_bytes, context_.units()[unit].flat / form.elements,
          part.begin, part.count};
}

OptimizerArrays::KeptArray OptimizerArrays::in_memory(std::string name, const Form& form,
                                                      const Extent& part, std::byte* values) const {
  const auto bytes_of = [values, size = form.element_bytes](const Extent& of) {
    return values + of.begin * size;
  };
  return {std::move(name),
          form,
          part.begin,
          part.count,
          [this, bytes_of](const Extent& of, std::span<std::byte> to) {
            context_.compute().copy(to.data(), bytes_of(of), to.size());
          },
          [this, bytes_of](const Extent& of, std::span<const std::byte> from) {
            context_.compute().copy(bytes_of(of), from.data(), from.size());
          }};
}

OptimizerArrays::KeptArray OptimizerArrays::in_file(std::string name, const Form& form,
                                                    const Extent& part, std::size_t unit,
                                                    std::size_t index, bool scales) const {
  OptimizerRecords* const records = optimizer_.offloaded()->records();
  const OptimizerRecords::Array array{index, scales, form.element_bytes, form.elements};
  return {std::move(name),
          form,
          part.begin,
          part.count,
          [=](const Extent& of, std::span<std::byte> to) { records->read(unit, array, of, to); },
          [=](const Extent& of, std::span<const std::byte> from) {
            records->write(unit, array, of, from);
          }};
}

std::vector<OptimizerArrays::KeptArray> OptimizerArrays::kept_arrays(std::size_t unit,
                                                                     std::size_t index) const {
  const std::size_t own = context_.owned().begin(context_.units()[unit]);
  const std::string base = array_name(unit, index);
  std::vector<KeptArray> arrays;
  const auto add = [&](const OptimizerShard& part, bool on_file) {
    const Extent& extent = part.extent(unit);
    if (extent.count == 0) return;
    const Extent here{own + extent.begin, extent.count};
    const auto array = [&](const std::string& name, const Form& form, bool scales,
                           std::byte* values) {
      const Extent of = in_array(here, form.elements);
      arrays.push_back(on_file ? in_file(name, form, of, unit, index, scales)
                               : in_memory(name, form, of, values));
    };
    if (index == 0) {
      array(base, {}, false, on_file ? nullptr : static_cast<std::byte*>(part.master(unit).data));
      return;
    }
    const KeptMoment moment = on_file ? KeptMoment() : part.moment(unit, index - 1);
    const optim::Moments kind = part.moments();
    array(moments_name(base, kind), {optim::moment_element_bytes(kind)}, false, moment.values);
    if (kind != optim::Moments::int8) return;
    array(scales_name(base), kScales, true, reinterpret_cast<std::byte*>(moment.scales));
  };
  const OffloadedOptimizer* const offloaded = optimizer_.offloaded();
  if (offloaded != nullptr) add(offloaded->shard(), offloaded->records() != nullptr);
  add(optimizer_.on_device(), false);
  return arrays;
}

void OptimizerArrays::fill(std::size_t unit, const KeptArray& array, const ReadSlice& read) {
  const Extent all{0, context_.units()[unit].flat / array.form.elements};
  const Extent part = common(all, {array.begin, array.count});
  std::vector<std::byte> memory(part.count * array.form.element_bytes);
  read(slice(array.name, array.form, unit, part), memory);
  fill(array, part, memory);
}

void OptimizerArrays::fill(const KeptArray& array, const Extent& part,
                           std::span<const std::byte> values) {
  context_.compute().synchronize();  // weights of other units leave from the same buffers
  array.write(array.at(part), values);
  context_.compute().synchronize();  // `values` may end then
}

optim::Moments OptimizerArrays::saved_moments(std::size_t unit, std::size_t index,
                                              const HasSlice& has) const {
  const optim::Moments own = optimizer_.on_device().moments();
  const auto saved_as = [&](optim::Moments kind) {
    return has(slice(moments_name(array_name(unit, index), kind),
                     {optim::moment_element_bytes(kind)}, unit, {}));
  };
  if (!has || saved_as(own)) return own;
  for (const auto kind : {optim::Moments::fp32, optim::Moments::bf16, optim::Moments::int8}) {
    if (saved_as(kind)) return kind;
  }
  return own;
}

std::vector<float> OptimizerArrays::read_moments(optim::Moments saved, std::size_t unit,
                                                 std::size_t index, const Extent& part,
                                                 const ReadSlice& read) const {
  // Whole blocks, as the other ranks may have cut elsewhere.
  const std::size_t block = optim::moment_alignment(saved);
  const std::size_t begin = part.begin / block * block;
  const Extent whole{begin, round_up(part.begin + part.count, block) - begin};
  const std::string name = array_name(unit, index);
  const Form form{optim::moment_element_bytes(saved)};
  std::vector<std::byte> values(whole.count * form.element_bytes);
  read(slice(moments_name(name, saved), form, unit, whole), values);
  std::vector<float> scales(optim::moment_scales(saved, whole.count));
  if (!scales.empty()) {
    read(slice(scales_name(name), kScales, unit, in_array(whole, block)),
         std::as_writable_bytes(std::span(scales)));
  }
  std::vector<float> wide(whole.count);
  optim::widen_moments(saved, optimizer_.on_device().is_signed(index - 1), whole.count,
                       values.data(), scales.data(), wide.data());
  const auto first = wide.begin() + static_cast<std::ptrdiff_t>(part.begin - begin);
  return {first, first + static_cast<std::ptrdiff_t>(part.count)};
}

void OptimizerArrays::convert(optim::Moments saved, std::size_t unit, std::size_t index,
                              const ReadSlice& read) {
  const OptimizerShard& shard = optimizer_.on_device();
  const optim::Moments own = shard.moments();
  const std::vector<KeptArray> kept = kept_arrays(unit, index);
  const std::size_t each = own == optim::Moments::int8 ? 2 : 1;
  for (std::size_t i = 0; i < kept.size(); i += each) {
    const Extent part = common({0, context_.units()[unit].flat}, {kept[i].begin, kept[i].count});
    const std::vector<float> wide = read_moments(saved, unit, index, part, read);
    std::vector<std::byte> values(part.count * kept[i].form.element_bytes);
    std::vector<float> scales(optim::moment_scales(own, part.count));
    optim::keep_moments(own, shard.is_signed(index - 1), part.count, wide.data(), values.data(),
                        scales.data());
    fill(kept[i], part, values);
    if (each == 2) {
      fill(kept[i + 1], in_array(part, kScales.elements), std::as_bytes(std::span(scales)));
    }
  }
}

std::vector<std::byte> OptimizerArrays::fetch_master(std::size_t unit) const {
  const std::size_t shard = context_.units()[unit].canonical;
  const std::size_t begin = context_.canonical() * shard;
  const Stream& compute = context_.compute();
  context_.executor.join();
  compute.synchronize();  // the copy to pageable memory would wait unwatched
  std::vector<std::byte> bytes;
  for (const KeptArray& array : kept_arrays(unit, 0)) {
    const std::size_t first = std::max(begin, array.begin);
    const std::size_t last = std::min(begin + shard, array.begin + array.count);
    if (first >= last) continue;
    const std::size_t at = bytes.size();
    bytes.resize(at + (last - first) * sizeof(float));
    array.read(array.at({first, last - first}), std::span(bytes).subspan(at));
    compute.synchronize();
  }
  return bytes;
}

std::vector<KeptSlice> OptimizerArrays::slices() const {
  std::vector<KeptSlice> slices;
  for (std::size_t u = 0; u < context_.units().size(); ++u) {
    const Extent shard = part_of(context_.units()[u], context_.canonical());
    for (std::size_t index = 0; index <= optimizer_.on_device().states(); ++index) {
      for (const KeptArray& array : kept_arrays(u, index)) {
        const Extent part =
            common(in_array(shard, array.form.elements), {array.begin, array.count});
        slices.push_back({slice(array.name, array.form, u, part),
                          [=](std::span<std::byte> to) { array.read(array.at(part), to); }});
      }
    }
  }
  return slices;
}

bool OptimizerArrays::restore(std::size_t unit, const ReadSlice& read, const HasSlice& has) {
  const optim::Moments own = optimizer_.on_device().moments();
  bool as_kept = true;
  read_master(unit, read);
  for (std::size_t index = 1; index <= optimizer_.on_device().states(); ++index) {
    const optim::Moments saved = saved_moments(unit, index, has);
    if (saved == own) {
      for (const KeptArray& array : kept_arrays(unit, index)) fill(unit, array, read);
    } else {
      convert(saved, unit, index, read);
      as_kept = false;
    }
  }
  return as_kept;
}

void OptimizerArrays::read_master(std::size_t unit, const ReadSlice& read) {
  for (const KeptArray& array : kept_arrays(unit, 0)) fill(unit, array, read);
}

}  // namespace zeropp::zero
