"""Start of the peers: the rank of a process, and the variables of NCCL and PyTorch that are set before these start."""

import os
import socket
import sys

from zpp_validate import problem

FAILED, USAGE, ENVIRONMENT = 1, 2, 3  # exit codes
DEFAULT_PORT = "29500"
ALLOCATOR, COMPILERS = "PYTORCH_CUDA_ALLOC_CONF", "TORCHINDUCTOR_COMPILE_THREADS"


class Place:
    """Rank, ranks, and rank on the host, as torchrun or Open MPI's launcher tell."""

    def __init__(self, environment):
        for rank, size, local in (("RANK", "WORLD_SIZE", "LOCAL_RANK"),
                                  tuple(f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK"))):
            if rank in environment:
                self.rank, self.size, self.local = (int(environment[name]) for name in (rank, size, local))
                return
        self.rank, self.size, self.local = 0, 1, 0

    def tell_torch(self, environment):
        environment.update(RANK=str(self.rank), WORLD_SIZE=str(self.size), LOCAL_RANK=str(self.local))
        environment.setdefault("MASTER_ADDR", "127.0.0.1")
        environment.setdefault("MASTER_PORT", DEFAULT_PORT)


def fail(program, code, reason):
    print(f"{program}: error: {reason}", file=sys.stderr, flush=True)
    sys.exit(code)


def leave(program, place, error):
    """After an error of one rank. The others wait in a collective: without them."""
    first_line = (str(error).splitlines() or [""])[0]
    print(f"{program}: error: rank {place.rank}: {type(error).__name__}: {first_line}", file=sys.stderr, flush=True)
    os._exit(FAILED)


def set_nccl(environment, place, node_size):
    """Sets variables before NCCL starts; those that are set stay. NVLS needs a fabric manager that not every machine
    runs: it is off on either side of a comparison. With emulated nodes, neither shared memory nor NVLink crosses a host
    id."""
    environment.setdefault("NCCL_NVLS_ENABLE", "0")
    if node_size:
        environment.setdefault("NCCL_HOSTID", f"peer-node-{place.local // node_size}-{socket.gethostname()}")
        environment.setdefault("NCCL_SOCKET_IFNAME", "lo")


def set_allocator(environment, expandable):
    """Sets, before PyTorch starts CUDA, whether its allocator maps memory into segments that grow. Other settings of
    the allocator stay."""
    parts = environment.get(ALLOCATOR, "").split(",")
    kept = [part for part in parts if part and not part.startswith("expandable_segments:")]
    environment[ALLOCATOR] = ",".join([*kept, f"expandable_segments:{expandable}"])


def set_symmetric_memory(environment):
    """Sets variables before PyTorch and NCCL start; those that are set stay. Copy engines gather, so that no
    multiprocessor is taken from compute. Multicast needs the fabric manager, as NVLS does."""
    environment.setdefault("NCCL_CTA_POLICY", "2")
    environment.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")


def set_compiler(environment):
    """Limits PyTorch's compiler processes before PyTorch is imported; a limit that is set stays. Each rank would start
    a process for each core of the host, up to 32, and these take time from the ranks while they start."""
    environment.setdefault(COMPILERS, "4")


def told_environment():
    """Variables that NCCL, PyTorch's memory and its compiler read."""
    return {name: value for name, value in sorted(os.environ.items())
            if name.startswith(("NCCL_", "TORCH_SYMM")) or name in (ALLOCATOR, COMPILERS)}


def import_torch(program, place, needs_gpu):
    """PyTorch, with a GPU of its own for every rank where one is needed; else the end of the program."""
    try:
        import torch
    except ImportError as missing:
        fail(program, ENVIRONMENT, problem.lacks(missing))
    if needs_gpu and torch.cuda.device_count() <= place.local:
        fail(program, ENVIRONMENT, f"rank {place.rank} has no GPU of its own: {torch.cuda.device_count()} are visible")
    return torch
