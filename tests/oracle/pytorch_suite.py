# ctest: name=torch_pytorch_suite timeout=7200 labels=oracle,torch processors=2
"""PyTorch's own tests of FSDP2 judge zeropp.torch. Each test of test_fully_shard_*.py runs on up to four ranks of this
host over gloo: without zeropp (plain), with codecs none, bf16, int8 and int4 (codecs), and exact weights. With none
each test must give what it gives plain.

ZEROPP_PYTORCH_TESTS names the folder of these files, test/distributed/_composable/fsdp in PyTorch's sources of the
version that is installed. Words after the command choose tests whose names have one of them."""

import argparse
import contextlib
import importlib
import inspect
import math
import os
import pathlib
import re
import signal
import sys
import time
import unittest

import torch_ranks

FOLDER = os.environ.get("ZEROPP_PYTORCH_TESTS")
if not FOLDER:
    print("skipped: set ZEROPP_PYTORCH_TESTS to a folder with test_fully_shard_*.py of the PyTorch that is installed")
    sys.exit(77)
torch_ranks.with_torch("expecttest")
os.environ["OMP_NUM_THREADS"] = "1"  # a pool of threads does not survive a fork

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch.distributed.fsdp._fully_shard import _fsdp_collectives
from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal import common_distributed, common_fsdp, common_utils
from torch.utils import _pytree

import zeropp.torch
from zpp_validate.tables import markdown_table

RANKS = 4
# compress()'s arguments, and the tolerance of the values that a test expects: gloo sums in another order.
MODES = {"plain": (None, 1e-3), "none": ({"weights": "none", "gradients": "none"}, 1e-3),
         "bf16": ({"weights": "bf16", "gradients": "bf16", "min_bytes": 0}, 0.3),
         "codecs": ({"weights": "int8:256", "gradients": "int4:128", "min_bytes": 0}, 2.0),
         "exact": ({"weights": "exact", "gradients": "none", "min_bytes": 0}, 1e-3)}


def tests_run_on_cpus():
    """PyTorch's frame of tests takes `RANKS` CPUs for as many GPUs. Before the tests are imported."""
    common_distributed.skip_if_lt_x_gpu = lambda *_, **__: lambda test: test
    common_fsdp.DEVICE_COUNT = RANKS
    torch.cpu.device_count = torch.accelerator.device_count = lambda: RANKS
    multiprocessing.set_start_method("fork")  # torch is imported once, not by each rank
    processes = common_distributed.MultiProcessTestCase
    processes._spawn_processes = lambda test: test._start_processes(multiprocessing.Process)
    torch.backends.cuda.enable_flash_sdp(False)  # attention for CPUs, which DTensor does not know
    replicate, factors = DistributedDataParallel.__init__, _fsdp_collectives._get_gradient_divide_factors

    def on_cpus(model, module, device_ids=None, **options):
        replicate(model, module, **options)

    def divided_before_sum(group, *arguments, **options):
        """gloo has no PREMUL_SUM, which divides by a factor as it sums."""
        before, after, op, next_op = factors(group, *arguments, **options)
        if op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG) or group.size() == 1:
            return before, after, op, next_op
        given = inspect.signature(factors).bind(group, *arguments, **options).arguments
        return given["factor"], after, dist.ReduceOp.SUM, next_op

    DistributedDataParallel.__init__ = on_cpus
    _fsdp_collectives._get_gradient_divide_factors = divided_before_sum


def at_most(ranks, case):
    """A class of tests, with so many ranks where it wants more."""
    wanted = case.world_size
    case.world_size = (property(lambda test: min(ranks, wanted.fget(test))) if isinstance(wanted, property)
                       else min(ranks, wanted))


