"""The tokens of a run of zeropp, in its order: which token files hold them, where each sequence of each step begins,
and the hash by which a trace of zpp_converge names all that. Written from the descriptions in lib/data alone; NumPy.

The end of a file is held out. Sequence r of a step begins at w % places, w being the first 64 bits that Philox draws by
the run's seed, r and the step; places are the training tokens less one sequence. Held-out sequences follow one another.
"""

import hashlib
import math

import numpy as np

from zpp_validate.curves import philox
from zpp_validate.problem import Unfit

PURPOSE = 0x73616D706C657220  # xored into the seed
LLMC = {(20240520, 1): "<u2", (20240801, 7): "<u4"}  # by magic and version of the header of 256 int32
HEADER = 1024  # bytes
CHUNK = 1 << 22  # tokens


class Tokens:
    """Tokens of a file, which is mapped into memory."""

    def __init__(self, source, path, held_out_fraction):
        """Throws ValueError for a file that is none of `source`, OSError."""
        if source == "text":
            self.ids = np.memmap(path, np.uint8, "r")
        elif source == "llmc":
            magic, version, count = map(int,
                                        np.fromfile(path, "<i4", 3)) if path.stat().st_size >= HEADER else (0, 0, 0)
            if (magic, version) not in LLMC:
                raise Unfit(f"{path} is no token file of llm.c")
            self.ids = np.memmap(path, LLMC[magic, version], "r", HEADER)
            if len(self.ids) != count:
                raise Unfit(f"{path} says that it has {count} tokens, and has {len(self.ids)}")
        else:
            raise Unfit(f"the tokens are of the source {source}; those of text and llmc are read here")
        self.train = len(self.ids) - min(len(self.ids), math.ceil(len(self.ids) * held_out_fraction))
        self.held_out = len(self.ids) - self.train

    def fingerprint(self):
        """Hash of all ids as int32, each part after its length."""
        digest = hashlib.sha256()
        for part in (self.ids[:self.train], self.ids[self.train:]):
            digest.update(f"{len(part)} ".encode())
            for first in range(0, len(part), CHUNK):
                digest.update(part[first:first + CHUNK].astype("<i4").tobytes())
        return digest.hexdigest()

    def rows(self, starts, length):
        """int32 [..., length + 1]: each sequence with the token that follows it."""
        return self.ids[starts[..., None] + np.arange(length + 1)].astype(np.int32)

    def train_rows(self, seed, steps, sequences, length):
        """[steps, sequences, length + 1]."""
        step, row = np.meshgrid(np.arange(steps, dtype=np.uint64), np.arange(sequences, dtype=np.uint64), indexing="ij")
        drawn = philox.words(seed ^ PURPOSE, row, step)
        return self.rows((((drawn[1] << 32) | drawn[0]) % (self.train - length)).astype(np.int64), length)

    def held_out_sequences(self, length):
        return (self.held_out - 1) // length

    def held_out_rows(self, sequences, length):
        """[sequences, length + 1]: the first of them."""
        return self.rows(self.train + length * np.arange(sequences), length)


def data_hash(fingerprint, config, seed):
    """As /runs/data_hash of a run from `seed`; `config`: its configuration."""
    own = config["zeropp"]
    held_out = own["evaluation_batches"] * config["train_micro_batch_size_per_gpu"] if own["evaluation_interval"] else 0
    return hashlib.sha256(f"{fingerprint} seed {seed} length {own['model']['seq_length']} batch "
                          f"{config['train_batch_size']} "
                          f"steps {own['train_steps']} held out {held_out} a rank".encode()).hexdigest()
