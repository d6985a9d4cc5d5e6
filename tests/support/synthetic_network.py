"""A count of what collectives send, message by message, written apart from the closed forms. Bytes, sums over ranks."""


def up(value, multiple):
    return (value + multiple - 1) // multiple * multiple


def image(codec, count, element):
    """Bytes of one wire image, block by block."""
    if codec == "none":
        return up(count * element, 16)
    if codec in ("bf16", "fp16"):
        return up(count * 2, 16)
    bits, block = (int(x) for x in codec[3:].split(":"))
    payload = scales = 0
    for _ in range(0, count, block):
        payload += block * bits // 8
        scales += 2
    return up(payload, 16) + up(scales, 16)


class Network:
    """Sends messages one by one and adds them up, in the row that is being written."""

    def __init__(self, nodes, secondary, shard):
        self.nodes, self.secondary, self.shard, self.rows = nodes, secondary, shard, {}

    def begin(self, *key, part):
        """Counts one more run of operation, purpose, phase, algorithm, codec and group; `part`: bytes that each rank
        of the group has, uncompressed, for each other."""
        self.row = self.rows.setdefault(key, [0, 0, 0, 0])
        self.row[2] += 1
        n = len(self.nodes)
        group_of = {"world": lambda rank: 0, "secondary": lambda rank: rank // self.secondary,
                    "shard": lambda rank: rank // self.shard, "replica": lambda rank: rank % self.shard}[key[5]]
        for rank in range(n):
            for other in range(n):
                if rank != other and group_of(rank) == group_of(other):
                    self.row[3] += part

    def shard_groups(self):
        return [range(begin, begin + self.shard) for begin in range(0, len(self.nodes), self.shard)]

    def send(self, source, target, count):
        self.row[0 if self.nodes[source] == self.nodes[target] else 1] += count

    def gather(self, algorithm, codec, count, element, group=None):
        group = group or range(len(self.nodes))
        bytes_ = image(codec, count, element)
        if algorithm == "flat":
            for i, rank in enumerate(group):
                for _ in range(len(group) - 1):
                    self.send(rank, group[(i + 1) % len(group)], bytes_)
        else:
            local = self.nodes.count(0)
            held = {r: 1 for r in group}
            for r in group:
                for other in group:
                    if other != r and other % local == r % local:
                        self.send(r, other, bytes_)
                        held[other] += 1
            for r in group:
                for other in group:
                    if other != r and self.nodes[other] == self.nodes[r]:
                        self.send(r, other, held[r] * bytes_)

    def reduce(self, algorithm, codecs, count, element, group):
        block = max(1 if c == "none" else int(c.split(":")[1]) for c in codecs)
        count = up(count, block)
        if algorithm == "flat":
            return self.gather("flat", codecs[0], count, element, group)
        local = self.nodes.count(0)
        for r in group:
            for other in group:
                if r == other:
                    continue
                if algorithm != "2-hop":
                    self.send(r, other, image(codecs[0], count, element))
                elif self.nodes[r] == self.nodes[other]:
                    self.send(r, other, image(codecs[0], len({self.nodes[rank] for rank in group}) * count, element))
                elif r % local == other % local:
                    self.send(r, other, image(codecs[1], count, element))
        return None

    def across(self, codec, count, element):
        """Sends an image to each replica, which has the same place in another shard group."""
        for r in range(len(self.nodes)):
            for other in range(r % self.shard, len(self.nodes), self.shard):
                if other != r:
                    self.send(r, other, image(codec, count, element))

    def total(self):
        return [sum(row[i] for row in self.rows.values()) for i in (0, 1)]
