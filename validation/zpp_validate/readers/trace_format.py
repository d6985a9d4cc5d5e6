"""Fixed parts of a complete trace, by lib/trace/README.md, as tables, one per program. Every reader here checks the
names, types and units of a file against these tables."""

SCHEMA = "zeropp-trace"
SCHEMA_VERSION = "1.7"

TEXT_ATTRIBUTES = (
    "schema", "schema_version", "app", "version", "git_commit", "build_type", "cxx_compiler",
    "mpi_library", "hdf5_version", "kokkos_version", "blas_library", "cuda_versions", "backend",
    "transport", "kernels", "run_id", "started_at", "command_line", "config_json", "config_hash", "parameters_hash",
    "verdict", "interrupted")
INTEGER_ATTRIBUTES = (
    "complete", "git_dirty", "world_size", "node_count", "ranks_per_node", "emulated", "seed",
    "first_step", "deterministic")
REAL_ATTRIBUTES = ("flops_per_token", "hardware_flops_per_token")

# A column is "KIND UNIT", the unit left out where there is none. Kinds of NumPy types: f real, u unsigned integer, S
# text.
COLUMNS = {
    "ranks": {"host": "S", "node": "u", "local_rank": "u", "pid": "u",
              "gpu": "S", "gpu_uuid": "S", "gpu_pci": "S"},
    "units": {"name": "S", "elements": "u elements", "flat": "u elements", "padded": "u elements",
              "shard": "u elements",
              "gathers_forward": "u gathers per micro-step", "gathers_backward": "u gathers per micro-step"},
    "tensors": {"unit": "u", "name": "S", "elements": "u elements", "offset": "u elements"},
    "layers": {"name": "S", "units": "S", "flops_per_token": "f operations",
               "hardware_flops_per_token": "f operations"},
    "steps": {"loss": "f nats per token", "grad_norm": "f 1", "time": "f s", "tokens_per_second": "f tokens/s",
              "bytes_intra_node": "u bytes", "bytes_inter_node": "u bytes", "bytes_predicted_intra_node": "u bytes",
              "bytes_predicted_inter_node": "u bytes", "learning_rate": "f 1", "loss_scale": "f 1", "skipped": "u bool",
              "time_forward": "f s", "time_backward": "f s", "time_communication_exposed": "f s", "time_gather": "f s",
              "time_reduce": "f s", "time_optimizer": "f s", "time_offload_wait": "f s"},
    "evaluations": {"step": "u steps", "loss": "f nats per token", "bits_per_byte": "f bits per byte",
                    "batches": "u micro-batches"},
    "collectives": {"operation": "S", "purpose": "S", "phase": "S", "algorithm": "S", "codec": "S",
                    "group": "S", "path": "S", "modelled": "u bool", "calls": "u calls", "logical_bytes": "u bytes",
                    "wire_bytes_intra": "u bytes", "wire_bytes_inter": "u bytes", "seconds": "f s"},
    "timers": {"rank": "u", "category": "S", "seconds": "f s"},
    "counters": {"name": "S", "value": "u 1"},
    "memory": {"name": "S", "bytes_predicted": "u bytes", "bytes_actual": "u bytes"},
}

# Attributes and groups of a training that a trace of zpp_kernels lacks, and the groups that it has instead.
TRAINING_ONLY = {"kernels", "parameters_hash", "first_step", "deterministic", *REAL_ATTRIBUTES}
KERNELS_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "ceilings": {"name": "S", "unit": "S", "amount": "f", "rate": "f unit"},
    "results": {"kernel": "S", "variant": "S", "dtype": "S", "shape": "S", "path": "S", "read": "f bytes",
                "written": "f bytes",
                "operations": "f operations", "arithmetic": "S", "sets": "u sets", "runs": "u runs", "time": "f us",
                "time_low": "f us", "time_high": "f us",
                "p95": "f us", "cv": "f 1", "limit": "S", "of_limit": "f 1", "of_copy": "f 1", "verdict": "S"},
    "samples": {"result": "u", "time": "f s"},
}

