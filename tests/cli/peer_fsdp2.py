# ctest: name=peer_fsdp2 timeout=600 labels=cli,torch processors=4
"""zpp-validate peer-fsdp2 on CPUs over gloo: each option does what it says, which is seen in the collectives, in the
model, in the losses or in what PyTorch is told, and stands in the JSON; what cannot be is refused in one line."""

import json
import os
import subprocess
import sys

import other_python

other_python.with_modules("torch", "numpy", "h5py")

import zpp
from zpp_validate.peers import fsdp2

# Runs the peer with each list of words, in a child of its own, since PyTorch takes seconds to import, and writes what
# rank 0 did: collectives and forwards of modules in their order, shapes and dtypes, and calls of torch.compile, which
# compile nothing.
PROBE = '''
import json, os, pathlib, sys, types
import torch
from torch import nn
from torch.nn import functional

from zpp_validate.peers import fsdp2

SEEN = {"compiled": [], "attention": []}
PROFILERS = []
NAMES = {"c10d::_allgather_base_": "gather", "c10d::_reduce_scatter_base_": "reduce", "c10d::barrier": "barrier"}
ATTENTION, LEAVE = functional.scaled_dot_product_attention, os._exit


def compiled(function, **keywords):
    SEEN["compiled"].append([getattr(function, "__name__", type(function).__name__), keywords])
    return function


def attention(query, *arguments, **keywords):
    backends = torch.backends.cuda
    SEEN["attention"] = [backends.flash_sdp_enabled(), backends.math_sdp_enabled(), str(query.dtype)]
    return ATTENTION(query, *arguments, **keywords)


def begins(*_):
    with torch.profiler.record_function("block 0"):
        pass


def probe(model):
    for name, module in model.named_modules():
        if name == "blocks.0":
            module.register_forward_pre_hook(begins)
    SEEN["rows"], SEEN["dtype"] = [model.head.weight.shape[0], model.embedding.tokens.weight.shape[0]], \
str(model.head.weight.dtype)
    PROFILERS.append(torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]))
    PROFILERS[0].__enter__()


def late(model, marks):
    """The probe, and a clock that tells each rank its own times."""
    probe(model)
    fsdp2.time = types.SimpleNamespace(perf_counter=iter(marks[int(os.environ["RANK"])]).__next__)


def leave(code):
    if os.environ["RANK"] == "0" and PROFILERS:
        PROFILERS[0].__exit__(None, None, None)
        order = sorted(PROFILERS[0].events(), key=lambda event: event.time_range.start)
        SEEN["events"] = [NAMES.get(event.name, event.name) for event in order if event.name in (*NAMES, "block 0")]
        pathlib.Path(os.environ["PROBE"]).write_text(json.dumps(SEEN))
    LEAVE(code)


if __name__ == "__main__":
    sys.modules["probe"] = sys.modules["__main__"]
    torch.compile, functional.scaled_dot_product_attention, os._exit = compiled, attention, leave
    nn.Module.compile = lambda self, **keywords: compiled(self, **keywords)
    for number, words in enumerate(json.loads(sys.argv[1])):
        child = os.fork()
        if child == 0:
            os.environ.update(PROBE=os.environ["PROBE"] + str(number), MASTER_PORT=str(int(os.environ["MASTER_PORT"]) \
+ number))
            fsdp2.main(["--prepare", "probe:probe", *words])
        if os.waitpid(child, 0)[1]:
            sys.exit(f"{words} failed")
'''
TINY = ["--device", "cpu", "--num-layers", "4", "--hidden-size", "32", "--num-attention-heads", "2",
        "--seq-length", "16",
        "--vocab-size", "97", "--steps", "2", "--warmup", "1"]
STEPS = 3  # of TINY


