"""Where errors of gradient codecs are fed back, and the bytes that this keeps. By the rules of lib/trace/README.md;
shares nothing with the library. Source: error feedback of both hops of qgZ as LoCo has it (arXiv 2407.04480).
"""

from zpp_validate.forms.wire import wire_bytes

STORED_AS = {"fp32": "none", "int8": "int8:256"}  # the codec of kept errors, which have an fp32 value each


class ErrorFeedback:
    """`inside`: hops of the reduction among the ranks that share a copy that feed errors back; `across`: whether the
    sum over shard groups does."""

    def __init__(self, settings, layout):
        self.settings, self.layout, self.groups = settings, layout, layout.groups
        self.inside = self.groups.feedback_inside(settings.feedback, settings.reduce_scatter)
        self.across = self.groups.count > 1 and "inter" in settings.feedback

    def memory(self):
        """Rows of /memory, in bytes of one rank."""
        rows = {f"error_feedback_{hop}": self.of_hop(hop) for hop in self.inside}
        if self.across:
            parts = [part for part, _ in self.layout.buckets]
            rows["error_feedback_across"] = self.groups.errors_across(self.codec, parts, self.settings.element_bytes)
        return rows

    def of_hop(self, hop):
        """Bytes of both copies of the errors that a hop feeds back, for every part that a rank sends there: all parts
        in the first hop, one per node in the second. Each error is stored as a wire image of its own."""
        parts = {"intra": self.groups.size, "inter": self.groups.inside.node_count}[hop]
        return sum(2 * parts * wire_bytes(self.codec, part, 4) for part, _ in self.layout.buckets)

    @property
    def codec(self):
        return STORED_AS[self.settings.feedback_dtype]