# Where the configuration measures quantization errors.
ERROR_COLUMNS = {"errors": {"step": "u steps", "kind": "S", "unit_kind": "S", "relative_l2": "f 1", "cosine": "f 1",
                            "largest": "f 1",
                            "norm_ratio": "f 1"}}
# Where codecs depend on step or unit, and where widths are chosen.
CODEC_COLUMNS = {"codecs": {"step": "u steps", "unit": "u", "weights": "S", "gradients_intra": "S",
                            "gradients_inter": "S"}}
WIDTH_COLUMNS = {"adaptive_bits": {"step": "u steps", "unit": "u", "bits": "u bits", "error": "f 1", "bytes": "u bytes",
                                   "chosen": "u bool"}}
# Where weight differences are exact.
EXACT_COLUMNS = {"exact_differences": {"step": "u steps", "unit": "u", "width": "u bits", "escapes": "u elements"},
                 "steps": {**COLUMNS["steps"], "time_agreement": "f s"}}
# Where nodes send weight differences, and weights are hashed.
COPY_COLUMNS = {"weight_copies": {"hash": "S"}}
# Where the run saves itself.
CHECKPOINT_COLUMNS = {"checkpoints": {"step": "u steps", "bytes": "u bytes", "time_paused": "f s",
                                      "time_writing": "f s"}}
# Options of earlier versions that this one does not have: the value without an effect.
REMOVED_OPTIONS = {"peer_stores": "off", "averaged_steps": 0}
REMOVED_MODELS = ("encoder",)
# And those that change neither weights nor what this version would choose by itself.
REMOVED_CHOICES = ("secondary_gather_algorithm", "log_style", "algorithm_table")
MAY_BE_EMPTY = {"checkpoints", "evaluations", "exact_differences", "counters", "gpus", "errors", "adaptive_bits",
                "fabric_rails", "fabric_typical", "fabric_faults", "interfaces"}
# A matrix without a level has none of its rows; a group of the second kind may be missing with all its columns.
MAY_BE_EMPTY_OF = {"converge": {"steps", "held_out_parts", "errors", "quadratic",
                                "quadratic_runs", "checks"}}
# Where no setting asks for it; in files of earlier versions.
MAY_BE_MISSING_OF = {"converge": {"errors", "held_out_parts"}}
# Traces of these programs have samples of GPUs, with the back end cuda only.
SAMPLES_GPUS = ("train", "sweep")
GPU_COLUMNS = {"gpus": {"rank": "u", "time": "f s", "sm_clock": "f MHz", "memory_clock": "f MHz", "power": "f W",
                        "temperature": "f degC",
                        "utilization": "f %", "memory_utilization": "f %", "reasons": "S"}}
GPU_ATTRIBUTES = {"period": "f", "absent": "S", "throttled": "S"}
CLOCK_REASONS = {"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost",
                 "sw_thermal_slowdown",
                 "hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting"}
