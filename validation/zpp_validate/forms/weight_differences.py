"""Weight differences: what is sent is how the weights differ from a copy, which at stage 3 every node holds, and below
it every rank."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightDifferences:
    codec: str
    copy_bytes: int  # of an element of the copies
    refresh_interval: int
    on_rails: bool  # along these, to secondary shards; else to the resident weights of all ranks
    exact: bool = False  # without loss, in images whose size depends on the weights
    planned_bits: float = 0  # of an exact difference, in plans

    @classmethod
    def of(cls, own, element_bytes, stage):
        """Weight differences by the object zeropp of a configuration, with the bytes of its compute dtype; None: whole
        weights are gathered."""
        if not own.get("weight_differences"):  # not in traces before it was there
            return None
        if own.get("exact_differences"):
            return cls("exact", element_bytes, own["weight_refresh_interval"], stage == 3, True,
                       own["exact_planned_bits"])
        return cls(own["weight_difference_codec"], 4 if own["weight_copy_dtype"] == "fp32" else element_bytes,
                   own["weight_refresh_interval"], stage == 3)

    def refreshes(self, step):
        """The step after so many others sends whole weights, if they have changed. Below stage 3 a step sends what it
        updated itself."""
        taken = step if self.on_rails else step + 1
        return self.refresh_interval > 0 and taken % self.refresh_interval == 0
