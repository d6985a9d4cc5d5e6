"""Frame of tests with PyTorch: runs a function on several ranks of this host over gloo, with a deadline, and skips
where PyTorch is missing. With ZEROPP_TORCH_DEVICE=cuda ranks compute on GPUs."""

import os
import pathlib
import queue
import sys
import tempfile
import traceback
import unittest

import other_python

LIMIT = 60  # seconds that a process group waits for its ranks
DEVICE = os.environ.get("ZEROPP_TORCH_DEVICE", "cpu")  # cuda: over NCCL; ranks share GPUs where there are fewer


def with_torch(*more):
    """Continues in a Python with PyTorch and these modules, or skips. The build's package is used."""
    other_python.with_modules("torch", *more)
    build = pathlib.Path(os.environ["ZEROPP_BIN"]).parent
    sys.path.insert(0, str(build / "python"))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(build / "python"), os.environ.get("PYTHONPATH", "")])


def _rank(rank, size, node_size, file, function, arguments, results):
    import datetime

    import torch
    import torch.distributed as dist

    os.environ["LOCAL_WORLD_SIZE"] = str(node_size)
    # Else products on several streams have other bits from run to run.
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.set_num_threads(1)
    if DEVICE == "cuda":
        gpus = torch.cuda.device_count()
        if gpus < size:  # NCCL refuses two ranks of one host on one GPU; ranks of several hosts meet over sockets
            os.environ["NCCL_HOSTID"] = f"rank{rank}"
        torch.cuda.set_device(rank % gpus)
        torch.use_deterministic_algorithms(True)
    dist.init_process_group("cpu:gloo,cuda:nccl" if DEVICE == "cuda" else "gloo", init_method=f"file://{file}",
                            rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=LIMIT))
    try:
        results.put((rank, None, function(*arguments)))
    except Exception as error:  # pylint: disable=broad-exception-caught
        results.put((rank, f"{type(error).__name__}: {error}\n{traceback.format_exc()}", None))
    dist.destroy_process_group()


def run(size, node_size, function, *arguments, timeout=120, dies=None):
    """Results of `function` on each rank, in rank order; raises AssertionError where one fails or does not end. Rank
    `dies` ends its process within `function`, and returns nothing. Skips where ranks need a GPU and there is none."""
    import torch
    import torch.multiprocessing as multiprocessing

    if DEVICE == "cuda" and not torch.cuda.device_count():
        raise unittest.SkipTest("no GPU is visible")

    context = multiprocessing.get_context("forkserver")  # which imports PyTorch once for all ranks
    with tempfile.TemporaryDirectory() as folder:
        results = context.Queue()
        ranks = [context.Process(target=_rank, daemon=True, args=(rank, size, node_size, f"{folder}/store", function,
                                                                  arguments, results)) for rank in range(size)]
        for process in ranks:
            process.start()
        found, expected = {}, size - (dies is not None)
        try:
            while len(found) < expected:
                rank, failed, value = results.get(timeout=timeout)
                assert failed is None, f"rank {rank} of {size}: {failed}"
                found[rank] = value
        except queue.Empty:
            raise AssertionError(
                f"ranks {sorted(set(range(size)) - set(found) - {dies})} of {size} do not end") from None
        finally:
            for process in ranks:
                process.join(0 if len(found) < expected else 30)
                if process.is_alive():
                    process.kill()
    return [found[rank] for rank in sorted(found)]
