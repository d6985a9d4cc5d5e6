"""Kept wire images of the own shards of weights: which of them are made when, and by what; and the tables by which
updates write them. By the rules of lib/trace/README.md; shares nothing with the library. Source of the images:
zeropp.keep_weight_images."""

from zpp_validate.forms.wire import parse_codec

TILE = 4096  # weights that are updated and encoded together
TILE_BYTES, PIECE_BYTES = 40, 72  # of an entry of the tables: of a tile, and of what it has of one tensor
BLOCKS = (32, 64, 128, 256, 512, 1024)
FUSED_MOMENTS = 2  # that an optimizer keeps whose updates write images


def is_fused(codec):
    """Updates write images of this codec themselves."""
    name, block, options = parse_codec(codec)
    return name in ("int4", "int8") and not options and block in BLOCKS


def chunks(count, depth, block):
    """(first, length) of the pieces of a part, each an image of its own: they begin at multiples of 16 blocks."""
    quantum = 16 * block
    units = -(-count // quantum)
    number = min(depth, units)
    ends = [min(count, units * i // number * quantum) for i in range(number + 1)] if number else []
    return [(first, last - first) for first, last in zip(ends, ends[1:])]


def table_bytes(tensors, first, length):
    """Bytes of the table of one chunk, elements [first, first + length) of the unit; `tensors`: (offset, elements) of
    the unit's tensors."""
    pieces = 0
    for offset, elements in tensors:
        begin, end = max(offset, first) - first, min(offset + elements, first + length) - first
        if begin < end:
            pieces += (end - 1) // TILE - begin // TILE + 1
    return PIECE_BYTES * pieces + TILE_BYTES * -(-length // TILE)


class KeptImages:
    """Weight images that one rank keeps, through a run."""

    def __init__(self, by_updates):
        """`by_updates`: the optimizer has updates that write images."""
        self.by_updates = by_updates
        self.version = 0
        self.kept = {}
        self.written = self.encoded = 0

    def gathered(self, unit, codec):
        """A gather of the unit starts from its image, which is made where what is kept is of other weights or of
        another codec."""
        if codec != "none" and self.kept.get(unit) != (self.version, codec):
            self.kept[unit] = self.version, codec
            self.encoded += 1

    def updated(self, codecs):
        """A step is taken; `codecs`: {unit: that it has in force}, of the units that have an image."""
        self.version += 1
        for unit, codec in codecs.items():
            if codec == "none":
                continue
            self.kept[unit] = self.version, codec
            if self.by_updates and is_fused(codec):
                self.written += 1
            else:
                self.encoded += 1

    def counters(self):
        return {"weight_images_by_updates": self.written, "weight_images_encoded": self.encoded}
