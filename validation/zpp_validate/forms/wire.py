"""Bytes that one wire image has and one collective sends, by the rules of lib/trace/README.md.

Shares nothing with the library. All byte counts are sums over ranks, as Bytes(intra, inter): sent to
another rank of the same node, sent across nodes. Source: ZeRO++ (arXiv 2306.10209), section 3.
"""

from collections import Counter
from dataclasses import dataclass

from zpp_validate.problem import Unfit


def ceil_to(value, multiple):
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Bytes:
    intra: int = 0
    inter: int = 0

    def __add__(self, other):
        return Bytes(self.intra + other.intra, self.inter + other.inter)

    def __mul__(self, times):
        return Bytes(self.intra * times, self.inter * times)


@dataclass(frozen=True)
class Topology:
    """`nodes[r]` is the node of rank r; ranks are grouped by node."""

    nodes: tuple

    @classmethod
    def uniform(cls, node_count, ranks_per_node):
        return cls(tuple(r // ranks_per_node for r in range(node_count * ranks_per_node)))

    @property
    def size(self):
        return len(self.nodes)

    @property
    def node_count(self):
        return len(set(self.nodes))

    @property
    def ranks_per_node(self):
        """Number of ranks per node; None where nodes differ."""
        sizes = set(Counter(self.nodes).values())
        return sizes.pop() if len(sizes) == 1 else None

    def sent(self, source, target, count):
        if source == target:
            return Bytes()
        return Bytes(intra=count) if self.nodes[source] == self.nodes[target] else Bytes(inter=count)


# Wire images -------------------------------------------------------------------------------------

# By format: bytes per value of the casts; (bits per value, bytes per scale) of the others. `none` sends the compute
# dtype.
CASTS = {"none": None, "bf16": 2, "fp16": 2}
SCALED = {f"int{bits}": (bits, 2) for bits in range(2, 9)} | {
    "fp8e4m3": (8, 2), "fp8e5m2": (8, 2), "mxfp8": (8, 1), "mxfp6": (6, 1), "mxfp4": (4, 1), "nvfp4": (4, 1)}
# Bytes of the scale of the whole image, which is stored after the other scales.
IMAGE_SCALE = {"nvfp4": 16}
# Options of the integer codecs, with the factor of each on the bytes of a scale.
OPTIONS = {"asym": 2, "had32": 1, "s32": 2, "sr": 1, "wide": 1}


def parse_codec(codec):
    """'int8:256+s32' -> ('int8', 256, ['s32']); the block, of values that share a scale, is 1 for casts."""
    head, *options = codec.split("+")
    name, _, block = head.partition(":")
    if name in CASTS and not block and not options:
        return name, 1, options
    if name in SCALED and block.isdigit() and int(block) > 0:
        if not options or (name.startswith("int") and set(options) <= set(OPTIONS)):
            return name, int(block), options
    raise Unfit(f"no closed form for the codec {codec!r}")


def codec_block(codec):
    return parse_codec(codec)[1]


def wire_bytes(codec, count, element_bytes):
    """Bytes of the image of `count` values; `element_bytes`: bytes per value that `none` sends."""
    name, block, options = parse_codec(codec)
    if name in CASTS:
        return ceil_to(count * (CASTS[name] or element_bytes), 16)
    bits, scale_bytes = SCALED[name]
    for option in options:
        scale_bytes *= OPTIONS[option]
    blocks = -(-count // block)
    image_scale = IMAGE_SCALE.get(name, 0) if count else 0
    return ceil_to(-(-blocks * block * bits // 8), 16) + ceil_to(blocks * scale_bytes, 16) + image_scale


# Collectives -------------------------------------------------------------------------------------

# The vendor chooses the route: the trace has the bytes of a ring, and says so.
MODELLED = ("native", "native-images")
# Algorithms that send a part in one piece at any pipeline depth.
UNCUT = ("native",)


def ring(topology, image, group=None):
    """Every rank of `group` sends size - 1 images to the next."""
    group = list(range(topology.size)) if group is None else group
    total = Bytes()
    for i, rank in enumerate(group):
        total += topology.sent(rank, group[(i + 1) % len(group)], (len(group) - 1) * image)
    return total


def all_to_all(topology, image, group=None):
    """Every rank of `group` sends one image to each other."""
    sizes = Counter(topology.nodes if group is None else (topology.nodes[rank] for rank in group)).values()
    inside = sum(size * (size - 1) for size in sizes)
    return Bytes(inside, sum(sizes) ** 2 - sum(size**2 for size in sizes)) * image


def pieces(count, depth, block):
    """Number of pieces of a part of `count` values, at most `depth`: a piece has 16 blocks or more."""
    return min(depth, -(-count // (16 * block)))


def messages(topology, algorithm, number, group=None):
    """Messages that carry a part in `number` pieces, inside and across nodes; a ring's for the vendor's algorithms."""
    if algorithm in ("flat", *MODELLED):
        return ring(topology, number, group)
    if algorithm in ("two-level", "2-hop"):
        nodes, local = equal_nodes(topology, algorithm)
        return Bytes((local - 1) * number, (nodes - 1) * number) * topology.size
    return all_to_all(topology, number, group)


def equal_nodes(topology, algorithm):
    if topology.ranks_per_node is None:
        raise Unfit(f"{algorithm} on nodes of unequal size")
    return topology.node_count, topology.ranks_per_node


def all_gather(topology, algorithm, codec, count, element_bytes):
    """Bytes of an all-gather of `count` values per rank, over the world."""
    return gather_images(topology, algorithm, wire_bytes(codec, count, element_bytes))


def gather_images(topology, algorithm, image):
    """Bytes of an all-gather of an image of so many bytes per rank, over the world."""
    if algorithm in ("flat", *MODELLED):
        return ring(topology, image)
    if algorithm == "direct":
        return all_to_all(topology, image)
    if algorithm == "two-level":
        nodes, local = equal_nodes(topology, algorithm)
        return Bytes((local - 1) * nodes * image, (nodes - 1) * image) * topology.size
    raise Unfit(f"no closed form for the all-gather {algorithm!r}")


def reduce_scatter(topology, algorithm, codecs, count, element_bytes):
    """Bytes of a reduce-scatter of parts of `count` values; `codecs`: of the first and second hop."""
    padded = ceil_to(count, max(map(codec_block, codecs)))
    image = wire_bytes(codecs[0], padded, element_bytes)
    if algorithm in ("flat", "native"):
        return ring(topology, image)
    if algorithm in ("ordered", "1-hop"):
        return all_to_all(topology, image)
    if algorithm == "2-hop":
        nodes, local = equal_nodes(topology, algorithm)
        first = wire_bytes(codecs[0], nodes * padded, element_bytes)
        second = wire_bytes(codecs[1], padded, element_bytes)
        return Bytes((local - 1) * first, (nodes - 1) * second) * topology.size
    raise Unfit(f"no closed form for the reduce-scatter {algorithm!r}")


def reduction_codec(topology, algorithm, codecs):
    """The codecs that run: both only where there are two hops."""
    if algorithm != "2-hop":
        return codecs[0]
    nodes, local = equal_nodes(topology, algorithm)
    if nodes == 1:
        return codecs[0]
    return codecs[1] if local == 1 else "/".join(codecs)


def secondary_gather(topology, algorithm, partition, count, element_bytes):
    """Bytes of hpZ's gather inside each group of `partition` consecutive ranks."""
    image = wire_bytes("none", count, element_bytes)
    along = ring if algorithm in ("flat", *MODELLED) else all_to_all
    return sum((along(topology, image, group) for group in groups_of(topology, partition)), Bytes())


def along_rails(topology, number):
    """Every rank sends `number` bytes, or messages, to each of the ranks with its number in the other nodes."""
    nodes, local = equal_nodes(topology, "weight differences")
    return Bytes(inter=local * nodes * (nodes - 1) * number)


EXACT_BLOCK = 1024  # values of exact differences that share an offset of their escapes


def exact_bytes(count, width, escapes):
    """Bytes of the image of `count` exact differences in codes of `width` bits, with room for `escapes` values beside
    them: whole blocks of codes, an offset of 32 bits for each, 16 bits for each escape. Width 0: nothing differs; 16:
    the values as they are."""
    if width in (0, 16):
        return ceil_to(count * width // 8, 16)
    blocks = -(-count // EXACT_BLOCK)
    return EXACT_BLOCK // 8 * width * blocks + ceil_to(4 * blocks, 16) + ceil_to(2 * escapes, 16)


def exact_shape_of_bits(count, bits):
    """The width and escapes that plans assume of exact differences of so many bits each."""
    if bits >= 16:
        return 16, 0
    width = min(8, max(1, int(bits)))
    shape = width, int(max(0, bits - width) / 16 * count)
    return shape if exact_bytes(count, *shape) < exact_bytes(count, 16, 0) else (16, 0)


def secondary_messages(topology, algorithm, partition, number):
    return sum((messages(topology, algorithm, number, group) for group in groups_of(topology, partition)), Bytes())


def groups_of(topology, partition):
    return (range(begin, begin + partition) for begin in range(0, topology.size, partition))
