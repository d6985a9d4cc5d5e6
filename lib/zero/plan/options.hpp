// Options of the ZeRO engine, as plain values. lib/config reads them from JSON and flags; resolve()
// there decides what `auto` means and which combinations there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/codec/spec.hpp"
#include "kernels/core/dtype.hpp"
#include "kernels/core/enum_names.hpp"
#include "lib/base/async_file_options.hpp"
#include "lib/zero/plan/loss_scale.hpp"

namespace zeropp::zero {

/// Hops of qgZ that feed errors back; intra: also the hop of 1-hop.
enum class FeedbackHops : std::uint8_t { none, intra, inter, both };
constexpr auto enum_names(FeedbackHops) { return name_table("none", "intra", "inter", "both"); }

/// Storage of the errors that are fed back.
enum class FeedbackStorage : std::uint8_t { fp32, int8 };
constexpr auto enum_names(FeedbackStorage) { return name_table("fp32", "int8"); }

/// Values whose widths are chosen by measured errors.
enum class AdaptedValues : std::uint8_t { none, weights, gradients };
constexpr auto enum_names(AdaptedValues) { return name_table("none", "weights", "gradients"); }

/// Place of offloaded arrays: the host's memory, or files.
enum class OffloadDevice : std::uint8_t { none, cpu, nvme };
constexpr auto enum_names(OffloadDevice) { return name_table("none", "cpu", "nvme"); }

/// Place of hpZ's secondary shards: the device that computes, or the host's memory.
enum class HpzDevice : std::uint8_t { device, cpu };
constexpr auto enum_names(HpzDevice) { return name_table("device", "cpu"); }

/// Error feedback: what the encoding of a hop of qgZ's reduction lost is added to the next
/// gradients (LoCo).
struct ErrorFeedbackOptions {
  FeedbackHops hops = FeedbackHops::none;
  double beta = 0;               ///< decay of the kept errors, in [0, 1); 0: classical
  std::size_t reset_period = 0;  ///< steps after which errors are forgotten; 0: never
  FeedbackStorage dtype = FeedbackStorage::fp32;

  bool operator==(const ErrorFeedbackOptions&) const = default;
};

/// An entry of zeropp.codec_schedule: the codecs that it names hold for its units from its step on.
/// codec_table.hpp says which entry a unit follows.
struct CodecEntry {
  std::size_t from_step = 0;            ///< steps before it, those that were skipped included
  std::vector<std::string> units = {};  ///< kinds or names, with * ? [] as in a shell; empty: all
  std::optional<codec::CodecSpec> weight_codec = {};
  std::optional<codec::CodecSpec> gradient_codec_intra = {};
  std::optional<codec::CodecSpec> gradient_codec_inter = {};

  bool operator==(const CodecEntry&) const = default;
};

/// A width of the integer codecs for each unit, by measured errors (adaptive_bits.hpp).
struct AdaptiveBitsOptions {
  AdaptedValues values = AdaptedValues::none;
  std::size_t minimum_bits = 2;                    ///< of the widths to choose from
  std::size_t maximum_bits = 8;                    ///< of the widths to choose from
  std::size_t block = 128;                         ///< of all of them
  codec::CodecSpec budget_codec{"int4", 128, {}};  ///< what it would send is the budget
  std::size_t budget_bytes = 0;  ///< a step, over all ranks; 0: what budget_codec sends
  std::size_t interval = 100;    ///< steps between choices

