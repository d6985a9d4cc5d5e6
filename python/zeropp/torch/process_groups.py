"""Process groups of PyTorch as transports of the library: who is where, and what moves the bytes."""

import ctypes
import os

import torch
import torch.distributed as dist

from zeropp.collectives import Communicator
from zeropp.library import Device, Transport, UsageError


def ranks_of_a_node(node_size=None):
    """Ranks of a node: as given, as the launcher says (LOCAL_WORLD_SIZE), or the whole job on one node."""
    if node_size is not None:
        return int(node_size)
    return int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))


def node_size_of(group, node_size):
    """Ranks of `group` that share a node, the same number on each. Raises UsageError where nodes hold different numbers of
    its ranks, or hold them in another order than the group's."""
    nodes = [rank // node_size for rank in dist.get_process_group_ranks(group)]
    sizes = {nodes.count(node) for node in nodes}
    together = all(nodes[first:first + size] == [nodes[first]] * size
                   for size in sizes for first in range(0, len(nodes), size))
    if len(sizes) != 1 or not together:
        if len(nodes) % node_size and nodes == sorted(nodes):
            fitting = " or ".join(str(size) for size in range(1, len(nodes) + 1) if len(nodes) % size == 0)
            raise UsageError(f"node_size {node_size} does not divide the {len(nodes)} ranks of a process group: choose {fitting} "
                             "(node_size= or LOCAL_WORLD_SIZE)")
        raise UsageError(f"a process group has its ranks on nodes {nodes}: it needs as many of each node, one node after "
                         f"the other; the nodes hold {node_size} ranks (node_size= or LOCAL_WORLD_SIZE)")
    return sizes.pop()


def inside_a_node(group, node_size):
    return len({rank // node_size for rank in dist.get_process_group_ranks(group)}) == 1


def bytes_at(address, count, device):
    """Memory at an address as a tensor of bytes, which does not own it."""
    if device.type == "cpu":
        return torch.frombuffer((ctypes.c_char * count).from_address(address), dtype=torch.uint8)
    return torch.as_tensor(_DeviceMemory(address, count), device=device)


class _DeviceMemory:
    def __init__(self, address, count):
        self.__cuda_array_interface__ = {"data": (address, False), "shape": (count,), "typestr": "|u1", "version": 3}


class _OverProcessGroup:
    """What a communicator borrows of a process group: control messages, and with Transport.CALLBACKS the data."""

    def __init__(self, group, device):
        self.group, self.device = group, device
        self.ranks = dist.get_process_group_ranks(group)

    def all_gather_bytes(self, part):
        mine = torch.frombuffer(bytearray(part), dtype=torch.uint8).to(self._control_device())
        parts = [torch.empty_like(mine) for _ in self.ranks]
        dist.all_gather(parts, mine, group=self.group)
        return [each.cpu().numpy().tobytes() for each in parts]

    def exchange(self, sends, receives, _):
        """On the current stream, which is the one that the library was given."""
        operations = [dist.P2POp(function, bytes_at(address, count, self.device), self.ranks[peer], self.group)
                      for function, messages in ((dist.isend, sends), (dist.irecv, receives))
                      for address, count, peer in messages]
        if operations:
            for work in dist.batch_isend_irecv(operations):
                work.wait()  # on GPUs the stream waits, not the host

    def _control_device(self):
        """Of control messages: the host where the group has a back end for it, such as gloo."""
        try:
            self.group._get_backend(torch.device("cpu"))
        except RuntimeError:
            return self.device
        return torch.device("cpu")


class Communicators:
    """The communicators of one call of compress(), made when a process group is first used."""

    def __init__(self, node_size=None, transport="torch", rail_lanes=0, copy_engines=-1):
        if transport not in ("torch", "nccl"):
            raise UsageError(f"transport '{transport}' is unknown: torch or nccl")
        self.node_size = node_size
        self.transport = transport
        self.options = {"rail_lanes": rail_lanes, "copy_engines": copy_engines} if transport == "nccl" else {}
        self.made = {}

    def of(self, group, device):
        """(communicator, whether its ranks share one node)"""
        found = self.made.get(group)
        if found is None:
            size = ranks_of_a_node(self.node_size)
            if self.transport == "nccl" and device.type != "cuda":
                raise UsageError(f"transport 'nccl' moves memory of GPUs, not of {device.type}: choose transport='torch'")
            communicator = Communicator(
                group.rank(), group.size(), node_size_of(group, size), _OverProcessGroup(group, device),
                device=Device.CUDA if device.type == "cuda" else Device.HOST,
                transport=Transport.NCCL if self.transport == "nccl" else Transport.CALLBACKS, **self.options)
            found = self.made[group] = (communicator, inside_a_node(group, size))
        return found


def stream_of(device):
    """The current stream as the library takes it."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None
