# ctest: name=torch_torchtitan timeout=600 labels=cli,torch processors=4
"""examples/torchtitan: torchtitan's own trainer trains its debug model on CPUs with codecs as it does without, and
prints what was sent. Text and tokenizer, which torchtitan's repository has and its package lacks, are made here."""

import json
import pathlib
import sys
import tempfile
import unittest

import torch_ranks as ranks

ranks.with_torch("torchtitan", "tokenizers")

import torch_examples as examples
from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = ("-m", "torchtitan.train", "--module", "compressed_llama3", "--config", "llama3_debugmodel",
         "--training.steps", 6,
         "--training.local-batch-size", 1, "--training.seq-len", 128, "--debug.seed", 1,
         "--metrics.disable-color-printing",
         "--zeropp.node-size", 2)


def write_assets(folder):
    """tests/assets of torchtitan: a tokenizer of bytes, and this project's page for contributors as the text."""
    assets = folder / "tests" / "assets"
    (assets / "tokenizer").mkdir(parents=True)
    (assets / "c4_test").mkdir()
    end = "<|end_of_text|>"
    tokenizer = Tokenizer(models.BPE({word: at
                                      for at, word in enumerate([end, *sorted(pre_tokenizers.ByteLevel.alphabet())])},
                                     []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens([end])
    tokenizer.save(str(assets / "tokenizer" / "tokenizer.json"))
    (assets / "tokenizer" / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
    row = json.dumps({"text": (examples.SOURCE / "CONTRIBUTING.md").read_text()})
    (assets / "c4_test" / "data.json").write_text("\n".join([row] * 8))


class Torchtitan(unittest.TestCase):
    def test_debug_model(self):
        with tempfile.TemporaryDirectory(prefix="zpp-") as name:
            write_assets(pathlib.Path(name))

            def run(*more):
                return examples.run(examples.ON_CPUS, *WORDS, *more, folder=name,
                                    python_path=[examples.SOURCE / "examples" / "torchtitan"])

            examples.check(self, run("--zeropp.weights", "none", "--zeropp.gradients", "none"), run(), 0.1)


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False, verbosity=2).result.wasSuccessful() else 1)
