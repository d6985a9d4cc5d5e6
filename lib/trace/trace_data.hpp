// Data of a trace, as plain values: the program fills them on the rank that writes.
// lib/trace/document.cpp says under which name, with which units, each goes into the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/trace/provenance.hpp"
#include "lib/trace/recorder.hpp"
#include "lib/trace/verdict.hpp"

namespace zeropp::trace {

struct RankRow {
  std::string host;
  std::uint64_t node = 0;
  std::uint64_t local_rank = 0;
  std::uint64_t pid = 0;
  std::string gpu;  ///< its name, UUID and PCI address; empty on the host back end
  std::string gpu_uuid;
  std::string gpu_pci;
};

struct TensorRow {
  std::uint64_t unit = 0;  ///< index in `units`
  std::string name;
  std::uint64_t elements = 0;
  std::uint64_t offset = 0;  ///< elements from the unit's begin
};

struct LayerRow {
  std::string name;
  std::vector<std::size_t> units;  ///< in order of use
  double flops_per_token = 0;      ///< forward and backward
  double hardware_flops_per_token = 0;
};

struct TimerRow {
  std::uint64_t rank = 0;
  std::string category;
  double seconds = 0;
};

struct MemoryRow {
  std::string name;
  std::uint64_t bytes_predicted = 0;
  std::uint64_t bytes_actual = 0;
};

struct DataInfo {
  std::string source;
  std::uint64_t train_tokens = 0;
  std::uint64_t held_out_tokens = 0;
  std::uint64_t vocab_size = 0;
  double unigram_entropy_bits = 0;
  double source_entropy_bits = 0;  ///< NaN where it is not known
};

/// Reading of a rank's GPU, as it tells of itself at one time; NaN: it does not tell.
struct GpuRow {
  std::uint64_t rank = 0;
  double time = 0;
  double sm_clock = 0;
  double memory_clock = 0;
  double power = 0;
  double temperature = 0;
  double utilization = 0;
  double memory_utilization = 0;
  std::string reasons;  ///< names of NVML's clock event reasons, separated by commas
};

struct GpuSampling {
  double period = 0;      ///< seconds between readings as asked for; 0: none
  std::string absent;     ///< why a rank has no readings though they were asked for; else empty
  std::string throttled;  ///< whose clocks were held back, and by what; else empty
  std::vector<GpuRow> rows;
};

struct TraceData {
  std::string app;  ///< "train"
  Provenance provenance;
  std::string backend = "host";
  std::string transport = "mpi";
  std::string kernels;                  ///< of several, those that ran: "attention=cudnn 9.14.0"
  double flops_per_token = 0;           ///< of the model, forward and backward (MFU)
  double hardware_flops_per_token = 0;  ///< with what backward computes again (HFU)
  std::string config_json;              ///< effective, canonical; its hash is computed when written
  std::string parameters_hash;          ///< SHA-256 of the final master weights; empty without any
  std::string verdict = kValid;
  std::uint64_t first_step =
      0;  ///< steps that an earlier run did, whose checkpoint this one resumes from
  std::string interrupted;  ///< the signal after which the run ended early; empty: it ran whole
  std::uint64_t seed = 0;
  bool deterministic = false;
  std::uint64_t world_size = 1;
  std::uint64_t node_count = 1;
  std::uint64_t ranks_per_node = 1;  ///< 0: nodes hold different numbers of ranks
  bool emulated = false;

  std::vector<RankRow> ranks;
  GpuSampling gpus;  ///< written on the back end cuda
  std::vector<UnitRow> units;
  std::vector<TensorRow> tensors;
  std::vector<LayerRow> layers;
  std::vector<StepRow> steps;  ///< bytes as sums over ranks
  std::vector<EvaluationRow> evaluations;
  std::uint64_t evaluation_cut_off = 0;    ///< Recorder's
  std::vector<CollectiveRow> collectives;  ///< bytes as sums over ranks
  std::vector<TimerRow> timers;
  std::map<std::string, std::uint64_t> counters;
  std::vector<MemoryRow> memory;
  std::uint64_t error_interval = 0;  ///< steps between measured ones; 0: none, no group /errors
  std::vector<ErrorRow> errors;
  std::vector<std::string> copies;    ///< Engine::copy_hashes(); empty: no group /weight_copies
  std::string copies_found = "none";  ///< Recorder::copies_found
  std::vector<CodecRow> codecs;       ///< empty: no group /codecs
  bool exact_differences = false;     ///< false: no group /exact_differences
  std::vector<ExactRow> exact;
  std::vector<WidthRow> widths;    ///< with adaptive bits
  std::uint64_t width_budget = 0;  ///< bytes per step; 0: no group /adaptive_bits
  bool saves = false;              ///< the run keeps checkpoints; false: no group /checkpoints
  std::vector<CheckpointRow> checkpoints;  ///< bytes as sums over ranks, times the largest
  DataInfo data;
};

}  // namespace zeropp::trace
