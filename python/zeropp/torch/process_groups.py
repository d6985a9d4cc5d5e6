"""Process groups of PyTorch as transports of the library: who is where, and what moves the bytes."""

import ctypes
import functools
import hashlib
import os
import socket
import weakref

import torch
import torch.distributed as dist

from zeropp.collectives import Communicator
from zeropp.library import Device, Transport, UsageError
from zeropp.torch import arguments


def ranks_of_a_node(node_size=None):
    """As given, or as the launcher says (LOCAL_WORLD_SIZE); None where nobody says it."""
    said = node_size if node_size is not None else os.environ.get("LOCAL_WORLD_SIZE")
    return None if said is None else int(said)


def nodes_of(carrier, node_size):
    """Which node each rank of a process group is on, as numbers; of None for `node_size` by the names of their hosts,
    which is collective. `carrier`: the group's _OverProcessGroup."""
    if node_size is not None:
        return [rank // node_size for rank in carrier.ranks]
    hosts = carrier.all_gather_bytes(hashlib.sha256(socket.gethostname().encode()).digest())
    return [hosts.index(host) for host in hosts]


def ranks_of_each(nodes, node_size):
    """Ranks that share a node, the same number on each. Raises UsageError where nodes hold different numbers of them,
    or hold them in another order than the process group's."""
    sizes = {nodes.count(node) for node in nodes}
    together = all(nodes[first:first + size] == [nodes[first]] * size
                   for size in sizes for first in range(0, len(nodes), size))
    if len(sizes) != 1 or not together:
        if node_size is not None and len(nodes) % node_size and nodes == sorted(nodes):
            fitting = " or ".join(str(size) for size in range(1, len(nodes) + 1) if len(nodes) % size == 0)
            raise UsageError(f"node_size {node_size} does not divide the {len(nodes)} ranks of a process group: choose {fitting} "
                             "(node_size= or LOCAL_WORLD_SIZE)")
        held = "are told apart by host names" if node_size is None else f"hold {node_size} ranks"
        raise UsageError(f"a process group has its ranks on nodes {nodes}: it needs as many of each node, one node after "
                         f"the other; the nodes {held} (node_size= or LOCAL_WORLD_SIZE)")
    return sizes.pop()


@functools.lru_cache(maxsize=4096)
def bytes_at(address, count, device):
    """Memory at an address as a tensor of bytes, which does not own it. Plans use the same memory again and again."""
    if device.type == "cpu":
        return torch.frombuffer((ctypes.c_char * count).from_address(address), dtype=torch.uint8)
    return torch.as_tensor(_DeviceMemory(address, count), device=device)


class _DeviceMemory:
    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "|u1", "version": 3}


class _OverProcessGroup:
    """Messages of a communicator over a process group: control messages, and with Transport.CALLBACKS the data."""

    def __init__(self, group, device):
        self.group, self.device = group, device
        self.ranks = dist.get_process_group_ranks(group)

    @functools.cached_property
    def _coalesces(self):
        """Asked when a message is sent: a group that sends none may have no back end for the device."""
        return getattr(self.group._get_backend(self.device), "supports_coalescing", False)

    def all_gather_bytes(self, part):
        mine = torch.frombuffer(bytearray(part), dtype=torch.uint8).to(self._control_device())
        parts = [torch.empty_like(mine) for _ in self.ranks]
        dist.all_gather(parts, mine, group=self.group)
        return [bytes(each.tolist()) for each in parts]  # PyTorch does not require NumPy

    def exchange(self, sends, receives, _):
        """On the current stream, which is the one that the library was given. It does what batch_isend_irecv() of
        torch.distributed does, without its checks, which take more of the host's time than the messages."""
        group = self.group
        if self._coalesces:
            group._start_coalescing(self.device)
        works = [call([bytes_at(address, count, self.device)], peer, 0)
                 for call, messages in ((group.send, sends), (group.recv, receives))
                 for address, count, peer in messages]
        if self._coalesces:
            works = [group._end_coalescing(self.device)]
        for work in works:
            work.wait()  # on GPUs the stream waits, not the host

    def _control_device(self):
        """Device of control messages: the host where the group has a back end for it, such as gloo."""
        try:
            self.group._get_backend(torch.device("cpu"))
        except RuntimeError:
            return self.device
        return torch.device("cpu")


class RankSet:
    """Ranks that several process groups may have in common: FSDP2 makes a group for each module that reshards after
    forward to a number of ranks. They share one communicator of the library, and gathers of PyTorch's go over the first
    of the groups."""

    def __init__(self, group, device, nodes, node_size, make_communicator):
        self.group = group
        self.size = group.size()
        self._carrier = _OverProcessGroup(group, device)
        self.node_size = ranks_of_each(nodes, node_size)
        self.inside_a_node = len(set(nodes)) == 1
        self._make_communicator = make_communicator
        self._communicator = None

    @property
    def communicator(self):
        """Made by all ranks when a plan first needs it. No lock is held meanwhile, as that of functools.cached_property
        would be: ranks that are threads of one process would wait for each other."""
        if self._communicator is None:
            self._communicator = self._make_communicator(self, self._carrier)
        return self._communicator

    def ring_between_nodes(self, bytes_):
        """Bytes that a rank sends between nodes, as a mean over ranks, where each sends so many along a ring: only the
        last of a node's ranks has its next on another node."""
        return 0 if self.inside_a_node else bytes_ / self.node_size

    def close(self):
        """Ends the communicator, after its plans; the next plan makes another."""
        if self._communicator is not None:
            self._communicator.close()
            self._communicator = None

    def hop_codecs(self, inside, between):
        """The codecs of a reduction's plan, and of its second hop, of those inside a node and between nodes. Where
        there is one level only there is one hop, and it has the codec of its links."""
        if self.node_size not in (1, self.size):
            return inside, between
        return (inside if self.inside_a_node else between), None

    def plan_all_reduce(self, count, dtype, codecs, **options):
        """`codecs`: of the hops, as of hop_codecs()."""
        codec, codec_between_nodes = codecs
        return self.communicator.plan_all_reduce(count, dtype, codec, codec_between_nodes=codec_between_nodes,
                                                 **options)


