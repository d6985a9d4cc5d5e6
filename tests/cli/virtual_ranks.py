# ctest: name=virtual_ranks cuda=mpi labels=cli timeout=300 processors=4
"""Virtual ranks train what real ranks train: one process with --virtual-ranks has the parameter hash, losses, norms and
counted bytes of as many processes, whatever is sharded, sent and kept; each continues the other's checkpoint; and what
virtual ranks cannot be is refused with one line."""

import copy
import json

import zpp
from converge import PROGRAM as CONVERGE
from converge import TINY

zpp.skip_without_gpus(1)
QWZ, QGZ = "--zero-quantized-weights", "--zero-quantized-gradients"
# Ranks, ranks of a node, flags.
RUNS = [
    (1, 1, ["--zero-stage", 3, QWZ, QGZ]),
    (3, 3, ["--zero-stage", 0, QGZ]),
    (4, 4, ["--zero-stage", 1, QWZ, QGZ, "--fp16", "--loss-scale", 256, "--model", "llama"]),
    (4, 2, ["--zero-stage", 2, QWZ, "--weight-differences", QGZ, "--moments", "int8",
            "--measure-quantization-error", 1]),
    (4, 1, ["--zero-stage", 3, QWZ, "--bf16", "--gradient-accumulation-steps", 2]),
    (4, 2, ["--zero-stage", 3, "--shard-group-size", 2, QGZ, "--gradient-codec-intra", "int8:128",
            "--gradient-codec-inter", "int4:128", "--offload-optimizer", "cpu"]),
    (6, 3, ["--zero-stage", 3, QWZ, "--zero-hpz-partition-size", 3, QGZ, "--error-feedback", "both",
            "--measure-quantization-error", 2, "--clip-grad", 0.1, "--verify-interval", 1]),
    (8, 4, ["--zero-stage", 3, QWZ, "--zero-hpz-partition-size", 4, "--weight-differences", QGZ,
            "--weight-codec", "int8:128+sr", "--gradient-codec-intra", "int4:64+sr",
            "--gradient-codec-inter", "int4:64+sr", "--measure-quantization-error", 1]),
    (8, 4, ["--zero-stage", 3, "--zero-hpz-partition-size", 4, "--weight-differences", "--exact-differences", "--bf16",
            QGZ, "--gradient-codec-intra", "int4:128+had32", "--gradient-codec-inter", "int4:128+had32",
            "--measure-quantization-error", 2]),
]
SAME = ("loss", "grad_norm", "skipped", "bytes_intra_node", "bytes_inter_node", "bytes_predicted_intra_node",
        "bytes_predicted_inter_node")


