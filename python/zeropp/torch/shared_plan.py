"""Plans that modules of equal size share, so that workspace is there once; and what each module sent by them."""

import dataclasses

import torch

from zeropp.library import Dtype
from zeropp.torch.process_groups import stream_of

DTYPES = {torch.float32: Dtype.FP32, torch.bfloat16: Dtype.BF16, torch.float16: Dtype.FP16}


@dataclasses.dataclass
class Sent:
    """Of one module, phase and codec: what this rank sent. Counted by the library, predicted in closed form; of calls that
    PyTorch carried (algorithm "torch") a ring's bytes stand in both."""
    calls: int = 0
    inside_nodes: int = 0
    between_nodes: int = 0
    predicted_inside_nodes: int = 0
    predicted_between_nodes: int = 0

    def add(self, other):
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


class SharedPlan:
    """A plan whose runs follow each other, whatever streams they are on."""

    def __init__(self, plan):
        self.plan = plan
        self.algorithm = plan.traffic().algorithm.decode()
        self._done = None  # event of the last run, on GPUs

    def run(self, source, target, device):
        """Runs it on the current stream."""
        if device.type == "cuda":
            stream = torch.cuda.current_stream(device)
            if self._done is not None:
                stream.wait_event(self._done)
            self.plan.run(source.data_ptr(), target.data_ptr(), stream.cuda_stream)
            self._done = stream.record_event(self._done)
        else:
            self.plan.run(source.data_ptr(), target.data_ptr(), stream_of(device))

    def sent(self, calls):
        """What so many of its runs sent, which all send the same: where they did not, it is not what was predicted."""
        of_plan = self.plan.traffic()
        predicted = (of_plan.predicted_inside_nodes, of_plan.predicted_between_nodes)
        sent = (of_plan.sent_inside_nodes, of_plan.sent_between_nodes)

        def share(total, expected):
            """Rounded away from what was expected."""
            return -(-total * calls // of_plan.runs) if total > expected else total * calls // of_plan.runs

        return Sent(calls, *map(share, sent, predicted), *map(share, predicted, predicted))


class Plans:
    """By what they are for; `Communicators` lends them the ranks."""

    def __init__(self, communicators):
        self.communicators = communicators
        self.made = {}

    def get(self, key, make):
        found = self.made.get(key)
        if found is None:
            found = self.made[key] = SharedPlan(make())
        return found
