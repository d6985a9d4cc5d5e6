# ctest: name=converge_decision timeout=240 labels=cli processors=2
"""The commands of docs/howto/convergence.md that decide a small difference, from the corpus to the verdict, on a small corpus of bytes and
with a small model; and the whole way finds a defect that costs a little, and none where there is none."""

import json
import re
import shutil

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
        script, replaced = re.subn(r"(corpus\.py --output \S+) --vocab-size \d+", r"\1 --folders texts --held-out 0.01", BLOCK)
        self.assertEqual(replaced, 1)
        folder = self.clone()
        done = self.check_ok(command_blocks.pasted(f"set -e\n{script}", folder, timeout=200))
        self.assertRegex(done.stdout, r"corpus|documents, ")
        self.assertRegex(done.stdout, r"(?s)seeds give every setting .* among 10 settings\..*2 files as one matrix: .*## text: 8 seeds a setting")
        self.assertTrue(done.stdout.endswith("\nVALID\n"), done)
        root, groups = zpp.read_trace(folder / "out" / "decide" / "b" / "converge.h5")
        self.assertEqual((set(groups["runs"]["seed"]), set(groups["runs"]["world_size"])), ({5, 6, 7, 8}, {1}))
        self.assertEqual(json.loads(root["config_json"])["data_source"], "text")
        self.assertTrue((folder / "out" / "decide" / "judged.h5").exists())


if __name__ == "__main__":
    zpp.skip_without_open_mpi("the text of the page")
    zpp.main()
