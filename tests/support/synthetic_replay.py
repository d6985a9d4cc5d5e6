"""The bytes that the run of a synthetic trace sends, replayed collective by collective, independent of the closed
forms. `c`: a case of synthetic_cases.py with its defaults. Counts are in elements."""

from dataclasses import dataclass

from synthetic_memory import updates_write_images
from synthetic_network import Network, up

TENSORS = [[97 * 16, 33], [640, 640, 7], [641, 63, 128], [16]]  # elements, by unit
LAYERS = [[0], [1], [2], [3, 0]]  # units that each uses
FLAT = [sum(up(elements, 64) for elements in unit) for unit in TENSORS]


@dataclass
class Shape:
    """Sizes that follow from a case."""

    ranks: int
    nodes: list  # of each rank
    element: int  # bytes, of the compute dtype
    group: int  # ranks that share a copy of the model
    shard: list  # by unit
    codecs: tuple  # of gradients, in the first and second hop
    parts: list  # of each reduction the elements that a rank has of each unit in it

    @property
    def copies(self):
        return self.ranks // self.group

    @property
    def among(self):
        """The group of ranks that share a copy, as /collectives calls it."""
        return "world" if self.copies == 1 else "shard"

    def updated(self, stage):
        """Elements of each unit that a rank's optimizer updates."""
        return [size * (self.ranks if stage == 0 else 1) for size in self.shard]