class Parts:
    """Process groups of the ranks of the own node, and of the own rail, of a process group over several nodes. All
    calls of compress() over that group share them: those of a model that ends as garbage stay, since only all ranks
    together may end them, and serve the next model."""

    _of_groups = weakref.WeakKeyDictionary()  # {node size: Parts} by process group

    def __init__(self, group, node_size):
        self.group, self.node_size, self.users = weakref.ref(group), node_size, 0
        members, mine = dist.get_process_group_ranks(group), group.rank()
        node = mine // node_size * node_size
        self.groups = [dist.new_group(part, use_local_synchronization=True)
                       for part in (members[node:node + node_size], members[mine % node_size::node_size])]

    @classmethod
    def of(cls, group, node_size):
        made = cls._of_groups.setdefault(group, {})
        if node_size not in made:
            made[node_size] = cls(group, node_size)
        return made[node_size]

    def leave(self):
        self.users -= 1
        if self.users == 0:
            del self._of_groups[self.group()][self.node_size]
            for group in self.groups:
                dist.destroy_process_group(group)


class Communicators:
    """The communicators of one call of compress()."""

    def __init__(self, node_size=None, transport="torch", rail_lanes=0, copy_engines=-1):
        if transport not in ("torch", "nccl"):
            raise UsageError(f"transport '{transport}' is unknown: torch or nccl")
        if node_size is not None:
            ranks = dist.get_world_size()
            arguments.number("node_size", node_size, 1,
                             f"the number of ranks per node, from 1 to the {ranks} ranks of this job", below=ranks + 1)
        if transport != "nccl" and (rail_lanes, copy_engines) != (0, -1):
            raise UsageError(f"rail_lanes= and copy_engines= have no effect with transport='{transport}': choose "
                             "transport='nccl', or leave them out")
        arguments.number("rail_lanes", rail_lanes, 0,
                         "a number of communicators for each pair of nodes, 0 to let the library choose")
        arguments.number("copy_engines", copy_engines, -1,
                         "1 for copy engines inside nodes, 0 for none, or -1 to let the library choose", below=2)
        self.node_size = node_size
        self.transport = transport
        self.options = {"rail_lanes": rail_lanes, "copy_engines": copy_engines} if transport == "nccl" else {}
        self.of_groups, self.of_ranks = {}, {}  # RankSets
        self._parts = {}  # by RankSet: those of the own node, and of the own rail
        self._used = []  # the Parts of these
        self._nodes = {}  # of process groups

    def nodes_of(self, group, device):
        """Which node each rank of a process group is on, as numbers. The first call for a group may be collective."""
        if group not in self._nodes:
            self._nodes[group] = nodes_of(_OverProcessGroup(group, device), ranks_of_a_node(self.node_size))
        return self._nodes[group]

    def inside_a_node(self, group, device):
        return len(set(self.nodes_of(group, device))) == 1

    def ranks_of(self, group, device, apart=False):
        """The RankSet of a process group. `apart`: the group is there to run beside another of the same ranks, so that
        it gets a communicator of its own."""
        found = self.of_groups.get(group)
        if found is None:
            if self.transport == "nccl" and device.type != "cuda":
                raise UsageError(f"transport 'nccl' moves memory of GPUs, not of {device.type}: choose transport='torch'")
            key = (device, apart, *dist.get_process_group_ranks(group))
            if key not in self.of_ranks:
                self.of_ranks[key] = RankSet(group, device, self.nodes_of(group, device),
                                             ranks_of_a_node(self.node_size), self._communicator)
            found = self.of_groups[group] = self.of_ranks[key]
        return found

    def node_of(self, ranks, device):
        """The RankSet of the own node's ranks, of several nodes'."""
        return self._parts_of(ranks, device)[0]

    def rail_of(self, ranks, device):
        """The RankSet of the ranks that have the own number in their nodes."""
        return self._parts_of(ranks, device)[1]

    def _parts_of(self, ranks, device):
        """The first call for `ranks` may be collective."""
        if ranks not in self._parts:
            parts = Parts.of(ranks.group, ranks.node_size)
            parts.users += 1
            self._used.append(parts)
            self._parts[ranks] = [self.ranks_of(group, device) for group in parts.groups]
        return self._parts[ranks]

    def close(self):
        for ranks in self.of_ranks.values():
            ranks.close()
        for parts in self._used:
            parts.leave()

    def _communicator(self, ranks, carrier):
        return Communicator(
            ranks.group.rank(), ranks.size, ranks.node_size, carrier,
            device=Device.CUDA if carrier.device.type == "cuda" else Device.HOST,
            transport=Transport.NCCL if self.transport == "nccl" else Transport.CALLBACKS, **self.options)


def stream_of(device):
    """The current stream as the library takes it."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