CLOCK_LIMITS = {"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
DATA_ATTRIBUTES = ("source", "train_tokens", "held_out_tokens", "vocab_size",
                   "unigram_entropy_bits", "source_entropy_bits")
TIMER_CATEGORIES = ("matmul", "nn", "codec", "optimizer", "communication", "data", "other")

SWEEP_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "results": {"collective": "S", "codec": "S", "algorithm": "S", "group": "S", "type": "S", "redop": "S", "root": "S",
                "in_place": "u bool", "modelled": "u bool", "size": "u bytes", "count": "u elements", "time": "f us",
                "alg_bw": "f GB/s", "bus_bw": "f GB/s",
                "wire_bus_bw": "f GB/s", "wire_bytes_intra": "u bytes", "wire_bytes_inter": "u bytes", "ratio": "f 1",
                "checked": "u bool",
                "wrong": "u elements", "max_error": "f 1", "slope": "f 1", "cycles": "u cycles",
                "iterations": "u iterations", "p50": "f us", "p50_low": "f us",
                "p50_high": "f us", "p95": "f us", "cv": "f 1", "verdict": "S"},
    "samples": {"result": "u", "cycle": "u", "rank": "u", "time": "f s"},
}
FABRIC_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "fabric": {"sender": "u", "receiver": "u", "link": "S", "latency": "f us", "latency_spread": "f us",
               "bandwidth": "f GB/s", "transfer": "f us", "transfer_spread": "f us", "corrupted": "u words"},
    "fabric_rails": {"rank": "u", "rail": "u", "latency": "f us", "bandwidth": "f GB/s"},
    "fabric_typical": {"class": "S", "metric": "S", "count": "u", "median": "f us or GB/s", "typical": "f us or GB/s",
                       "worst": "f us or GB/s", "limit": "f us or GB/s"},
    "fabric_faults": {"kind": "S", "class": "S", "metric": "S", "first": "u", "second": "S", "value": "f us or GB/s",
                      "typical": "f us or GB/s", "times": "f 1", "text": "S"},
    "placement": {"host": "S", "gpu": "S", "gpu_pci": "S", "gpu_numa": "S", "visible_gpus": "u GPUs",
                  "host_gpus": "u GPUs", "cuda_visible_devices": "S", "cpus": "S", "cpu_numa": "S", "nearest": "S"},
    "interfaces": {"host": "S", "name": "S", "rdma": "u bool", "pci": "S", "numa": "S", "state": "S",
                   "rate": "f Gb/s", "link_layer": "S"},
}

LEVELS = ("quadratic", "markov", "text", "contract")
TOKEN_LEVELS = ("markov", "text")  # train on tokens and are judged by their held-out loss
CONVERGE_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "settings": {"name": "S", "level": "S", "model": "S", "stage": "u", "weight_codec": "S",
                 "gradient_codec_intra": "S", "gradient_codec_inter": "S", "reduce_scatter": "S", "hpz": "u",
                 "feedback": "S", "optimizer": "S", "weight_bits": "f bits per parameter",
                 "gradient_bits": "f bits per parameter", "baseline": "S", "config_json": "S"},
    "runs": {"setting": "u", "seed": "u", "world_size": "u", "node_size": "u", "steps": "u steps",
             "skipped": "u steps", "final_train_loss": "f nats per token", "final_held_out_loss": "f nats per token",
             "bits_per_byte": "f bits per byte", "seconds": "f s", "seconds_per_step": "f s",
             "bytes_inter_node": "u bytes", "bytes_predicted_inter_node": "u bytes", "data_hash": "S",
             "parameters_hash": "S", "verdict": "S"},
    "steps": {"run": "u", "step": "u steps", "loss": "f nats per token", "grad_norm": "f 1", "skipped": "u bool"},
    "evaluations": {"run": "u", "step": "u steps", "loss": "f nats per token"},
    "held_out_parts": {"run": "u", "part": "u", "loss": "f nats per token"},
    "errors": {"run": "u", "step": "u steps", "kind": "S", "unit_kind": "S", "relative_l2": "f 1", "cosine": "f 1",
               "largest": "f 1", "norm_ratio": "f 1"},
    "quadratic": {"run": "u", "step": "u steps", "distance": "f 1", "bound": "f 1"},
    "quadratic_runs": {"run": "u", "violations": "u steps", "largest_ratio": "f 1", "steps": "u steps"},
    "checks": {"name": "S", "first": "u", "second": "u", "difference": "f 1", "limit": "f 1", "passed": "u bool"},
}