  bool operator==(const AdaptiveBitsOptions&) const = default;
};

/// Type of the copies that differences are added to.
enum class CopyDtype : std::uint8_t { compute, fp32 };
constexpr auto enum_names(CopyDtype) { return name_table("compute", "fp32"); }

/// Weight differences: a step sends the differences of the weights from a copy, and every holder of
/// the copy adds them. At stage 3 every node holds a copy: hpZ's, over the ranks of a
/// node, or in nodes of one rank, where hpz_partition_size is 1, that rank's. At stages 1 and 2
/// every rank holds a copy: its resident weights.
struct WeightDifferenceOptions {
  bool enabled = false;
  codec::CodecSpec codec{"int4", 128, {}};  ///< of the differences
  /// Differences are of bit patterns, and lose nothing (kernels/codec/exact.hpp): the copies have
  /// the bits of the weights. 16-bit weights, without qwZ.
  bool exact = false;
  /// Bits per weight that plans assume of exact differences, whose size depends on the data; 0
  /// before resolve(), which then takes what was measured at the learning rate.
  double planned_bits = 0;
  CopyDtype copy = CopyDtype::compute;  ///< type that the copies are kept in
  std::size_t refresh_interval = 0;  ///< steps after which whole weights are sent; 0: never again

  bool operator==(const WeightDifferenceOptions&) const = default;
};

/// Master weights and what the optimizer keeps, in the memory of the host or in files; the host
/// steps.
struct OffloadOptimizerOptions {
  OffloadDevice device = OffloadDevice::none;
  std::string nvme_path = {};                      ///< the folder of the files
  bool pin_memory = false;                         ///< what is kept on the host is page-locked
  std::size_t buffer_count = 4;                    ///< pieces on their way at once
  double ratio = 1;                                ///< of the elements, in [0, 1]; the rest stays
  std::size_t piece_size = std::size_t{1} << 22U;  ///< elements of a piece, at most
  std::size_t sub_group_size = 1'000'000'000;      ///< elements of a piece, at most
  bool pipeline_read = true;   ///< of files, while the pieces before are updated
  bool pipeline_write = true;  ///< of files, while the next pieces are updated

  [[nodiscard]] bool enabled() const { return device != OffloadDevice::none; }
  [[nodiscard]] bool on_file() const { return device == OffloadDevice::nvme; }

  bool operator==(const OffloadOptimizerOptions&) const = default;
};

/// The weights that are gathered, in the memory of the host or in files; stage 3, with the
/// optimizer there too.
struct OffloadParamOptions {
  OffloadDevice device = OffloadDevice::none;
  std::string nvme_path = {};    ///< the folder of the files
  bool pin_memory = false;       ///< those on the host are page-locked
  std::size_t buffer_count = 5;  ///< units that are read from files at once
  std::size_t max_in_cpu =
      1'000'000'000;  ///< elements of a rank that stay on the host all the same

  [[nodiscard]] bool enabled() const { return device != OffloadDevice::none; }
  [[nodiscard]] bool on_file() const { return device == OffloadDevice::nvme; }

  bool operator==(const OffloadParamOptions&) const = default;
};

/// Consequence of a verified step that is found damaged: the run ends, or warns and continues.
enum class VerifyAction : std::uint8_t { end, warn };
constexpr auto enum_names(VerifyAction) { return name_table("end", "warn"); }

/// Value of hpz_partition_size before resolve(): the ranks of a node.
inline constexpr std::size_t kNodeOfRanks = 0;
/// Value of shard_group_size: all ranks are one shard group.
inline constexpr std::size_t kAllRanks = 0;
/// Value of shard_group_size before resolve(): the ranks of a node.
inline constexpr std::size_t kNodeOfShards = std::numeric_limits<std::size_t>::max();

/// Name of an algorithm before resolve(), which is to choose one.
inline constexpr const char* kAutomatic = "auto";
inline bool is_automatic(const std::string& algorithm) { return algorithm == kAutomatic; }

struct Options {
  int stage = 3;                                 ///< zero_optimization.stage
  bool quantized_weights = false;                ///< qwZ: zero_quantized_weights
  std::size_t hpz_partition_size = 1;            ///< hpZ: zero_hpz_partition_size; 1: off
  HpzDevice hpz_device = HpzDevice::device;      ///< of hpZ's secondary shards
  std::size_t shard_group_size = kAllRanks;      ///< ranks that shard one copy of everything (MiCS)
  bool quantized_gradients = false;              ///< qgZ: zero_quantized_gradients
  std::size_t reduce_bucket_size = 500'000'000;  ///< elements, as in DeepSpeed
  std::size_t prefetch_bucket_size = 50'000'000;        ///< stage3_prefetch_bucket_size, elements
  std::size_t max_live_parameters = 1'000'000'000'000;  ///< stage3_max_live_parameters
  std::size_t max_reuse_distance = 0;                   ///< stage3_max_reuse_distance, elements
  std::size_t persistence_threshold = 0;  ///< stage3_param_persistence_threshold, elements
  /// stage3_model_persistence_threshold, elements
  std::size_t model_persistence_threshold = 1'000'000'000'000;
  bool overlap_comm = true;