class Peer(zpp.TestCase):
    def ended(self, program, *words, ranks=1, **environment):
        """The processes of a run, rank 0 first."""
        paths = os.pathsep.join(map(str, (self.folder, zpp.SOURCE / "validation")))
        common = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths, "WORLD_SIZE": str(ranks),
                  "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(20000 + os.getpid() % 20000), "PROBE": str(self.folder / "seen.json"),
                  **environment}
        started = [subprocess.Popen([*program, *words], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(ranks)]
        said = [process.communicate(timeout=500) for process in started]
        return [subprocess.CompletedProcess(process.args, process.returncode, *text)
                for process, text in zip(started, said)]

    def trained(self, *cases, ranks=1):
        """For each list of words what --json wrote, and what the probe saw."""
        (self.folder / "probe.py").write_text(PROBE)
        paths = [self.folder / f"peer{number}.json" for number in range(len(cases))]
        words = json.dumps([[*TINY, "--json", str(path), *case] for path, case in zip(paths, cases)])
        for done in self.ended([sys.executable, str(self.folder / "probe.py")], words, ranks=ranks):
            self.assertEqual(done.returncode, 0, done)
        return [(json.loads(path.read_text()), json.loads((self.folder / f"seen.json{number}").read_text()))
                for number, path in enumerate(paths)]

    def collectives(self, seen):
        """Gathers and reductions of a step."""
        counts = [seen["events"].count(name) for name in ("gather", "reduce")]
        self.assertEqual([count % STEPS for count in counts], [0, 0], seen)
        return [count // STEPS for count in counts]

    def test_groups(self):
        """Gathers and reductions of each way to group weights, and the losses, which it does not change. Prefetched are
        groups that are gathered when the first block begins: the embedding's, the block's own, and those ahead of
        it."""
        # Groups: embedding, four blocks, norm and head. The blocks and the embedding are gathered twice.
        cases = ((["--lr", "0.0001"], 11, 6, 2, "FSDP2"), (["--keep-weights"], 6, 6, 2, "FSDP2, keep weights"),
                 (["--blocks-per-group", "2"], 7, 4, 2, "FSDP2, 2 blocks a group"),
                 (["--root-group"], 9, 5, 2, "FSDP2, root group"),
                 (["--blocks-per-group", "3", "--root-group", "--keep-weights"], 3, 3, 2,
                  "FSDP2, 3 blocks a group, root group, keep weights"),
                 (["--prefetch", "2"], 11, 6, 4, "FSDP2, prefetch 2"),
                 (["--prefetch", "9"], 11, 6, 6, "FSDP2, prefetch 9"),
                 (["--prefetch", "1", "--blocks-per-group", "2"], 7, 4, 3, "FSDP2, prefetch 1, 2 blocks a group"))
        runs = self.trained(*(["--deterministic", *words] for words, *_ in cases), ranks=2)
        for (words, gathers, reductions, ahead, described), (values, seen) in zip(cases, runs):
            with self.subTest(words=words):
                self.assertEqual(self.collectives(seen), [gathers, reductions])
                self.assertEqual(seen["events"][:seen["events"].index("block 0")].count("gather"), ahead)
                self.assertEqual(values["losses"], runs[0][0]["losses"])
                self.assertEqual(values["peer"].partition(", deterministic")[0], described)

    def test_llama(self):
        """FSDP2 and plain PyTorch train the same Llama, with the weights and the work that its sizes have."""
        words = ["--model", "llama", "--num-key-value-heads", "1", "--head-dim", "24", "--ffn-hidden-size", "40"]
        runs = self.trained(words, [*words, "--plain"], [*words, "--add-qkv-bias", "--recompute"], ranks=1)
        (sharded, _), (plain, _), (biased, _) = runs
        block = 32 * (4 * 24 + 2 * 24 + 3 * 40) + 2 * 32  # 2 heads; each 24 wide
        self.assertEqual(sharded["parameters"], 4 * block + (2 * 128 + 1) * 32)
        self.assertEqual(biased["parameters"], sharded["parameters"] + 4 * 4 * 24)
        self.assertEqual(sharded["flops_per_token"], 6 * (4 * (block - 64) + 97 * 32) + 12 * 4 * 16 * 48)
        for ours, theirs in zip(sharded["losses"], plain["losses"]):
            self.assertAlmostEqual(ours, theirs, delta=0.01)

    def test_vocabulary(self):
        """The vocabulary is padded; the counted work is without the padding."""
        (padded, rows), (other, other_rows) = self.trained([], ["--vocab-multiple", "50"])
        self.assertEqual((rows["rows"], other_rows["rows"]), ([128, 128], [100, 100]))
        self.assertEqual(["multiples of 50" in values["peer"] for values in (padded, other)], [False, True])
        self.assertEqual(padded["flops_per_token"], other["flops_per_token"])

    def test_attention(self):
        runs = self.trained([], ["--attention", "flash"])
        self.assertEqual([seen["attention"] for _, seen in runs],
                         [[True, True, "torch.bfloat16"], [True, False, "torch.bfloat16"]])
        self.assertEqual(["flash" in values["peer"] for values, _ in runs], [False, True])
        (done,) = self.ended(zpp.VALIDATE, "peer-fsdp2", *TINY, "--attention", "cudnn")  # which is of GPUs
        self.assertEqual((done.returncode, "scaled_dot_product_attention" in done.stderr), (1, True), done)

    def test_timing(self):
        runs = self.trained([], ["--timing", "barriers"])
        self.assertEqual([seen["events"].count("barrier") for _, seen in runs], [3, 5])
        self.assertEqual(["timed by barriers" in values["peer"] for values, _ in runs], [False, True])

    def test_ranks_that_are_late_in_turns(self):
        """A step ends with its last rank, and steps add up to what the run took; own intervals are 110 in each step."""
        self.assertEqual(fsdp2.step_seconds([[90, 200, 290, 400], [110, 200, 310, 400]]), [110, 90, 110, 90])
        ((values, _),) = self.trained(["--prepare", "probe:late "
                                       + json.dumps({"marks": [[7, 97, 207], [9, 119, 209]]})], ranks=2)
        self.assertEqual(values["step_seconds"], [110, 90])

    def test_compile(self):
        """Blocks and the loss, or with --plain the whole, and how products are chosen."""
        autotuned = {"mode": "max-autotune-no-cudagraphs"}
        cases = (
            (["--compile"], [["cross_entropy", {}], *[["Block", {}]] * 4]),
            (["--compile", "--autotune"], [["cross_entropy", autotuned], *[["Block", autotuned]] * 4]),
            (["--plain", "--compile"], [["batch_loss", {"fullgraph": True}]]),
            (["--plain", "--compile", "--autotune"], [["batch_loss", {"fullgraph": True, **autotuned}]]))
        for (words, expected), (values, seen) in zip(cases, self.trained(*(words for words, _ in cases))):
            self.assertEqual([[name.replace("FSDP", ""), keywords] for name, keywords in seen["compiled"]], expected)
            self.assertEqual(values["env"]["TORCHINDUCTOR_COMPILE_THREADS"], "4")
            self.assertEqual([name in values["peer"] for name in ("compile", "autotune")],
                             ["--compile" in words, "--autotune" in words])

    def test_plain(self):
        """No collective, weights in fp32, attention in bf16, and the losses of FSDP2 to bf16's rounding."""
        (values, seen), (sharded, _) = self.trained(["--plain"], [])
        self.assertEqual((self.collectives(seen), seen["dtype"], seen["attention"][2]),
                         ([0, 0], "torch.float32", "torch.bfloat16"))
        for ours, theirs in zip(values["losses"], sharded["losses"]):
            self.assertAlmostEqual(ours, theirs, delta=0.01)
        self.assertTrue(values["peer"].startswith("PyTorch, one GPU, bf16 autocast"), values["peer"])

    def test_allocator(self):
        """The allocator is configured before PyTorch is imported, in addition to the user's settings."""
        (self.folder / "torch.py").write_text("import os\nraise ImportError(os.environ['PYTORCH_CUDA_ALLOC_CONF'])\n")
        for words, told, expected in (([], "", "expandable_segments:True"),
                                      (["--no-expandable-segments"], "", "expandable_segments:False"),
                                      (["--symmetric-memory"], "", "expandable_segments:False"),
                                      ([], "expandable_segments:False,max_split_size_mb:64",
                                       "max_split_size_mb:64,expandable_segments:True")):
            (done,) = self.ended(zpp.VALIDATE, "peer-fsdp2", *words, PYTORCH_CUDA_ALLOC_CONF=told)
            self.assertIn(f"cannot be imported ({expected})", done.stderr)
        (self.folder / "torch.py").unlink()
        ((values, _),) = self.trained(["--no-expandable-segments"])
        self.assertEqual((values["env"]["PYTORCH_CUDA_ALLOC_CONF"], values["options"]["expandable_segments"]),
                         ("expandable_segments:False", False))
        self.assertIn("no expandable segments", values["peer"])

    def test_symmetric_memory(self):
        """Each group's collectives change; NCCL is told before PyTorch starts; PyTorch without it is refused in one
        line."""
        (self.folder / "symmetric.py").write_text('''
import os, sys
import torch
from zpp_validate.forms.transformer import Shape
from zpp_validate.peers import fsdp2, transformer

asked = []
module = transformer.FSDPModule
module.set_force_sum_reduction_for_comms = lambda self, enable: asked.append((type(self).__name__, enable))
module.set_symm_mem_for_comm = lambda self: asked.append(type(self).__name__)
torch.distributed.init_process_group("gloo")
model = transformer.Transformer(Shape.of({"name": "gpt", "num_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
                                          "seq_length": 16, "vocab_size": 97, "tied_head": False}))
transformer.shard(model, torch.distributed.device_mesh.init_device_mesh("cpu", (1,)), torch.bfloat16)
transformer.use_symmetric_memory([*transformer.groups(model), model])
names = [name for name in asked if isinstance(name, str)]
assert names == ["FSDPEmbedding", "FSDPBlock", "FSDPBlock", "FSDPLayerNorm", "FSDPTransformer"], names
assert asked == [entry for name in names for entry in ((name, True), name)], asked
del module.set_symm_mem_for_comm
torch.cuda.device_count = lambda: 1
try:
    fsdp2.main(["--symmetric-memory"])
finally:
    print(os.environ["NCCL_CTA_POLICY"], os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"], os.environ["NCCL_NVLS_ENABLE"])
''')
        (done,) = self.ended([sys.executable, str(self.folder / "symmetric.py")])
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (zpp.ENVIRONMENT, "2 1 0"), done)
        (line,) = [line for line in done.stderr.splitlines() if "fsdp2: error: " in line]
        self.assertIn("has no set_symm_mem_for_comm", line)

    def test_refusals(self):
        for words, ranks, said in (
                (["--autotune"], 1, "--compile"), (["--keep-weights", "--reshard", "1"], 1, "--reshard"),
                (["--symmetric-memory", "--expandable-segments"], 1, "--expandable-segments"),
                (["--symmetric-memory", "--device", "cpu"], 1, "gloo"), (["--plain"], 2, "one rank"),
            (["--prefetch", "-1"], 1, "is no whole number from 0"),
                (["--plain", "--prefetch", "1"], 1, "--prefetch is of FSDP2"),
            (["--plain", "--root-group"], 1, "--root-group is of FSDP2"),
                (["--plain", "--blocks-per-group", "2"], 1, "--blocks-per-group is of FSDP2"),
            (["--attention", "fast"], 1, "--attention")):
            with self.subTest(words=words):
                done = self.ended(zpp.VALIDATE, "peer-fsdp2", *words, ranks=ranks)[0]
                self.assertEqual(done.returncode, zpp.USAGE, done)
                self.assertIn(said, done.stderr.splitlines()[-1])


if __name__ == "__main__":
    zpp.main()