# zpp_plan, by the command that was asked for, and how its trace is told: by a group.
# Else estimate.
PLAN_COMMANDS = {"compare": "comparison", "search": "searches", "time": "time", "breakeven": "break_even"}
PLAN_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "units": {"name": "S", "elements": "u elements"},
    "tensors": {"unit": "u", "name": "S", "elements": "u elements"},
    "layers": {"name": "S", "units": "S"},
    "traffic": {"phase": "S", "bytes_intra_node": "u bytes", "bytes_inter_node": "u bytes",
                "messages_intra_node": "u messages",
                "messages_inter_node": "u messages"},
    "collectives": {"operation": "S", "purpose": "S", "phase": "S", "algorithm": "S", "codec": "S", "group": "S",
                    "path": "S",
                    "modelled": "u bool", "calls": "u calls", "wire_bytes_intra": "u bytes",
                    "wire_bytes_inter": "u bytes",
                    "messages_intra": "u messages", "messages_inter": "u messages"},
    "memory": {"name": "S", "bytes": "u bytes"},
}
PLAN_SEARCH_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "searches": {"nodes": "u", "ranks_per_node": "u", "considered": "u", "possible": "u", "fitting": "u"},
    "candidates": {"nodes": "u", "stage": "u", "shard_group_size": "u ranks", "weight_codec": "S",
                   "weight_difference_codec": "S",
                   "hpz_partition_size": "u ranks", "gradient_codecs": "S", "all_gather": "S",
                   "reduce_scatter": "S", "recompute": "u bool", "micro_batch": "u sequences", "micro_steps": "u",
                   "bytes_intra_node": "u bytes",
                   "bytes_inter_node": "u bytes", "memory": "u bytes", "hardware_flops": "f operations",
                   "seconds": "f s",
                   "weight_bits": "f bits", "gradient_bits": "f bits"},
}
PLAN_TIME_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "timeline": {"operation": "S", "index": "u", "stream": "S", "begin": "f s", "started": "f s", "end": "f s"},
}
BREAK_EVEN_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "break_even": {"feature": "S", "link_rate": "f bytes/s", "gpu_rate": "f bytes/s", "step_seconds": "f s",
                   "speedup": "f 1"},
}
COMPARISON_COLUMNS = {
    "ranks": COLUMNS["ranks"],
    "comparison": {"feature": "S", "bytes_out_of_node": "u bytes", "reduction": "f 1", "memory": "u bytes",
                   "step_seconds": "f s", "speedup": "f 1",
                   "link_rate": "f bytes/s", "bound": "S"},
    "in_turn": {"feature": "S", "bytes_out_of_node": "u bytes", "reduction": "f 1", "step_seconds": "f s",
                "speedup": "f 1"},
}
# Attributes of groups of zpp_plan.
PLAN_ATTRIBUTES = {
    "plan": {"job": {"world_size": "u", "node_count": "u", "ranks_per_node": "u", "parameters": "u",
                     "memory_bytes": "u", "tokens_per_step": "f",
                     "flops_per_step": "f"}},
    "plan time": {"time": {"cluster": "S", "bound": "S"} | dict.fromkeys(
        ("step_seconds", "optimizer_seconds", "forward_seconds", "backward_seconds", "compute_seconds",
         "exposed_seconds", "exposed_rails_seconds",
         "exposed_node_links_seconds", "tokens_per_second", "mfu"), "f")},
}

COLUMNS_OF = {"train": COLUMNS, "sweep": SWEEP_COLUMNS, "fabric": FABRIC_COLUMNS, "kernels": KERNELS_COLUMNS,
              "converge": CONVERGE_COLUMNS, "plan": PLAN_COLUMNS, "plan search": PLAN_SEARCH_COLUMNS,
              "plan time": PLAN_TIME_COLUMNS,
              "plan breakeven": BREAK_EVEN_COLUMNS, "plan compare": COMPARISON_COLUMNS}


def without_removed(config):
    """`config`, an effective configuration, without options of earlier versions, as programs of this one read it."""
    own = config.get("zeropp", {})
    return config | {"zeropp": {name: value for name, value in own.items()
                                if name not in REMOVED_OPTIONS and name not in REMOVED_CHOICES}}
