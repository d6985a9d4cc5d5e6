"""The environment of a run, as text beside its results: machine, allow-listed variables, GPUs. Only variables that set
up MPI, NCCL, the threads and the batch system are kept; values that look like a secret are redacted.
"""

import os
import platform
import re
import shutil
import subprocess

ALLOWED = re.compile(r"(NCCL|CUDA|OMPI_MCA|PMIX_MCA|UCX|FI|HDF5|OMP|OPENBLAS)_\w*|LOADEDMODULES|"
                     r"SLURM_(JOB_(ID|NAME|NODELIST|PARTITION|NUM_NODES|CPUS_PER_NODE)|ARRAY_(JOB|TASK)_ID|RESTART_COUNT|"
                     r"CLUSTER_NAME|CPUS_PER_TASK|DISTRIBUTION|GPUS_ON_NODE|GPUS_PER_NODE|NNODES|NTASKS|NTASKS_PER_NODE|"
                     r"TASKS_PER_NODE)")
SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS", re.IGNORECASE)


def lines(environment=None):
    environment = os.environ if environment is None else environment
    yield f"system: {platform.system()} {platform.release()} {platform.machine()}"
    yield f"host: {platform.node()}"
    yield f"cores: {os.cpu_count()}"
    for name in sorted(environment):
        if ALLOWED.fullmatch(name):
            value = "<redacted>" if SECRET.search(name) else environment[name]
            yield f"{name}={value!r}"


def gpus():
    """nvidia-smi -q, which holds clocks, limits and ECC; empty where there is none."""
    if shutil.which("nvidia-smi") is None:
        return ""
    try:
        return subprocess.run(["nvidia-smi", "-q"], capture_output=True, text=True, timeout=60, check=False).stdout
    except subprocess.TimeoutExpired:
        return "nvidia-smi -q did not end within 60 s\n"


def write(path):
    path.write_text("\n".join(lines()) + "\n" + gpus(), encoding="utf-8")