def roots_are_compressed(settings):
    """compress() is called for each model before its first forward, when FSDP2 takes its sharding for complete. Half of
    the ranks are a node."""
    complete = FSDPState._lazy_init

    def compressed(state):
        if state._is_root is None and len(state._modules) == 1:
            zeropp.torch.compress(state._modules[0], node_size=max(1, dist.get_world_size() // 2), **settings)
        complete(state)

    FSDPState._lazy_init = compressed


def distance(one, other):
    """|one - other| by the larger of |one| and |other|, of floats or tensors of floats, the largest in nests of such;
    infinite where they differ in more than finite values."""
    (ones, form), (others, other_form) = _pytree.tree_flatten(one), _pytree.tree_flatten(other)

    def of_pair(first, second):
        if not any(isinstance(first, kind) and isinstance(second, kind) for kind in (float, torch.Tensor)):
            return 0.0 if first is second else math.inf
        first, second = torch.as_tensor(first).detach(), torch.as_tensor(second).detach()
        if not first.is_floating_point() or (first.shape, first.dtype) != (second.shape, second.dtype):
            return math.inf
        norms = [torch.linalg.vector_norm(each.double()).item() for each in (first, second)]
        apart = torch.linalg.vector_norm(first.double() - second.double()).item()
        return 0.0 if apart == 0 else apart / max(norms) if math.isfinite(apart) else math.inf

    return max(map(of_pair, ones, others), default=math.inf) if form == other_form else math.inf


def differences_are_kept(largest):
    """Where values that a test compares differ, the largest distance is kept, and the test continues: a rank that stops
    alone makes the others wait."""
    exact = common_utils.TestCase.assertEqual

    def kept(test, x, y, *arguments, **options):
        try:
            exact(test, x, y, *arguments, **options)
        except AssertionError:
            found = distance(x, y)
            if found == math.inf:
                raise
            with largest.get_lock():
                largest.value = max(largest.value, found)

    common_utils.TestCase.assertEqual = kept


def reason(error):
    """The line that says what failed: the first rank's exception that is not the end of another rank."""
    lines = (re.findall(r"(?m)^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit)\b.*)$", error)
             or error.strip().splitlines()[-1:])
    own = [line for line in lines if not re.search("exited with error code|Connection closed by peer", line)]
    return (own or lines)[0][:150]


def run_one(test, mode, answer, log):
    """In a process of its own: (outcome, reason, error) of a test into `answer`."""
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for stream in (1, 2):
        os.dup2(log, stream)
    largest = multiprocessing.Value("d", 0.0)
    settings, at_most_apart = MODES[mode]
    if settings:
        roots_are_compressed(settings)
    differences_are_kept(largest)
    result = unittest.TestResult()
    unittest.TestSuite([test]).run(result)
    errors = [error for _, error in result.errors + result.failures]
    if errors:
        refused = "UsageError" in errors[0] and re.search("several meshes|has no effect", errors[0])
        answer.send(("refused" if refused else "fail", reason(errors[0]), errors[0]))
    elif result.skipped:
        answer.send(("skip", result.skipped[0][1], ""))
    elif largest.value:
        answer.send(("tolerance" if largest.value <= at_most_apart else "fail",
                     f"values differ by up to {largest.value:.2g}", ""))
    else:
        answer.send(("pass", "", ""))


def outcome(test, mode, limit, log):
    """(outcome, reason, error) of a test; "hang" where it takes more than `limit` seconds."""
    if mode not in ("plain", "none") and isinstance(test, common_distributed.MultiThreadedTestCase):
        return "skip", "ranks are threads, whose process group sends nothing from rank to rank", ""
    mine, its = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=run_one, args=(test, mode, its, log))
    process.start()
    its.close()
    try:
        return mine.recv() if mine.poll(limit) else ("hang", f"more than {limit} s", "")
    except EOFError:
        process.join()
        return "fail", f"the process ended with {process.exitcode}", ""
    finally:
        process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # ranks that did not end
        process.join()


def tests_of(folder, words):
    """{name: test}, in order of files and names."""
    sys.path.insert(0, folder)
    found = {}
    for file in sorted(pathlib.Path(folder).glob("test_fully_shard_*.py")):
        suites = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(file.stem))
        for case in (case for suite in suites for case in suite):
            name = f"{file.stem.removeprefix('test_fully_shard_')} {case.id().split('.', 1)[1]}"
            if not words or any(word in name for word in words):
                found[name] = case
    return found


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("words", nargs="*", help="tests whose names have one of these words [all]")
    options.add_argument("--modes", default=",".join(MODES), help=f"some of {','.join(MODES)}")
    options.add_argument("--limit", type=int, default=300, help="seconds for a test [300]")
    options.add_argument("--log", default=os.devnull, help="file for what the tests print [none]")
    given = options.parse_args()
    modes = given.modes.split(",")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the test that runs, too
    tests_run_on_cpus()
    tests = tests_of(FOLDER, given.words)
    if not tests:
        sys.exit(f"{FOLDER} has no such test in test_fully_shard_*.py")
    for case in {type(test) for test in tests.values()}:
        at_most(RANKS, case)
    rows, errors, began = [], [], time.monotonic()
    with open(given.log, "w", encoding="utf-8") as log:
        for name, test in tests.items():
            found = {mode: outcome(test, mode, given.limit, log.fileno()) for mode in modes}
            rows.append((name, *(found[mode][0] for mode in modes),
                         next((why for _, why, _ in reversed(found.values()) if why), "")))
            print(f"{time.monotonic() - began:6.0f} s", *rows[-1], sep="  ", flush=True)
            if {"plain", "none"} <= set(modes) and found["none"][0] not in (found["plain"][0], "refused"):
                errors.append((name, found["none"]))
    print(markdown_table.aligned(("test", *modes, "reason"), rows, {"test", *modes, "reason"}))
    for name, (said, _, error) in errors:
        print(f"\n{name}: {said} with codecs none, not as plain\n{error.split('Process 1 exited')[0]}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
