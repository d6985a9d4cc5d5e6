#!/usr/bin/env python3
"""Makes a corpus of text and code from Debian packages or folders, as token files that zpp_train reads.

usage: jobscripts/local/corpus.py --output DIR [--packages LIST | --folders LIST] [--vocab-size N]

Downloads the packages with apt-get, which needs no root, and takes from them every file that is text: UTF-8 without NUL,
of 256 bytes to 1 MiB, with at most one line in a hundred beyond 400 characters. Plain texts beyond 1 MiB, such as
dictionaries (.dz, .txt), are cut into documents of about 64 KiB between two lines. Equal documents are kept once. They are
ordered by their SHA-256, which mixes the packages and is the same on every machine; the first ones of that order, 24 MB
of them, are the held-out part, which lies at the end of each file:

  DIR/bytes.txt    the documents, each ended by a NUL byte (--data-source text)
  DIR/bpe.bin      the same as tokens of a byte-level BPE, of 16 bits (--data-source llmc); with --vocab-size
  DIR/bpe.json     that tokenizer, in the format of Hugging Face's tokenizers
  DIR/corpus.json  packages with versions and digests, what was left out and why, sizes, digests of the files, and for
                   each the flags of zpp_train that hold out the held-out part

A BPE needs the package tokenizers of PyPI. It is trained on the first documents that are trained on, 128 MB of them.
A file that cannot be unpacked is left out and counted.
Exit codes: 0 done; 2 usage; 3 apt-get, dpkg-deb or the package tokenizers is missing; 5 a download, a package or a file
that is written failed.
"""

import argparse
import array
import collections
import gzip
import hashlib
import json
import lzma
import pathlib
import struct
import subprocess
import sys
import tarfile
import tempfile
import zlib

PACKAGES = "linux-source-6.1,dict-gcide,manpages,manpages-dev,perl-doc"
LEAST, MOST, LONG_LINE, LONG_SHARE = 256, 1 << 20, 400, 0.01
SLICE, CUT = MOST // 16, (".dz", ".txt", ".txt.gz")  # texts that are cut where they are long
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, tarfile.TarError)
MB = 10**6
END = "<|endoftext|>"  # between the documents of a BPE's file
LLMC_MAGIC, LLMC_VERSION, LLMC_HEADER = 20240520, 1, 256  # 32-bit words


def fail(code, message):
    print(f"corpus: error: {message}", file=sys.stderr)
    sys.exit(code)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--packages", default=PACKAGES, metavar="LIST", help=f"Debian packages [{PACKAGES}]")
    source.add_argument("--folders", metavar="LIST", help="folders of documents instead of packages")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--held-out", type=float, default=24, metavar="MB", help="size of the held-out part at least [24]")
    parser.add_argument("--vocab-size", type=int, default=0, metavar="N", help="tokens of a BPE, 8192 to 32768 say [0: none]")
    options = parser.parse_args()
    if options.held_out <= 0:
        parser.error(f"--held-out {options.held_out:g}: give a number of MB above 0")
    for folder in options.folders.split(",") if options.folders else []:
        if not pathlib.Path(folder).is_dir():
            parser.error(f"--folders {folder}: there is no such folder")
    if options.vocab_size and not 512 <= options.vocab_size <= 65536:
        parser.error(f"--vocab-size {options.vocab_size}: give 512 to 65536, for tokens of 16 bits")
    return options


