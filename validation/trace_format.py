"""What a complete trace holds: the fixed parts of lib/trace/README.md, as tables."""

SCHEMA = "zeropp-trace"
SCHEMA_VERSION = "1.2"

TEXT_ATTRIBUTES = (
    "schema", "schema_version", "app", "version", "git_commit", "build_type", "cxx_compiler",
    "mpi_library", "hdf5_version", "kokkos_version", "blas_library", "cuda_versions", "backend",
    "transport", "kernels", "run_id", "started_at", "command_line", "config_json", "config_hash", "parameters_hash", "verdict", "interrupted")
INTEGER_ATTRIBUTES = (
    "complete", "git_dirty", "world_size", "node_count", "ranks_per_node", "emulated", "seed",
    "deterministic")
REAL_ATTRIBUTES = ("flops_per_token", "hardware_flops_per_token")

# Kinds of NumPy types: f real, u unsigned integer, S text.
COLUMNS = {
    "ranks": {"host": "S", "node": "u", "local_rank": "u", "pid": "u",
              "gpu": "S", "gpu_uuid": "S", "gpu_pci": "S"},
    "units": {"name": "S", "elements": "u", "flat": "u", "padded": "u", "shard": "u",
              "gathers_forward": "u", "gathers_backward": "u"},
    "tensors": {"unit": "u", "name": "S", "elements": "u", "offset": "u"},
    "layers": {"name": "S", "units": "S"},
    "steps": {"loss": "f", "grad_norm": "f", "time": "f", "tokens_per_second": "f",
              "bytes_intra_node": "u", "bytes_inter_node": "u", "bytes_predicted_intra_node": "u",
              "bytes_predicted_inter_node": "u", "learning_rate": "f", "skipped": "u",
              "time_forward": "f", "time_backward": "f", "time_communication_exposed": "f"},
    "evaluations": {"step": "u", "loss": "f", "bits_per_byte": "f", "batches": "u"},
    "collectives": {"operation": "S", "purpose": "S", "phase": "S", "algorithm": "S", "codec": "S",
                    "group": "S", "path": "S", "modelled": "u", "calls": "u", "logical_bytes": "u",
                    "wire_bytes_intra": "u", "wire_bytes_inter": "u", "seconds": "f"},
    "timers": {"rank": "u", "category": "S", "seconds": "f"},
    "counters": {"name": "S", "value": "u"},
    "memory": {"name": "S", "bytes_predicted": "u", "bytes_actual": "u"},
}
MAY_BE_EMPTY = {"evaluations", "counters", "gpus"}
# Of a trace of the back end cuda only.
GPU_COLUMNS = {"gpus": {"rank": "u", "time": "f", "sm_clock": "f", "memory_clock": "f", "power": "f", "temperature": "f",
                        "utilization": "f", "memory_utilization": "f", "reasons": "S"}}
GPU_ATTRIBUTES = {"period": "f", "absent": "S", "throttled": "S"}
CLOCK_REASONS = {"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
                 "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting"}
CLOCK_LIMITS = {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
DATA_ATTRIBUTES = ("source", "train_tokens", "held_out_tokens", "vocab_size",
                   "unigram_entropy_bits", "source_entropy_bits")
TIMER_CATEGORIES = ("matmul", "nn", "codec", "optimizer", "communication", "data", "other")
