#!/usr/bin/env python3
"""Cuts a smaller corpus out of one that corpus.py has made, for a machine that the whole one is too large for.

usage: jobscripts/local/corpus_part.py DIR --trained N --held-out N --output FILE

Takes the first N tokens that are trained on and the first N of those held out, from DIR/bpe.bin and DIR/corpus.json.
Prints the SHA-256 of FILE and the flags of zpp_train that hold out the held-out part.
Exit codes: 0 done; 2 usage, which includes more tokens than there are; 5 a file cannot be read or written.
"""

import argparse
import json
import pathlib
import struct

import corpus

TOKEN, CHUNK = 2, 1 << 24  # bytes of a token, and of a copy


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, usage=argparse.SUPPRESS)
    parser.add_argument("folder", type=pathlib.Path, metavar="DIR", help="the output folder of corpus.py --vocab-size")
    parser.add_argument("--trained", type=int, required=True, metavar="N", help="tokens to train on")
    parser.add_argument("--held-out", type=int, required=True, metavar="N", help="held-out tokens")
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="FILE")
    options = parser.parse_args()
    if min(options.trained, options.held_out) < 1:
        parser.error("--trained and --held-out: give at least 1 token")
    return options


def copy(source, first, tokens, out):
    """Tokens of the token file `source`, from number `first` on."""
    source.seek(4 * corpus.LLMC_HEADER + TOKEN * first)
    left = TOKEN * tokens
    while left:
        piece = source.read(min(CHUNK, left))
        if not piece:
            raise OSError(f"{source.name} ends before the tokens that corpus.json names")
        out.write(piece)
        left -= len(piece)


def main():
    options = arguments()
    part = options.output.with_name(f"{options.output.name}.part")  # its name until it is whole
    try:
        if options.output.resolve() == (options.folder / "bpe.bin").resolve():
            corpus.fail(2, f"--output {options.output} is the corpus itself: give another name")
        record = json.loads((options.folder / "corpus.json").read_text())
        whole = next((each for each in record["files"] if each["file"] == "bpe.bin"), None)
        if whole is None:
            corpus.fail(2, f"{options.folder} has no bpe.bin: run corpus.py with --vocab-size")
        held_out = whole["held_out_tokens"]
        training = whole["tokens"] - held_out
        for name, asked, there in (("--trained", options.trained, training), ("--held-out", options.held_out, held_out)):
            if asked > there:
                corpus.fail(2, f"{name} {asked}: the corpus has {there} such tokens: give fewer")
        tokens = options.trained + options.held_out
        with (options.folder / "bpe.bin").open("rb") as source, part.open("wb") as out:
            out.write(struct.pack("<3i", corpus.LLMC_MAGIC, corpus.LLMC_VERSION, tokens).ljust(4 * corpus.LLMC_HEADER, b"\0"))
            copy(source, 0, options.trained, out)
            copy(source, training, options.held_out, out)
        part.replace(options.output)
    except (OSError, ValueError, KeyError) as error:
        part.unlink(missing_ok=True)
        corpus.fail(5, f"{error}: make the corpus again with corpus.py, or make room for {options.output}")
    vocabulary = whole["flags"][whole["flags"].index("--data-vocab-size"):]
    flags = ["--data-source", "llmc", "--data-path", str(options.output),
             "--held-out-fraction", repr(corpus.fraction(options.held_out, tokens)), *vocabulary]
    print(f"{options.output}: SHA-256 {corpus.digest_of(options.output)}")
    print(f"{tokens} tokens; zpp_train {' '.join(flags)}")


if __name__ == "__main__":
    main()
