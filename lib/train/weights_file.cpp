#include "lib/train/weights_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/half.hpp"
#include "kernels/core/view.hpp"
#include "lib/base/file.hpp"
#include "lib/base/sha256.hpp"
#include "lib/checkpoint/safetensors.hpp"
#include "lib/model/hf_names.hpp"

namespace zeropp::train {

namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";

/// Matrix [columns, rows] of a matrix [rows, columns].
std::vector<float> transpose(std::span<const float> values, std::size_t rows) {
  const std::size_t columns = values.size() / rows;
  std::vector<float> turned(values.size());
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      turned[column * rows + row] = values[row * columns + column];
    }
  }
  return turned;
}

void write_values(checkpoint::SafetensorsWriter& file, std::span<const float> values, Dtype dtype) {
  with_type(dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    std::vector<T> stored(values.size());
    std::ranges::transform(values, stored.begin(),
                           [](float value) { return saturating_cast<T>(value); });
    file.write(std::as_bytes(std::span(stored)));
  });
}

/// The tensors of a unit, from its flat buffer.
void write_unit(checkpoint::SafetensorsWriter& file, const model::Options& options,
                const zero::Unit& unit, std::span<const float> flat, Dtype dtype) {
  for (const zero::Tensor& tensor : unit.tensors) {
    for (const model::HfTensor& theirs : model::hf_tensors(options, tensor)) {
      const auto values = flat.subspan(tensor.offset + theirs.first, theirs.count());
      if (theirs.transposed) {
        write_values(file, transpose(values, tensor.shape.front()), dtype);
      } else {
        write_values(file, values, dtype);
      }
    }
  }
}

std::vector<checkpoint::StoredTensor> tensors_of(const model::Options& options,
                                                 const std::vector<zero::Unit>& units,
                                                 Dtype dtype) {
  std::vector<checkpoint::StoredTensor> tensors;
  for (const zero::Unit& unit : units) {
    for (const zero::Tensor& tensor : unit.tensors) {
      for (const model::HfTensor& theirs : model::hf_tensors(options, tensor)) {
        tensors.push_back({theirs.name, dtype, {theirs.shape.begin(), theirs.shape.end()}, 0, {}});
      }
    }
  }
  return tensors;
}

checkpoint::StoredFile write_config(const fs::path& folder, const model::Options& options,
                                    const std::vector<zero::Unit>& units) {
  const std::size_t vocabulary = units.front().tensors.front().shape.front();
  const std::string text = model::hf_config(options, vocabulary);
  File file(folder / kConfig, O_WRONLY | O_CREAT | O_EXCL, "create");
  file.write(std::as_bytes(std::span(text)));
  file.sync();
  file.close();
  return {kConfig, text.size(), sha256_hex(text)};
}

/// Throws where a file does not begin with the bytes that its digest is of, or where there are more
/// than these and it is no safetensors file.
void verify_begin(const fs::path& path, const checkpoint::StoredFile& stored) {
  const File file(path, O_RDONLY, "open");
  const std::uint64_t size = file.size();
  bool same = stored.name == kWeights ? size >= stored.bytes : size == stored.bytes;
  if (same) {
    std::string text(stored.bytes, '\0');
    file.read(0, std::as_writable_bytes(std::span(text)));
    same = sha256_hex(text) == stored.digest;
  }
  if (same) return;
  throw Error(ExitCode::io,
              fmt::format("{} was damaged or changed after it was written: use that of "
                          "another checkpoint",
                          path.string()));
}

/// The tensors of a file by the names of ours.
class Imported {
 public:
  Imported(const fs::path& path, const model::Options& options,
           const std::vector<zero::Unit>& units)
      : path_(path), options_(options), file_(path) {
    for (const auto& [name, tensor] : file_.tensors()) {
      if (!theirs_.emplace(model::without_prefix(name), &tensor).second) {
        refuse(fmt::format("'{}' is in it twice, with and without a prefix",
                           model::without_prefix(name)));
      }
    }
    std::set<std::string_view> left;
    for (const auto& [name, tensor] : theirs_) left.insert(name);
    for (const zero::Unit& unit : units) {
      units_.emplace(unit.name, &unit);
      for (const zero::Tensor& tensor : unit.tensors) {
        for (const model::HfTensor& theirs : model::hf_tensors(options_, tensor)) {
          require_same_shape(theirs);
          left.erase(model::without_prefix(theirs.name));
        }
      }
    }
    // Causal masks and wavelengths, which earlier versions of `transformers` wrote as well.
    std::erase_if(left, [](std::string_view name) {
      return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
             name.ends_with(".rotary_emb.inv_freq");
    });
    if (!left.empty()) refuse(fmt::format("'{}' has no place in it", *left.begin()));
  }