class VirtualRanks(zpp.TestCase):
    def trained(self, ranks, *words):
        """Results of a run that must be equal to those of another."""
        path = self.folder / "run.json"
        self.check_ok(self.train(ranks, "--deterministic", "--train-iters", 3, "--eval-interval", 3, "--eval-iters", 1,
                                 *words, "--json", path))
        run = json.loads(path.read_text())
        path.unlink()
        losses = [str(loss) for loss in run["evaluations"]["loss"]]
        errors = [str(error) for error in run.get("errors", {}).get("relative_l2", [])]
        steps = {name: [str(value) for value in run["steps"][name]] for name in SAME}
        return run["parameters_hash"], losses, errors, steps

    def test_real_ranks_train_the_same(self):
        for ranks, node_size, words in RUNS:
            words = ["--node-size", node_size, *words]
            as_virtual = ["--virtual-ranks", ranks, "--transport", "memory"]
            with self.subTest(ranks=ranks, words=words):
                virtual = self.trained(1, *as_virtual, *words)
                checked = zpp.check_trace(self.out / "train.h5")
                self.assertEqual(checked.code, zpp.OK, checked)
                root, _ = self.trace()
                self.assertEqual((root["transport"], root["world_size"], root["ranks_per_node"]),
                                 ("memory", ranks, node_size))
                self.assertEqual(virtual, self.trained(ranks, *words))
                self.assertNotEqual(virtual, self.trained(1, *as_virtual, *words, "--seed", 5))

    def test_measurements_change_nothing(self):
        for ranks, node_size, words in RUNS:
            if "--measure-quantization-error" not in words:
                continue
            at = words.index("--measure-quantization-error")
            as_virtual = ["--virtual-ranks", ranks, "--transport", "memory", "--node-size", node_size]
            with self.subTest(ranks=ranks, words=words):
                measured = self.trained(1, *as_virtual, *words)
                plain = self.trained(1, *as_virtual, *words[:at], *words[at + 2:])
                self.assertTrue(measured[2])
                self.assertEqual((measured[0], measured[1], measured[3]), (plain[0], plain[1], plain[3]))

    def test_each_continues_the_checkpoint_of_the_other(self):
        words = ["--node-size", 2, "--zero-stage", 3, QWZ, QGZ, "--error-feedback", "both", "--deterministic"]
        virtual, real = (1, ["--virtual-ranks", 4, "--transport", "memory"]), (4, [])
        hashes = set()
        for name, first, second in (("whole", None, virtual), ("to", virtual, real), ("from", real, virtual)):
            folder = self.folder / name
            if first:
                self.check_ok(self.train(first[0], *first[1], *words, "--train-iters", 2, "--save", folder))
            load = ["--load", folder] if first else []
            self.check_ok(self.train(second[0], *second[1], *words, "--train-iters", 4, *load))
            hashes.add(self.trace()[0]["parameters_hash"])
        self.assertEqual(len(hashes), 1)

    def test_a_matrix_runs_on_them(self):
        """A team of one rank trains what a team of four does."""
        matrix = copy.deepcopy(TINY)
        del matrix["levels"]["quadratic"], matrix["checks"]
        matrix["settings"] = [setting for setting in matrix["settings"] if setting["level"] == "markov"]
        matrix["base"]["zeropp"]["deterministic"] = True
        found = []
        for ranks in (4, 1):
            if ranks == 1:
                matrix["base"]["zeropp"]["virtual_ranks"] = 4
            path, out = self.folder / f"{ranks}.json", self.folder / str(ranks)
            path.write_text(json.dumps(matrix))
            done = zpp.run(2 if ranks == 1 else 4, [CONVERGE, "--config", path, "--ranks-per-run", ranks,
                                                    "--output", out])
            self.assertEqual(done.code, zpp.OK, done)
            checked = zpp.check_trace(out / "converge.h5")
            self.assertEqual(checked.code, zpp.OK, checked)
            _, groups = zpp.read_trace(out / "converge.h5")
            runs = groups["runs"]
            found.append([[str(value) for value in runs[name]] for name in
                          ("setting", "seed", "world_size", "node_size", "parameters_hash", "final_held_out_loss")])
        self.assertEqual(*found)
        done = zpp.run(2, [CONVERGE, "--config", path, "--output", self.folder / "two"])
        self.assertEqual(done.code, zpp.USAGE, done)
        (line,) = done.errors("zpp_converge")
        self.assertIn("zeropp.virtual_ranks 4 are of one process, and a run has 2 ranks: give --ranks-per-run 1", line)

    def test_refusals(self):
        for ranks, words, code, *parts in (
                (2, ["--virtual-ranks", 4, "--transport", "memory"], zpp.USAGE, "--virtual-ranks 4", "start one"),
                (1, ["--virtual-ranks", 4, "--transport", "mpi"], zpp.USAGE, "zeropp.transport mpi", "leave it out"),
                (2, ["--transport", "memory"], zpp.USAGE, "zeropp.transport memory", "--virtual-ranks"),
                (1, ["--virtual-ranks", 3, "--transport", "memory", "--node-size", 2],
                 zpp.ENVIRONMENT, "3 ranks", "nodes of 2"),
                (1, ["--virtual-ranks", 2, "--transport", "memory", "--reduce-scatter-algorithm", "native"],
                 zpp.USAGE, "zeropp.reduce_scatter_algorithm native", "virtual ranks", "1-hop"),
                (1, ["--virtual-ranks", 2, "--transport", "memory", "--all-gather-algorithm", "native-images", QWZ],
                 zpp.USAGE, "zeropp.all_gather_algorithm native-images", "two-level"),
                (1, ["--virtual-ranks", 2, "--transport", "memory", "--data-source", "text", "--data-path", "absent"],
                 zpp.IO, "absent")):
            with self.subTest(words=words):
                self.check_fails(self.train(ranks, *words), code, *parts)


if __name__ == "__main__":
    zpp.main()
