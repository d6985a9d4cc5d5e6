# ctest: name=token_files timeout=180 labels=oracle
"""Token files of llm.c and Megatron-LM, written by NumPy, as data of a training run: the bytes of a text as ids,
however they are stored, train what the text trains, to the last bit; what a file cannot be is refused in one line with
code 5, and nothing is left."""

import struct

import numpy

import token_file_writer
import zpp

TEXT = b"".join(b"%d times %d is %d. " % (i, i, i * i) for i in range(300))
BYTES = numpy.frombuffer(TEXT, numpy.uint8)
DOCUMENTS = [[BYTES[:1000], BYTES[1000:1000], BYTES[1000:1007]], [BYTES[1007:]]]


class TokenFiles(zpp.TestCase):
    def run_on(self, source, path, vocabulary, name="out"):
        words = [] if vocabulary is None else ["--data-vocab-size", vocabulary]
        command = zpp.train_command("--data-source", source, "--data-path", path, *words, "--eval-interval", 3,
                                    "--eval-iters", 2,
                                    out=self.folder / name)
        return zpp.Process(command, cwd=self.folder).end()

    def trained(self, *run, **options):
        """The hash of the trained parameters, and what the trace says of the data but its name."""
        self.check_ok(self.run_on(*run, **options))
        attributes, groups = self.trace(self.folder / options.get("name", "out"))
        data = groups["data"]
        return attributes["parameters_hash"], {key: value for key, value in data.items() if key != "source"
                                               and value == value}

    def test_however_they_are_stored(self):
        (self.folder / "text").write_bytes(TEXT)
        expected = self.trained("text", "text", None)
        self.assertEqual(expected[1]["vocab_size"], 256)
        for model in token_file_writer.LLMC:
            with self.subTest(model=model):
                (self.folder / model).write_bytes(token_file_writer.llmc(BYTES, model))
                self.assertEqual(self.trained("llmc", model, 256), expected)
        for dtype in token_file_writer.MEGATRON:
            if numpy.issubdtype(dtype, numpy.integer):
                with self.subTest(dtype=dtype.__name__):
                    token_file_writer.write_megatron(self.folder / dtype.__name__, DOCUMENTS, dtype)
                    self.assertEqual(self.trained("megatron", dtype.__name__, 256), expected)

    def test_ids_of_more_than_a_byte(self):
        """The entropy of the held-out part, a twentieth, by NumPy."""
        ids = numpy.random.default_rng(1).zipf(1.3, 8000) % 70000
        held_out = ids[-400:]
        share = numpy.unique(held_out, return_counts=True)[1] / len(held_out)
        (self.folder / "ids").write_bytes(token_file_writer.llmc(ids, "llama-3"))
        token_file_writer.write_megatron(self.folder / "pair", [[ids[:5]], [ids[5:]]], numpy.int32)
        one, other = (self.trained(source, path, 70000, name=f"of {path}")
                      for source, path in (("llmc", "ids"), ("megatron", "pair")))
        self.assertEqual(one, other)
        self.assertEqual((one[1]["train_tokens"], one[1]["held_out_tokens"]), (7600, 400))
        self.assertAlmostEqual(one[1]["unigram_entropy_bits"], -(share * numpy.log2(share)).sum(), places=9)

    def test_an_id_beyond_the_vocabulary(self):
        """File, number and byte of the first one; on every number of ranks one line."""
        ids = BYTES.astype(numpy.int32)
        ids[4321] = 256
        (self.folder / "high").write_bytes(token_file_writer.llmc(ids))
        token_file_writer.write_megatron(self.folder / "pair", [[ids]], numpy.uint16)
        ids[4321] = -1
        token_file_writer.write_megatron(self.folder / "negative", [[ids]], numpy.int32)
        for source, path, shown, found in (("llmc", "high", "high",
                                            f"id 256 as its token 4321 (byte {1024 + 2 * 4321})"),
                                           ("megatron", "pair", "pair.bin",
                                            f"id 256 as its token 4321 (byte {2 * 4321})"),
                                           ("megatron", "negative", "negative.bin",
                                            f"id -1 as its token 4321 (byte {4 * 4321})")):
            with self.subTest(path=path):
                self.check_fails(self.run_on(source, path, 256), zpp.IO, f"data file '{shown}' has the {found}",
                                 "has 256:", "--data-vocab-size")
        self.check_fails(self.train(2, "--data-source", "llmc", "--data-path", "high", "--data-vocab-size", 256),
                         zpp.IO, "token 4321")
        self.assertEqual(self.run_on("llmc", "high", 257).code, zpp.OK)

    def test_usage(self):
        for words, part in ((["llmc", "x", None], "--data-vocab-size"), (["megatron", "x", 0], "--data-vocab-size"),
                            (["text", "x", 256], "zeropp.data.source llmc or megatron")):
            with self.subTest(words=words):
                self.check_fails(self.run_on(*words), zpp.USAGE, part)

    def test_damaged_llmc(self):
        whole = token_file_writer.llmc(BYTES)

        def header(place, number):
            return whole[:4 * place] + struct.pack("<i", number) + whole[4 * place + 4:]

        cases = {"missing": (None, "No such file"), "empty": (b"", "it has 0 bytes"),
                 "header": (whole[:1023], "it has 1023 bytes"),
                 "text": (TEXT, "is no token file of llm.c"), "magic": (header(0, 20240522), "begins with 20240522"),
                 "version": (header(1, 7), "version 7"), "negative": (header(2, -1), "holds -1 tokens"),
                 "more": (header(2, len(BYTES) + 1), f"holds {len(BYTES) + 1} tokens"),
                 "cut": (whole[:-1], "cut short"),
                 "none": (token_file_writer.llmc([]), "holds no tokens")}
        for name, (content, part) in cases.items():
            with self.subTest(name=name):
                if content is not None:
                    (self.folder / name).write_bytes(content)
                self.check_fails(self.run_on("llmc", name, 256), zpp.IO, name, part)

    def test_damaged_megatron(self):
        index, ids = token_file_writer.megatron(DOCUMENTS, numpy.uint16)
        lengths, pointers, ends = 34, 34 + 4 * 4, 34 + 12 * 4

        def changed(place, form, number):
            return index[:place] + struct.pack(form, number) + index[place + struct.calcsize(form):]

        cases = {"index": (None, ids, "No such file"), "ids": (index, None, "No such file"),
                 "none": (b"", ids, "is no index"),
                 "head": (index[:33], ids, "is no index"), "magic": (b"X" + index[1:], ids, "is no index"),
                 "version": (changed(9, "<Q", 2), ids, "version 2"),
                 "float": (changed(17, "<B", 6), ids, "type number 6"),
                 "type": (changed(17, "<B", 99), ids, "type number 99"),
                 "other": (changed(17, "<B", 4), ids, "sequence 1 begins at byte 2000"),
                 "sequences": (changed(18, "<Q", 5), ids, "5 sequences"),
                 "many": (changed(18, "<Q", 1 << 63), ids, "sequences"),
                 "documents": (changed(26, "<Q", (1 << 61) + 3), ids, "ends of documents"),
                 "cut": (index[:-1], ids, "bytes follow its header"),
                 "modes": (index + bytes(4), ids, "several modes"),
                 "length": (changed(lengths + 4, "<i", -1), ids, "sequence 1 has -1"),
                 "long": (changed(lengths, "<i", 1 << 30), ids, "sequence 0 has 1073741824"),
                 "pointer": (changed(pointers + 8, "<q", 0), ids, "sequence 1 begins at byte 0"),
                 "end": (changed(ends + 8, "<q", 9), ids, "document"),
                 "order": (changed(ends, "<q", 4), ids, "document"),
                 "short": (index, ids[:-2], "sequence 3"), "longer": (index, ids + b"ab", "bytes"),
                 "empty": (*token_file_writer.megatron([[[]]], numpy.uint16), "no tokens")}
        for name, (one, other, part) in cases.items():
            with self.subTest(name=name):
                for suffix, content in (("idx", one), ("bin", other)):
                    if content is not None:
                        (self.folder / f"{name}.{suffix}").write_bytes(content)
                self.check_fails(self.run_on("megatron", name, 256), zpp.IO, name, part)


if __name__ == "__main__":
    zpp.main()
