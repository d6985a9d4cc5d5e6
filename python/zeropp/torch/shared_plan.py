"""Plans that modules of equal size share, so that workspace is there once; and what each module sent by them."""

import dataclasses
import typing

import torch

from zeropp.library import Dtype

DTYPES = {torch.float32: Dtype.FP32, torch.bfloat16: Dtype.BF16, torch.float16: Dtype.FP16}


@dataclasses.dataclass
class Sent:
    """Bytes that this rank sent for one module, phase and codec: counted by the library, and predicted in closed form.
    For calls that PyTorch carried (algorithm "torch") both are the bytes of a ring."""
    calls: int = 0
    inside_nodes: int = 0
    between_nodes: int = 0
    predicted_inside_nodes: int = 0
    predicted_between_nodes: int = 0

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class Ring(typing.NamedTuple):
    """A collective of PyTorch's, whose route is not known: a ring stands for it, in which a rank sends so many bytes. It
    counts as between nodes wherever its ranks are on several."""
    bytes_: int
    inside_a_node: bool
    algorithm: str = "torch"

    def sent(self, calls):
        pair = (self.bytes_ * calls, 0) if self.inside_a_node else (0, self.bytes_ * calls)
        return Sent(calls, *pair, *pair)


class KeptTensor:
    """A tensor that work on several streams reads and writes, one after the other. It is made on the current stream."""

    def __init__(self, tensor):
        self.tensor = tensor
        self._written = None  # event, on GPUs
        self.written_here()

    def written_here(self):
        """Work on the current stream, enqueued before this call, wrote it last."""
        if self.tensor.is_cuda:
            self._written = torch.cuda.current_stream(self.tensor.device).record_event(self._written)

    def used_here(self):
        """The tensor, for work on the current stream, which waits for the last writer; its memory lasts until then."""
        if self.tensor.is_cuda:
            stream = torch.cuda.current_stream(self.tensor.device)
            stream.wait_event(self._written)
            self.tensor.record_stream(stream)
        return self.tensor


class SharedPlan:
    """A plan whose runs follow each other, whatever streams they are on."""

    def __init__(self, plan):
        self.plan = plan
        self.algorithm = plan.traffic().algorithm.decode()
        self._done = None  # event of the last run, on GPUs

    def run(self, source, target, device, forget_errors=False):
        """Runs it on the current stream. `forget_errors`: those that error feedback kept before."""
        stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        handle = None if stream is None else stream.cuda_stream
        if self._done is not None:
            stream.wait_event(self._done)
        if forget_errors:
            self.plan.forget_errors(handle)
        self.plan.run(source.data_ptr(), target.data_ptr(), handle)
        if stream is not None:
            self._done = stream.record_event(self._done)

    def sent(self, calls):
        """Bytes of `calls` runs of the plan. All runs send the same bytes; if they did not, the result differs from the
        prediction."""
        of_plan = self.plan.traffic()
        predicted = (of_plan.predicted_inside_nodes, of_plan.predicted_between_nodes)
        sent = (of_plan.sent_inside_nodes, of_plan.sent_between_nodes)

        def share(total, expected):
            """The share of `calls` runs in `total`, rounded away from `expected`."""
            return -(-total * calls // of_plan.runs) if total > expected else total * calls // of_plan.runs

        return Sent(calls, *map(share, sent, predicted), *map(share, predicted, predicted))


class Plans:
    """By what they are for; `Communicators` lends them the ranks. They end with their last user, at the same point of
    the program on every rank, as NCCL needs; those over process groups end as garbage, too."""

    def __init__(self, communicators):
        self.communicators = communicators
        self.agreement = None  # of the ranks, on changed weights
        self.last_in_backward = None  # a gather on GPUs
        self.made = {}
        self.users = 0

    def get(self, key, make):
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = SharedPlan(make())
        return found

    def drop(self, key):
        shared = self.made.pop(key, None)
        if shared is not None:
            shared.plan.close()

    def leave(self):
        """One of the users has gone."""
        self.users -= 1
        if self.users == 0:
            for key in list(self.made):
                self.drop(key)
            self.communicators.close()
            if self.agreement is not None:
                self.agreement.close()
