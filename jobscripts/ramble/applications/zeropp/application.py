"""Ramble definition of zeropp's trainer; jobscripts/ramble/README.md says how to use it, and what was tried."""

from ramble.appkit import *


class Zeropp(ExecutableApplication):
    """Sharded training with ZeRO-3 and the parts of ZeRO++, every byte between ranks counted."""

    name = "zeropp"

    tags("mpi", "gpu", "training", "collective-communication")

    software_spec("zeropp", pkg_spec="zeropp", when=["package_manager_family=spack"])
    required_package("zeropp", when=["package_manager_family=spack"])

    executable(
        "train",
        "zpp_train --config {input_config} {features} {additional_args} --output {experiment_run_dir}"
        " --json {experiment_run_dir}/summary.json",
        use_mpi=True,
    )

    # A workload is what of ZeRO++ is on.
    for _workload, _features in {
        "zero3": "",
        "qwz": "--zero-quantized-weights",
        "hpz": "--zero-hpz-partition-size {processes_per_node}",
        "qgz": "--zero-quantized-gradients",
        "zeropp": "--zero-quantized-weights --zero-hpz-partition-size {processes_per_node} --zero-quantized-gradients",
    }.items():
        workload(_workload, executables=["train"])
        workload_variable(
            "features", default=_features, description="What of ZeRO++ is on", workloads=[_workload]
        )
        workload_variable(
            "input_config",
            default="{zeropp_path}/share/zeropp/inputs/site_check.json",
            description="Configuration of zpp_train, a JSON file",
            workloads=[_workload],
        )
        workload_variable(
            "additional_args", default="", description="More flags of zpp_train", workloads=[_workload]
        )

    _step = (
        r"step (?P<step>[0-9]+)/[0-9]+  loss (?P<loss>\S+)  norm (?P<norm>\S+)  (?P<time>[0-9]+) ms"
        r"  (?P<tokens>[0-9]+) tokens/s  (?P<across>[0-9.]+) MB across nodes"
    )
    figure_of_merit_context("step", regex=_step, output_format="step {step}")
    # With the context the value of each printed step, without it that of the last.
    for _name, _group, _units in (
        ("Loss", "loss", "nat"),
        ("Gradient norm", "norm", ""),
        ("Step time", "time", "ms"),
        ("Throughput", "tokens", "tokens/s"),
        ("Bytes across nodes", "across", "MB"),
    ):
        figure_of_merit(_name, fom_regex=_step, group_name=_group, units=_units, contexts=["step"])
        figure_of_merit(f"Last {_name.lower()}", fom_regex=_step, group_name=_group, units=_units)

    figure_of_merit(
        "Verdict", fom_regex=r"(?P<verdict>VALID|INVALID: .*)  \S.*\.h5$", group_name="verdict", units=""
    )
    success_criteria("valid", mode="string", match=r"VALID  \S.*\.h5$", file="{log_file}")

    archive_pattern("{experiment_run_dir}/summary.json")
    archive_pattern("{experiment_run_dir}/train.h5")