def shape_of(c):
    ranks = c["nodes"] * c["local"]
    element = 2 if c["bf16"] or c["fp16"] else 4
    group = c["shard"] or ranks
    multiple = 64 if c["moments"] == "int8" else 16 // element
    shard = [ranks // group * up((flat + ranks - 1) // ranks, multiple) for flat in FLAT]
    return Shape(ranks, [rank // c["local"] for rank in range(ranks)], element, group, shard,
                 c["codecs"][1:] if c["qgz"] else ("none", "none"), parts_of(c, shard, group))


def parts_of(c, shard, group):
    """Buckets: unit 0 is used again by the last layer, and finishes first in forward."""
    quantum = 8 * (max(int(codec.split(":")[1]) for codec in c["codecs"][1:]) if c["qgz"] else 1)
    capacity = max(quantum, c["bucket"] // group // quantum * quantum)
    parts = [[]]
    for unit in (3, 2, 1, 0):
        left = shard[unit]
        if parts[-1] and sum(parts[-1]) + left > capacity:
            parts.append([])
        while left > capacity:
            parts[-1:] = [[capacity], []]
            left -= capacity
        parts[-1].append(left)
    return parts


class Replay:
    """After run(): `net.rows` of /collectives, `steps` ([bytes inside a node, across nodes] of each), `gathers` (of
    each unit from the shards of all ranks, in steps), and `made` (counters of a rank)."""

    def __init__(self, c, shape):
        self.c, self.shape = c, shape
        self.net = Network(shape.nodes, c["hpz"], shape.group)
        self.steps, self.gathers = [], [0] * len(TENSORS)
        self.fresh, self.imaged = set(), set()  # units whose secondary shard, whose image is of the current weights
        self.made = {"weight_images_by_updates": 0, "weight_images_encoded": 0}

    def run(self):
        if self.c["stage"] in (1, 2):
            self.gather_everything("initial")
        for step, skipped in enumerate(self.c["skipped"]):
            self.evaluate(step)
            before = self.net.total()
            self.step(skipped)
            self.steps.append([now - then for now, then in zip(self.net.total(), before)])
        self.evaluate(len(self.steps))
        return self

    def step(self, skipped):
        c = self.c
        for micro in range(c["micro"]):
            if c["stage"] == 3:
                self.use("forward")
                self.use("backward")
            if c["stage"] >= 2 or micro == 0:
                for part in self.shape.parts:
                    self.reduce(part, last=micro + 1 == c["micro"])
        if not skipped:
            self.update()

    def update(self):
        self.fresh.clear()
        if self.c["images"]:
            self.imaged = set(range(len(TENSORS)))
            self.made["weight_images_by_updates" if updates_write_images(self.c) else "weight_images_encoded"] += 4
        if self.c["stage"] in (1, 2):
            self.gather_everything("update")

    def evaluate(self, step):
        for before, batches in [*self.c["evaluations"], (len(self.c["skipped"]), self.c["cut_off"])]:
            if before == step and self.c["stage"] == 3:
                for _ in range(batches):
                    self.use("evaluation")

    def use(self, phase):
        """Every layer once."""
        for layer in LAYERS:
            for unit in layer:
                if unit in self.fresh:
                    self.gather_secondary(unit, phase)
                else:
                    self.gather(unit, phase)

    def gather_secondary(self, unit, phase):
        partition = self.c["hpz"]
        count = self.shape.shard[unit] * self.shape.ranks // partition
        self.net.begin("all_gather", "weights_secondary", phase, "flat", "none", "secondary",
                       part=count * self.shape.element)
        for begin in range(0, self.shape.ranks, partition):
            self.net.gather("flat", "none", count, self.shape.element, list(range(begin, begin + partition)))

    def gather(self, unit, phase):
        c, shape = self.c, self.shape
        codec = c["codecs"][0] if c["qwz"] else "none"
        self.net.begin("all_gather", "weights", phase, c["gather"], codec, shape.among,
                       part=shape.shard[unit] * shape.element)
        for ranks in self.net.shard_groups():
            self.net.gather(c["gather"], codec, shape.shard[unit], shape.element, ranks)
        self.gathers[unit] += phase != "evaluation"
        if c["images"] and unit not in self.imaged:
            self.imaged.add(unit)
            self.made["weight_images_encoded"] += 1
        if c["hpz"] > 1:
            self.fresh.add(unit)

    def gather_everything(self, phase):
        for size in self.shape.shard:
            self.net.begin("all_gather", "weights", phase, self.c["gather"], "none", "world",
                           part=size * self.shape.element)
            self.net.gather(self.c["gather"], "none", size, self.shape.element)

    def reduce(self, part, last):
        """A bucket; `last`: in the last micro-step, after which shard groups sum theirs."""
        c, shape, element = self.c, self.shape, self.shape.element
        self.net.begin("reduce_scatter", "gradients", "backward", c["reduce"], self.codec_that_ran(), shape.among,
                       part=sum(part) * element)
        for ranks in self.net.shard_groups():
            self.net.reduce(c["reduce"], shape.codecs, sum(part), element, ranks)
        if shape.copies > 1 and last:
            self.sum_across(part)
        if c["stage"] == 0:
            self.net.begin("all_gather", "gradients", "backward", c["gather"], "none", "world", part=sum(part) * 4)
            self.net.gather(c["gather"], "none", sum(part), 4)

    def codec_that_ran(self):
        """The codec of reductions: both codecs only if both hops are taken."""
        first, second = self.shape.codecs
        two = self.c["reduce"] == "2-hop" and len(set(self.shape.nodes[:self.shape.group])) > 1
        return f"{first}/{second}" if two and self.c["local"] > 1 else second if two else first

    def sum_across(self, part):
        """Over shard groups; without a codec the fp32 sums go back in the compute dtype."""
        c, element, codec = self.c, self.shape.element, self.shape.codecs[1]
        of_sums = codec if codec != "none" or element == 4 else "bf16" if c["bf16"] else "fp16"
        count = up(-(-sum(part) // self.shape.copies), 16 // element)
        block = 1 if codec == "none" else int(codec.split(":")[1])
        self.net.begin("reduce_scatter", "gradients_across", "backward", "1-hop", codec, "replica",
                       part=count * element)
        self.net.across(codec, up(count, block), element)
        self.net.begin("all_gather", "gradients_across", "backward", "direct", of_sums, "replica", part=count * 4)
        self.net.across(of_sums, count, 4)
