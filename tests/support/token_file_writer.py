"""Files of token ids as llm.c and Megatron-LM write them, by NumPy: their formats from those projects' own writers
(dev/data/data_common.py, megatron/core/datasets/indexed_dataset.py), and nothing of the library's reader."""

import pathlib

import numpy

LLMC = {"gpt-2": (20240520, 1, numpy.uint16), "llama-3": (20240801, 7, numpy.uint32)}
MEGATRON = {numpy.uint8: 1, numpy.int8: 2, numpy.int16: 3, numpy.int32: 4, numpy.int64: 5, numpy.float64: 6,
            numpy.float32: 7,
            numpy.uint16: 8}


def llmc(ids, model="gpt-2"):
    magic, version, dtype = LLMC[model]
    header = numpy.zeros(256, numpy.int32)
    header[:3] = magic, version, len(ids)
    return header.tobytes() + numpy.asarray(ids).astype(dtype).tobytes()


def megatron(documents, dtype):
    """(index, ids) of documents, each a list of sequences of ids."""
    sequences = [numpy.asarray(sequence).astype(dtype) for document in documents for sequence in document]
    lengths = numpy.array([len(sequence) for sequence in sequences], numpy.int32)
    pointers = numpy.concatenate([[0],
                                  numpy.cumsum([sequence.nbytes for sequence in sequences])[:-1]]).astype(numpy.int64)
    ends = numpy.cumsum([0] + [len(document) for document in documents]).astype(numpy.int64)
    head = (b"MMIDIDX\x00\x00" + numpy.uint64(1).tobytes() + numpy.uint8(MEGATRON[dtype]).tobytes() +
            numpy.uint64(len(sequences)).tobytes() + numpy.uint64(len(ends)).tobytes())
    return head + lengths.tobytes() + pointers.tobytes() + ends.tobytes(), b"".join(sequence.tobytes()
                                                                                    for sequence in sequences)


def write_megatron(prefix, documents, dtype):
    index, ids = megatron(documents, dtype)
    pathlib.Path(f"{prefix}.idx").write_bytes(index)
    pathlib.Path(f"{prefix}.bin").write_bytes(ids)
