# ctest: name=converge_decision timeout=240 labels=cli,nightly processors=2
"""The commands of docs/howto/convergence.md that decide a small difference, from the corpus to the verdict, on a small
corpus of bytes and with a small model; and the whole way finds a defect that costs a little, and none where there is
none."""

import json
import re
import shutil

import h5py

import command_blocks
import zpp

PAGE = (zpp.SOURCE / "docs" / "howto" / "convergence.md").read_text()
[BLOCK] = [block for block in command_blocks.fenced(PAGE, "sh") if "zpp-validate power" in block]
INPUTS = zpp.SOURCE / "inputs" / "convergence"


def smaller(name):
    """A matrix of inputs/convergence for the host and a model of a moment."""
    matrix = json.loads((INPUTS / name).read_text())
    base = matrix["base"]
    base["train_batch_size"] = 8
    base["optimizer"]["params"]["lr"] = base["scheduler"]["params"]["warmup_max_lr"] = 0.003
    base["scheduler"]["params"] |= {"warmup_num_steps": 4, "total_num_steps": 20}
    base["zeropp"]["model"] |= {"num_layers": 1, "hidden_size": 32, "num_attention_heads": 2, "seq_length": 16}
    base["zeropp"] |= {"backend": "host", "train_steps": 20, "evaluation_interval": 20, "evaluation_batches": 4}
    return matrix


class Decision(zpp.TestCase):
    def clone(self):
        """A folder that looks like a clone after the build, whose matrices are small."""
        folder = command_blocks.clone(self.folder)
        (folder / "build-cuda").symlink_to(zpp.BIN.parent)
        (folder / "jobscripts").symlink_to(zpp.SOURCE / "jobscripts")
        (folder / "inputs").unlink()
        (folder / "inputs" / "convergence").mkdir(parents=True)
        for name in re.findall(r"inputs/convergence/(\S+)", BLOCK):
            (folder / "inputs" / "convergence" / name).write_text(json.dumps(smaller(name)))
        shutil.copytree(zpp.SOURCE / "docs" / "howto", folder / "texts")
        return folder

    def test_the_page(self):
        script, replaced = re.subn(r"(corpus\.py --output \S+) --vocab-size \d+", r"\1 --folders texts --held-out 0.01",
                                   BLOCK)
        self.assertEqual(replaced, 1)
        folder = self.clone()
        done = self.check_ok(command_blocks.pasted(f"set -e\n{script}", folder, timeout=200))
        self.assertRegex(done.stdout, r"corpus|documents, ")
        self.assertRegex(done.stdout, r"(?s)seeds give every setting .* among 10 settings\..*2 files as one matrix: "
                         r".*## text: 8 seeds per setting")
        self.assertTrue(done.stdout.endswith("\nVALID\n"), done)
        root, groups = zpp.read_trace(folder / "out" / "decide" / "b" / "converge.h5")
        self.assertEqual((set(groups["runs"]["seed"]), set(groups["runs"]["world_size"])), ({5, 6, 7, 8}, {1}))
        self.assertEqual(json.loads(root["config_json"])["data_source"], "text")
        self.assertTrue((folder / "out" / "decide" / "judged.h5").exists())

    def judged(self, defect):
        """(verdict, difference) by setting of a matrix that a program with `defect` trained: int8 gradients with and
        without hpZ. OpenBLAS rounds by the kernels of a processor, and few seeds judge: all processors use one kind."""
        rate = 0.0015
        matrix = smaller("text-25m.json")
        matrix["base"] |= {"gradient_accumulation_steps": 2, "zero_optimization": {"stage": 3}}
        matrix["base"]["optimizer"]["params"]["lr"] = rate
        matrix["base"]["scheduler"]["params"] |= {"warmup_max_lr": rate, "warmup_num_steps": 10, "total_num_steps": 120}
        matrix["base"]["zeropp"] |= {"node_size": 2, "train_steps": 120, "evaluation_interval": 120,
                                     "evaluation_batches": 64,
                                     "data": {"source": "markov"}}
        matrix["base"]["zeropp"]["model"]["seq_length"] = 32
        beside = {"level": "markov", "baseline": "none", "gradient_codecs": ["int8:64"]}
        matrix["settings"] = [{"name": "none", "level": "markov"}, {"name": "gradients"} | beside,
                              {"name": "hpZ", "config": {"zero_optimization": {"zero_hpz_partition_size": 2}}} | beside]
        path, out = self.write_json("matrix.json", matrix), self.folder / f"out {defect}"
        run = [str(zpp.TEST_BIN / "defective_converge"), "--config", path, "--output", out]
        self.check_ok(zpp.launch([(2, run)], env={"ZEROPP_DEFECT": defect, "OPENBLAS_CORETYPE": "Haswell"},
                                   patient=True).end(timeout=200))
        self.check_ok(zpp.Process([*zpp.VALIDATE, "converge", out / "converge.h5", "--margin", "0.005",
                                   "--output", out]).end())
        with h5py.File(out / "judged.h5") as file:
            rows = file["judged"]
            return {name: (verdict, difference) for name, verdict, difference in
                    zip(rows["setting"].asstr(), rows["verdict"].asstr(), rows["difference"][()])}

    def test_a_planted_harm_of_half_a_hundredth_is_found(self):
        """hpZ's secondary weights are one version old in every second step: int8 gradients alone cost nothing, with it
        0.005 nats."""
        self.assertEqual({name: verdict for name, (verdict, _) in self.judged("").items()},
                         {"gradients int8:64": "equivalent", "hpZ int8:64": "equivalent"})
        found = self.judged("secondary_stale")
        self.assertEqual(found["gradients int8:64"][0], "equivalent")
        self.assertIn("worse", found["hpZ int8:64"][0])
        self.assertTrue(0.003 < found["hpZ int8:64"][1] < 0.008, found)


if __name__ == "__main__":
    zpp.skip_without_open_mpi("the text of the page")
    zpp.main()
