"""ReFrame settings: the systems on which the checks run here. A site adds its own, or passes its own file.

The checks read these keys of a partition:
  features  emulated-nodes: ranks of one machine are declared to be nodes (--node-size)
  extras    launcher_options: words for the launcher
            zpp_train: references by feature, {"none": {"step_time": [value, lower, upper, unit]}}
run.sh starts ReFrame in the folder of the run, so that its files lie there.
"""

# Several ranks per core, as root too, one thread per rank.
ON_FEW_CORES = [
    ["OMP_NUM_THREADS", "1"],
    ["OPENBLAS_NUM_THREADS", "1"],
    ["OMPI_ALLOW_RUN_AS_ROOT", "1"],
    ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"],
    ["OMPI_MCA_btl_vader_single_copy_mechanism", "none"],
    ["OMPI_MCA_hwloc_base_binding_policy", "none"],
    ["OMPI_MCA_mpi_yield_when_idle", "1"],
    ["OMPI_MCA_rmaps_base_oversubscribe", "1"],
]

# This limit is for a machine that is not known: no step of the tiny model takes 5 s unless ranks hang on each other.
UNKNOWN_MACHINE = {features: {"step_time": [0.5, None, 9.0, "s"]} for features in ("none", "qwz", "hpz", "qgz", "all")}

site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "This machine without a batch system; its ranks are laid out as nodes",
            "hostnames": [".*"],
            "max_local_jobs": 1,
            "partitions": [{
                "name": "host",
                "scheduler": "local",
                "launcher": "mpirun",
                "environs": ["builtin"],
                "max_jobs": 1,
                "features": ["emulated-nodes"],
                # ReFrame kills the launcher when the job's shell is gone: told to end, that one waits for the launcher,
                # which first ends its ranks.
                "prepare_cmds": ["trap : TERM"],
                "env_vars": ON_FEW_CORES,
                "extras": {"launcher_options": ["-q"], "zpp_train": UNKNOWN_MACHINE},
            }],
        },
        {
            "name": "two-node-slurm",
            "descr": "The Slurm of two nodes on this machine (jobscripts/local/two_node_slurm.sh)",
            "hostnames": [],
            "partitions": [{
                "name": "nodes",
                "scheduler": "squeue",  # it keeps no accounts
                "launcher": "srun",
                "environs": ["builtin"],
                "max_jobs": 1,
                "env_vars": [*ON_FEW_CORES, ["OMPI_MCA_btl", "tcp,self"]],  # its nodes share the memory of one machine
                "extras": {"launcher_options": ["--mpi=pmix"], "zpp_train": UNKNOWN_MACHINE},
            }],
        },
    ],
    "general": [{
        "topology_prefix": "topology",
        "report_file": "report.json",
    }],
    "logging": [{
        "handlers": [
            {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"},
            {"type": "file", "name": "reframe.log", "level": "debug2", "append": False,
             "format": "[%(asctime)s] %(levelname)s: %(check_info)s: %(message)s"},
        ],
        "handlers_perflog": [{
            "type": "filelog",
            "prefix": "%(check_system)s/%(check_partition)s",
            "level": "info",
            "format": "%(check_result)s,%(check_job_completion_time)s,%(version)s,%(check_info)s,%(check_perfvalues)s",
            "format_perfvars": "%(check_perf_value)s,%(check_perf_unit)s,%(check_perf_ref)s,",
            "append": True,
        }],
    }],
}