def download(names, folder):
    """[(file, name, version)] of packages, in an empty folder."""
    try:
        done = subprocess.run(["apt-get", "download", *names], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            fail(5, f"apt-get download: {done.stderr.strip().splitlines()[-1]}: run apt-get update, or give other --packages")
        return [(file, *subprocess.run(["dpkg-deb", "--show", file], capture_output=True, text=True, check=True).stdout.split())
                for file in sorted(pathlib.Path(folder).glob("*.deb"))]
    except FileNotFoundError as missing:
        fail(3, f"{missing.filename} is missing: run this on Debian, or give --folders")


def opened(name, stream, size):
    """(name, bytes) of one file, or of each file inside an archive, unpacked. Where the bytes are too many to read, or
    cannot be unpacked: (name, reason as text)."""
    try:
        if name.endswith((".tar.xz", ".tar.gz", ".tar.bz2")):
            with tarfile.open(fileobj=stream, mode="r|*") as archive:
                yield from members(archive)
        elif name.endswith((".gz", ".dz")):
            yield name, gzip.decompress(stream.read())
        elif name.endswith(".xz"):
            yield name, lzma.decompress(stream.read())
        else:
            yield name, stream.read() if size <= MOST or name.endswith(CUT) else "long"
    except DAMAGED:
        yield name, "cannot be unpacked"


def members(archive):
    for member in archive:
        if member.isfile():
            yield from opened(member.name, archive.extractfile(member), member.size)


def files_of_package(file):
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        whole = True
        try:
            with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
                yield from members(archive)
        except tarfile.TarError:
            whole = False
        process.stdout.read()  # to its end, which dpkg-deb waits for
        if process.wait() or not whole:
            fail(5, f"{file.name} is damaged: dpkg-deb cannot unpack it: start again, which downloads it anew")


def files_of_folder(folder, output):
    """(name, bytes) of all files of `folder`, except those in `output`."""
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and output.resolve() not in path.resolve().parents:
            with path.open("rb") as stream:
                yield from opened(str(path), stream, path.stat().st_size)


def parts(name, content):
    """A large plain text, such as a dictionary, as documents of whole lines."""
    if len(content) <= MOST or not name.endswith(CUT):
        yield content
        return
    begin = 0
    while begin < len(content):
        end = content.find(b"\n", min(len(content), begin + SLICE)) + 1 or len(content)
        yield content[begin:end]
        begin = end


def why_left_out(content):
    """The reason why a document is left out, or an empty string."""
    if isinstance(content, str):
        return content
    if len(content) < LEAST:
        return "short"
    if len(content) > MOST:
        return "long"
    if b"\0" in content:
        return "binary"
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return "not UTF-8"
    return "long lines" if sum(len(line) > LONG_LINE for line in lines) > LONG_SHARE * len(lines) else ""


def documents(sources, spool):
    """[(digest, offset, size)] of the documents that are kept, whose bytes go to `spool`; counts of what was left out."""
    kept, left_out, offset = {}, collections.Counter(), 0
    for files in sources:
        for name, whole in files:
            for content in parts(name, whole):
                why = why_left_out(content)
                digest = "" if why else hashlib.sha256(content).hexdigest()
                if why or digest in kept:
                    left_out[why or "equal to another"] += 1
                    continue
                kept[digest] = (offset, len(content))
                spool.write(content)
                offset += len(content)
    return sorted((digest, *place) for digest, place in kept.items()), dict(left_out)


def divided(ordered, least):
    """(trained on, held out) of the ordered documents, cut between two of them."""
    size = 0
    for count, (_, _, each) in enumerate(ordered):
        if size >= least:
            return ordered[count:], ordered[:count]
        size += each
    fail(2, f"{size / MB:.1f} MB of documents are too few for a held-out part of {least / MB:.1f} MB: give more, or a lower --held-out")


def fraction(held_out, tokens):
    """The fraction that zpp_train rounds up to `held_out` tokens at the end."""
    return (held_out - 0.5) / tokens


def digest_of(path):
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def described(path, source, tokens, held_out, vocabulary):
    return {"file": path.name, "sha256": digest_of(path), "tokens": tokens, "held_out_tokens": held_out,
            "flags": ["--data-source", source, "--data-path", str(path), "--held-out-fraction", repr(fraction(held_out, tokens)), *vocabulary]}


def write_bytes(path, read, training, held_out):
    sizes = []
    with path.open("wb") as out:
        for part in (training, held_out):
            sizes.append(sum(out.write(read(place) + b"\0") for place in part))
    return described(path, "text", sum(sizes), sizes[1], [])


def write_bpe(folder, read, training, held_out, vocabulary):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.encode_special_tokens = True  # a document may hold the words of END
    size, sample = 0, []
    for place in training:
        sample.append(place)
        size += place[2]
        if size >= 128 * MB:
            break
    tokenizer.train_from_iterator((read(place).decode() for place in sample), trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.save(str(folder / "bpe.json"))
    path, counts, end = folder / "bpe.bin", [], tokenizer.token_to_id(END)
    with path.open("wb") as out:
        out.write(bytes(4 * LLMC_HEADER))
        for part in (training, held_out):
            counts.append(0)
            for first in range(0, len(part), 512):
                for each in tokenizer.encode_batch([read(place).decode() for place in part[first:first + 512]]):
                    ids = array.array("H", [*each.ids, end])
                    ids.tofile(out)
                    counts[-1] += len(ids)
        if sum(counts) >= 1 << 31:
            fail(2, f"{sum(counts)} tokens are more than llm.c's header can say: give fewer packages, or a larger --vocab-size")
        out.seek(0)
        out.write(struct.pack("<3i", LLMC_MAGIC, LLMC_VERSION, sum(counts)))
    return described(path, "llmc", sum(counts), counts[1], ["--data-vocab-size", str(tokenizer.get_vocab_size())])


def main():
    options = arguments()
    if options.vocab_size:
        try:
            import tokenizers
        except ImportError:
            fail(3, f"{sys.executable} has no module tokenizers: pip install tokenizers, or leave --vocab-size out")
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=options.output) as room, tempfile.TemporaryFile(dir=options.output) as stream:
            packages = [] if options.folders else download(options.packages.split(","), room)
            sources = ([files_of_folder(folder, options.output) for folder in options.folders.split(",")] if options.folders
                       else [files_of_package(file) for file, _, _ in packages])
            described_packages = {name: {"version": version, "sha256": digest_of(file)} for file, name, version in packages}
            ordered, left_out = documents(sources, stream)
            stream.flush()

            def read(place):
                stream.seek(place[1])
                return stream.read(place[2])

            training, held_out = divided(ordered, options.held_out * MB)
            files = [write_bytes(options.output / "bytes.txt", read, training, held_out)]
            if options.vocab_size:
                files.append(write_bpe(options.output, read, training, held_out, options.vocab_size))
    except (OSError, subprocess.CalledProcessError) as error:
        fail(5, f"{error}: make room in {options.output}, and start again")
    record = {"packages": described_packages,
              "folders": options.folders, "documents": len(ordered), "held_out_documents": len(held_out),
              "bytes": sum(size for _, _, size in ordered), "held_out_bytes": sum(size for _, _, size in held_out), "left_out": left_out,
              "tokenizers": tokenizers.__version__ if options.vocab_size else None, "files": files}
    (options.output / "corpus.json").write_text(json.dumps(record, indent=1) + "\n")
    print(f"{len(ordered)} documents, {record['bytes'] / MB:.1f} MB, of them {len(held_out)} held out, {record['held_out_bytes'] / MB:.1f} MB")
    for each in files:
        print(f"{each['file']}: {each['tokens']} tokens; zpp_train {' '.join(each['flags'])}")


if __name__ == "__main__":
    main()