  OffloadOptimizerOptions offload_optimizer;
  OffloadParamOptions offload_param;
  AsyncFileOptions aio;  ///< of the files

  codec::CodecSpec weight_codec{"int8", 256, {}};  ///< of whole weights with qwZ
  /// The own shards' wire images are kept from one update to the next, and gathers start from them.
  bool keep_weight_images = false;
  codec::CodecSpec gradient_codec_intra{"int4", 128, {}};  ///< of qgZ inside a node
  codec::CodecSpec gradient_codec_inter{"int4", 128, {}};  ///< of qgZ across nodes
  WeightDifferenceOptions weight_differences;
  std::vector<CodecEntry> codec_schedule;  ///< in the order of their steps
  AdaptiveBitsOptions adaptive_bits;
  ErrorFeedbackOptions error_feedback;
  std::string all_gather_algorithm = kAutomatic;
  std::string reduce_scatter_algorithm = kAutomatic;
  std::string secondary_gather_algorithm = kAutomatic;  ///< inside the hpZ group
  std::size_t pipeline_depth = 1;
  bool deterministic = false;
  std::size_t measure_errors = 0;  ///< steps between measurements of quantization errors; 0: none

  std::size_t verify_interval = 0;  ///< steps between those that are verified (step_guard.hpp);
                                    ///< 0: none
  VerifyAction verify_action = VerifyAction::end;

  Dtype compute = Dtype::fp32;  ///< bf16.enabled, fp16.enabled
  /// Dtype of a unit's gradients until they are reduced, where each is written once; fp32 or
  /// `compute`.
  Dtype gradient_dtype = Dtype::fp32;
  LossScaleOptions loss_scale;     ///< with fp16; elsewhere losses are not scaled
  double gradient_clipping = 0.0;  ///< 0: off
  /// Elements that a shard is a multiple of, beside 16 bytes; a power of two. The optimizer's
  /// moments need it: optim::moment_alignment().
  std::size_t shard_multiple = 1;
  std::size_t accumulation_steps = 1;
  /// Each unit is updated as soon as its gradients are reduced, beside the backward of others: they
  /// are kept no longer, and nothing that the whole gradient decides can hold an update back.
  bool update_in_backward = false;
  std::uint64_t seed = 1;

  /// Whether qwZ gathers whole weights, in every step, from shards whose fp32 master lies on the
  /// device: images that are kept of them can serve. Weight differences send none.
  [[nodiscard]] bool gathers_device_masters() const {
    return stage == 3 && quantized_weights && !weight_differences.enabled &&
           !offload_optimizer.enabled() && !offload_param.enabled();
  }
  /// Whether groups of hpz_partition_size ranks hold a secondary copy of the weights. A size that
  /// is not resolved yet (kNodeOfRanks) counts as one that has it.
  [[nodiscard]] bool has_secondary() const {
    return hpz_partition_size != 1 || exchanges_differences();
  }
  /// Whether weight differences go along the rails to secondary copies (OpKind::exchange).
  [[nodiscard]] bool exchanges_differences() const {
    return weight_differences.enabled && stage == 3;
  }
  /// Whether weight differences go to the resident weights of all ranks (OpKind::refresh).
  [[nodiscard]] bool refreshes_differences() const {
    return weight_differences.enabled && stage < 3;
  }

  bool operator==(const Options&) const = default;
};

}  // namespace zeropp::zero