  /// Reads the values of `slice` of the master weights of a unit; zeros between tensors.
  void read(const checkpoint::Slice& slice, std::span<float> values) const {
    std::ranges::fill(values, 0.0F);
    const zero::Unit& unit = *units_.at(slice.array.substr(0, slice.array.rfind('/')));
    for (const zero::Tensor& tensor : unit.tensors) {
      const std::size_t begin = std::max<std::size_t>(slice.offset, tensor.offset);
      const std::size_t end =
          std::min<std::size_t>(slice.offset + slice.count, tensor.offset + tensor.count());
      if (begin >= end) continue;
      read(tensor, begin - tensor.offset, values.subspan(begin - slice.offset, end - begin));
    }
  }

 private:
  /// Reads the values of a tensor of ours from its element `first` on.
  void read(const zero::Tensor& tensor, std::size_t first, std::span<float> values) const {
    for (const model::HfTensor& theirs : model::hf_tensors(options_, tensor)) {
      const std::size_t begin = std::max(first, theirs.first);
      const std::size_t end = std::min(first + values.size(), theirs.first + theirs.count());
      if (begin >= end) continue;
      read(theirs, begin - theirs.first, values.subspan(begin - first, end - begin));
    }
  }
  /// Reads the values of a tensor of theirs, in our order, from its element `first` on.
  void read(const model::HfTensor& theirs, std::size_t first, std::span<float> values) const {
    const checkpoint::StoredTensor& stored = *theirs_.at(model::without_prefix(theirs.name));
    if (!theirs.transposed) {
      std::ranges::copy(file_.read(stored, first, first + values.size()), values.begin());
      return;
    }
    // Their columns are our rows: of a few of them, every row there has a part.
    const std::vector<float> whole = file_.read(stored, 0, stored.count());
    const std::size_t rows = theirs.shape.front();
    const std::size_t columns = whole.size() / rows;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t ours = first + i;
      values[i] = whole[ours % rows * columns + ours / rows];
    }
  }

  void require_same_shape(const model::HfTensor& wanted) const {
    const auto found = theirs_.find(model::without_prefix(wanted.name));
    if (found == theirs_.end()) refuse(fmt::format("it has no '{}'", wanted.name));
    if (!std::ranges::equal(found->second->shape, wanted.shape)) {
      refuse(fmt::format("'{}' is {} there, and {} here", wanted.name, found->second->shape,
                         wanted.shape));
    }
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::usage,
                fmt::format("the weights of {} are of another model: {}; give --model, "
                            "--num-layers, --hidden-size, --seq-length, --vocab-size, --tied-head "
                            "and the like as it has them",
                            path_.string(), what));
  }

  fs::path path_;
  const model::Options& options_;
  checkpoint::SafetensorsReader file_;
  std::map<std::string_view, const checkpoint::StoredTensor*> theirs_;  ///< without prefix
  std::map<std::string, const zero::Unit*> units_;
};

}  // namespace

std::vector<checkpoint::StoredFile> export_weights(const fs::path& folder,
                                                   const config::TrainConfig& config,
                                                   const app::Context& context,
                                                   const Session& session) {
  const std::vector<zero::Unit>& units = session.model().units();
  const Dtype dtype = config.zero.compute;
  std::vector<checkpoint::StoredFile> written;
  std::optional<checkpoint::SafetensorsWriter> file;
  context.agree_on([&] {
    if (!context.is_root()) return;
    written.push_back(write_config(folder, config.model, units));
    file.emplace(folder / kWeights, tensors_of(config.model, units, dtype));
  });
  for (std::size_t u = 0; u < units.size(); ++u) {
    const std::vector<float> flat = session.engine().gather_master(u);
    context.agree_on([&] {
      if (file) write_unit(*file, config.model, units[u], flat, dtype);
    });
  }
  context.agree_on([&] {
    if (file) written.push_back(file->finish());
  });
  return written;
}

void verify_exported(const fs::path& folder, const checkpoint::Manifest& manifest, std::size_t rank,
                     std::size_t ranks) {
  for (const checkpoint::StoredFile& stored : manifest.files) {
    verify_begin(folder / stored.name, stored);
    if (stored.name != kWeights) continue;
    const checkpoint::SafetensorsReader file(folder / stored.name);
    std::size_t next = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      if (next++ % ranks == rank) file.verify(tensor);
    }
  }
}

void import_weights(const fs::path& file, const model::Options& options,
                    const app::Context& context, Session& session) {
  context.agree_on([&] {
    const Imported imported(file, options, session.model().units());
    session.engine().set_weights([&](const checkpoint::Slice& slice, std::span<std::byte> values) {
      imported.read(slice, {reinterpret_cast<float*>(values.data()), slice.count});
    });
  });
}

}  // namespace zeropp::train
