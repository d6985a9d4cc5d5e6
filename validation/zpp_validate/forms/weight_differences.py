"""Weight differences: what goes from node to node is how the weights differ from the copy that every node holds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class WeightDifferences:
    codec: str
    copy_bytes: int  # of an element of the copies
    refresh_interval: int

    @classmethod
    def of(cls, own, element_bytes):
        """Of the object zeropp of a configuration, whose compute dtype has so many bytes; None: whole weights are gathered."""
        if not own.get("weight_differences"):  # not in traces before it was there
            return None
        return cls(own["weight_difference_codec"], 4 if own["weight_copy_dtype"] == "fp32" else element_bytes,
                   own["weight_refresh_interval"])

    def refreshes(self, step):
        """The step after so many others sends whole weights, if they have changed."""
        return self.refresh_interval > 0 and step % self.refresh_interval == 0
