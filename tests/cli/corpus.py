# ctest: name=corpus timeout=120 labels=cli,nightly
"""jobscripts/local/corpus.py on folders and packages of our own: which documents are kept, that each is there once,
where the held-out part begins, that zpp_train holds out that part, and a BPE whose tokens are the documents again. And
corpus_part.py, which cuts a smaller corpus out of one."""

import array
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import unittest

import zpp

SCRIPT = zpp.SOURCE / "jobscripts" / "local" / "corpus.py"
PART = SCRIPT.with_name("corpus_part.py")


def prose(rng, count):
    return "".join(f"{rng.choice(['word', 'träge', 'int x;', 'return'])} {rng.randrange(10**6)}\n"
                   for _ in range(count)).encode()


def archive(files):
    """The bytes of a .tar.xz."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return lzma.compress(stream.getvalue())


class Corpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zpp-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.source, self.output = self.folder / "source", self.folder / "corpus"
        self.source.mkdir()
        rng = random.Random(2)
        self.kept = [prose(rng, rng.randint(30, 200)) for _ in range(40)]
        self.kept[5] += b"<|endoftext|> within a document\n"
        plain, packed, inside = self.kept[:30], self.kept[30:33], self.kept[33:]
        for index, content in enumerate(plain):
            (self.source / f"{index}.txt").write_bytes(content)
        for index, content in enumerate(packed):
            (self.source / f"{index}.txt.gz").write_bytes(gzip.compress(content))
        (self.source / "tree.tar.xz").write_bytes(archive({f"tree/{index}.c": content
                                                           for index, content in enumerate(inside)}))
        large = b"".join(prose(rng, 7000) for _ in range(12))  # more than 1 MiB: cut between lines
        (self.source / "large.txt").write_bytes(large)
        begin = 0
        while begin < len(large):
            end = large.find(b"\n", min(len(large), begin + 65536)) + 1 or len(large)
            self.kept.append(large[begin:end])
            begin = end
        self.assertGreater(len(self.kept), 56)
        (self.source / "damaged.gz").write_bytes(gzip.compress(plain[2])[:-9])
        for name, content in {"short": b"x" * 255, "binary": plain[0] + b"\0", "latin": plain[0] + b"\xe4",
                              "again": plain[0],
                              "wide": b"x" * 401 + b"\n" + plain[1][:100], "huge.c": b"int x;\n" * 160_000}.items():
            (self.source / name).write_bytes(content)
        self.left_out = {"short": 1, "binary": 1, "not UTF-8": 1, "equal to another": 1, "long lines": 1, "long": 1,
                         "cannot be unpacked": 1}

    def make(self, *words, code=0, python=sys.executable):
        done = subprocess.run([python, SCRIPT, *words, "--output", self.output], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def record(self):
        return json.loads((self.output / "corpus.json").read_text())

    def check_documents(self, record):
        documents = (self.output / "bytes.txt").read_bytes().split(b"\0")
        self.assertEqual(documents.pop(), b"")
        order = sorted(self.kept, key=lambda each: hashlib.sha256(each).hexdigest())
        count = record["held_out_documents"]
        self.assertEqual(documents, order[count:] + order[:count])
        self.assertGreaterEqual(record["held_out_bytes"], 10_000)
        self.assertLess(record["held_out_bytes"] - len(order[count - 1]), 10_000)
        self.assertEqual(record["files"][0]["held_out_tokens"], sum(len(each) + 1 for each in order[:count]))

    def test_folders(self):
        self.output = self.source / "corpus"  # what it wrote is not read again
        for _ in range(2):
            self.make("--folders", self.source, "--held-out", "0.01")
        record = self.record()
        self.assertEqual((record["documents"], record["left_out"]), (len(self.kept), self.left_out))
        self.check_documents(record)
        file = record["files"][0]
        self.assertEqual(file["sha256"], hashlib.sha256((self.output / "bytes.txt").read_bytes()).hexdigest())
        share = float(file["flags"][file["flags"].index("--held-out-fraction") + 1])
        self.assertEqual(math.ceil(file["tokens"] * share), file["held_out_tokens"])
        trained = zpp.train(2, *file["flags"], "--eval-interval", "3", "--eval-iters", "1", out=self.folder / "run")
        self.assertEqual(trained.code, zpp.OK, trained)

    def test_packages(self):
        """A package that dpkg-deb makes is used instead of the packages that apt-get would download."""
        tree, tools = self.folder / "tree", self.folder / "tools"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "usr/share").mkdir(parents=True)
        self.source.rename(tree / "usr/share/text")
        (tree / "DEBIAN/control").write_text("Package: sample\nVersion: 1.0-1\nArchitecture: all\nMaintainer: a "
                                             "<a@b.c>\nDescription: text\n")
        package = self.folder / "sample_1.0-1_all.deb"
        try:
            subprocess.run(["dpkg-deb", "--build", tree, package], check=True, capture_output=True)
        except FileNotFoundError:
            self.skipTest("dpkg-deb is missing")
        tools.mkdir()
        (tools / "apt-get").write_text(f'#!/bin/sh\n[ "$2" = sample ] && cp "{package}" . || {{ echo "E: no package '
                                       f'$2" >&2; exit 100; }}\n')
        (tools / "apt-get").chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{tools}:{path}"
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        self.make("--packages", "sample", "--held-out", "0.01")
        record = self.record()
        digest = hashlib.sha256(package.read_bytes()).hexdigest()
        self.assertEqual(record["packages"], {"sample": {"version": "1.0-1", "sha256": digest}})
        self.check_documents(record)
        self.assertIn("no package other", self.make("--packages", "other", code=5).stderr)
        package.write_bytes(package.read_bytes()[:-1000])
        self.assertIn("damaged", self.make("--packages", "sample", "--held-out", "0.01", code=5).stderr)

    def test_bpe(self):
        python = os.environ.get("ZEROPP_TORCH_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import tokenizers"], capture_output=True, check=False).returncode:
            done = self.make("--folders", self.source, "--vocab-size", "600", code=3, python=python)
            self.assertIn("pip install tokenizers", done.stderr)
            self.skipTest("no Python with tokenizers: set ZEROPP_TORCH_PYTHON")
        self.make("--folders", self.source, "--held-out", "0.01", "--vocab-size", "600", python=python)
        record = self.record()
        self.check_documents(record)
        self.assertEqual((self.output / "bytes.txt").read_bytes().count(b"<|endoftext|>"), 1)
        raw, file = (self.output / "bpe.bin").read_bytes(), record["files"][1]
        ids = array.array("H", raw[1024:])
        self.assertEqual((len(ids), max(ids) < 600), (file["tokens"], True))
        self.assertLess(file["tokens"], record["files"][0]["tokens"] / 2)
        decode = ("import array, sys, tokenizers; t = tokenizers.Tokenizer.from_file(sys.argv[1]); "
                  "ids = list(array.array('H', open(sys.argv[2], 'rb').read()[1024:])); end = "
                  "t.token_to_id('<|endoftext|>'); "
                  "documents = [[]]; [documents.append([]) if each == end else documents[-1].append(each) for "
                  "each in ids]; "
                  "sys.stdout.buffer.write(b''.join(t.decode(each).encode() + b'\\0' for each in documents[:-1]))")
        again = subprocess.run([python, "-c", decode, self.output / "bpe.json", self.output / "bpe.bin"],
                               capture_output=True, check=True)
        self.assertEqual(again.stdout, (self.output / "bytes.txt").read_bytes())
        trained = zpp.train(2, *file["flags"], "--eval-interval", "3", "--eval-iters", "1", out=self.folder / "run")
        self.assertEqual(trained.code, zpp.OK, trained)

    def test_what_cannot_be(self):
        self.assertIn("too few", self.make("--folders", self.source, code=2).stderr)
        self.assertEqual(list(self.output.iterdir()), [], "temporary files")
        self.assertIn("no such folder", self.make("--folders", f"{self.source},nowhere", code=2).stderr)
        self.assertIn("above 0", self.make("--folders", self.source, "--held-out", "0", code=2).stderr)
        self.assertIn("512 to 65536", self.make("--folders", self.source, "--vocab-size", "100", code=2).stderr)

    def cut(self, *words, code=0):
        done = subprocess.run([sys.executable, PART, self.output, "--output", self.folder / "part.bin", *words],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_part(self):
        """A part of a token file that the test writes, so that no module is needed."""
        self.output.mkdir()
        rng = random.Random(3)
        ids = array.array("H", [rng.randrange(600) for _ in range(9000)])
        header = array.array("i", [20240520, 1, len(ids)] + [0] * 253)
        (self.output / "bpe.bin").write_bytes(header.tobytes() + ids.tobytes())
        described = {"file": "bpe.bin", "tokens": 9000, "held_out_tokens": 2000,
                     "flags": ["--data-source", "llmc", "--data-path", "bpe.bin", "--held-out-fraction", "0.2",
                               "--data-vocab-size", "600"]}
        (self.output / "corpus.json").write_text(json.dumps({"files": [described]}))
        done = self.cut("--trained", "5000", "--held-out", "700")
        raw = (self.folder / "part.bin").read_bytes()
        self.assertEqual(list(array.array("i", raw[:1024])), [20240520, 1, 5700] + [0] * 253)
        self.assertEqual(raw[1024:], (ids[:5000] + ids[7000:7700]).tobytes())
        self.assertIn(hashlib.sha256(raw).hexdigest(), done.stdout)
        flags = done.stdout.splitlines()[-1].split("zpp_train ")[1].split()
        self.assertEqual(math.ceil(5700 * float(flags[flags.index("--held-out-fraction") + 1])), 700)
        trained = zpp.train(2, *flags, "--eval-interval", "3", "--eval-iters", "1", out=self.folder / "run")
        self.assertEqual(trained.code, zpp.OK, trained)
        self.assertIn("has 2000 such tokens", self.cut("--trained", "5000", "--held-out", "2001", code=2).stderr)
        self.assertIn("has 7000 such tokens", self.cut("--trained", "7001", "--held-out", "1", code=2).stderr)
        self.assertIn("at least 1", self.cut("--trained", "0", "--held-out", "1", code=2).stderr)
        self.assertIn("the corpus itself", self.cut("--trained", "5", "--held-out", "7",
                                                    "--output", self.output / "bpe.bin", code=2).stderr)
        self.assertEqual((self.output / "bpe.bin").read_bytes(), header.tobytes() + ids.tobytes())
        (self.output / "bpe.bin").write_bytes(raw[:1024])
        self.assertIn("ends before", self.cut("--trained", "5000", "--held-out", "700", code=5).stderr)
        self.assertEqual(((self.folder / "part.bin").read_bytes(), [*self.folder.glob("*.part")]), (raw, []),
                         "what was there stays")
        (self.output / "corpus.json").write_text(json.dumps({"files": []}))
        self.assertIn("--vocab-size", self.cut("--trained", "5", "--held-out", "7", code=2).stderr)


if __name__ == "__main__":
    zpp.main()
