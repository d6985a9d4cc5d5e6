"""What a complete trace holds: the fixed parts of lib/trace/README.md, as tables. Those of a sweep begin with SWEEP."""

SCHEMA = "zeropp-trace"
SCHEMA_VERSION = "1.4"

TEXT_ATTRIBUTES = (
    "schema", "schema_version", "app", "version", "git_commit", "build_type", "cxx_compiler",
    "mpi_library", "hdf5_version", "kokkos_version", "blas_library", "cuda_versions", "backend",
    "transport", "kernels", "run_id", "started_at", "command_line", "config_json", "config_hash", "parameters_hash", "verdict", "interrupted")
INTEGER_ATTRIBUTES = (
    "complete", "git_dirty", "world_size", "node_count", "ranks_per_node", "emulated", "seed",
    "first_step", "deterministic")
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

# What zpp_kernels has in place of a training's attributes and groups.
TRAINING_ONLY = {"kernels", "parameters_hash", "deterministic", *REAL_ATTRIBUTES}
KERNELS_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "ceilings": {"name": "S", "unit": "S", "amount": "f", "rate": "f"},
    "results": {"kernel": "S", "variant": "S", "dtype": "S", "shape": "S", "path": "S", "read": "f", "written": "f",
                "operations": "f", "arithmetic": "S", "sets": "u", "runs": "u", "time": "f", "time_low": "f", "time_high": "f",
                "p95": "f", "cv": "f", "limit": "S", "of_limit": "f", "of_copy": "f", "verdict": "S"},
    "samples": {"result": "u", "time": "f"},
}

MAY_BE_EMPTY = {"evaluations", "counters", "gpus"}
# Of traces of these programs, with the back end cuda only.
SAMPLES_GPUS = ("train", "sweep")
GPU_COLUMNS = {"gpus": {"rank": "u", "time": "f", "sm_clock": "f", "memory_clock": "f", "power": "f", "temperature": "f",
                        "utilization": "f", "memory_utilization": "f", "reasons": "S"}}
GPU_ATTRIBUTES = {"period": "f", "absent": "S", "throttled": "S"}
CLOCK_REASONS = {"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
                 "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting"}
CLOCK_LIMITS = {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
DATA_ATTRIBUTES = ("source", "train_tokens", "held_out_tokens", "vocab_size",
                   "unigram_entropy_bits", "source_entropy_bits")
TIMER_CATEGORIES = ("matmul", "nn", "codec", "optimizer", "communication", "data", "other")

SWEEP_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "results": {"collective": "S", "codec": "S", "algorithm": "S", "group": "S", "type": "S", "redop": "S", "root": "S",
                "in_place": "u", "modelled": "u", "size": "u", "count": "u", "time": "f", "alg_bw": "f", "bus_bw": "f",
                "wire_bus_bw": "f", "wire_bytes_intra": "u", "wire_bytes_inter": "u", "ratio": "f", "checked": "u",
                "wrong": "u", "max_error": "f", "slope": "f", "cycles": "u", "iterations": "u", "p50": "f", "p50_low": "f",
                "p50_high": "f", "p95": "f", "cv": "f", "verdict": "S"},
    "samples": {"result": "u", "cycle": "u", "rank": "u", "time": "f"},
}
COLUMNS_OF = {"train": COLUMNS, "sweep": SWEEP_COLUMNS, "kernels": KERNELS_COLUMNS}
