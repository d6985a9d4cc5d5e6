"""Settings of an effective configuration that decide bytes, by the rules of lib/trace/README.md. Shares nothing with
the library.

Counts are in elements (values), sizes in bytes. Sources: ZeRO (arXiv 1910.02054, section 5) for the stages, ZeRO++
(arXiv 2306.10209, section 3) for qwZ, hpZ and qgZ.
"""

from dataclasses import dataclass, replace

from zpp_validate.forms.codec_table import Adaptive, Codecs, Table
from zpp_validate.forms.offload import Offload
from zpp_validate.forms.weight_differences import WeightDifferences
from zpp_validate.forms.weight_images import FUSED_MOMENTS
from zpp_validate.forms.wire import codec_block
from zpp_validate.problem import Unfit

# Moments (values a parameter, fp32 unless zeropp.moments says otherwise) that an optimizer keeps, by its type and
# parameters.
OPTIMIZER_STATES = {
    "AdamW": lambda parameters: 2,
    "Adam": lambda parameters: 2,
    "SGD": lambda parameters: 1 if parameters["momentum"] > 0 else 0,
    "Lion": lambda parameters: 1,
}


def optimizer_states(optimizer):
    """Moments a parameter of the object `optimizer` of a configuration."""
    if optimizer["type"] not in OPTIMIZER_STATES:
        raise Unfit(f"no closed form for the optimizer {optimizer['type']!r}")
    return OPTIMIZER_STATES[optimizer["type"]](optimizer["params"])


def moment_bytes(kind, count):
    """Bytes of one moment of `count` elements: in 8 bits (arXiv 2110.02861, section 2) every 64 have a scale of 4
    bytes."""
    return {"fp32": 4, "bf16": 2, "int8": 1}[kind] * count + (4 * -(-count // 64) if kind == "int8" else 0)


def element_bytes(config):
    """Bytes of an element of the compute dtype."""
    return 2 if config["bf16"]["enabled"] or config.get("fp16", {}).get("enabled") else 4  # no fp16 in old traces


@dataclass(frozen=True)
class Settings:
    """Settings that decide bytes, from the effective configuration."""

    stage: int
    element_bytes: int  # of the compute dtype
    weight_codec: str  # qwZ's; none without
    gradient_codecs: tuple  # qgZ's, of the first and second hop; none without
    quantized_gradients: bool
    partition: int  # hpZ's: ranks that share a secondary copy; 1: no copy
    bucket_elements: int  # over all ranks that share a copy of the model
    accumulation: int  # micro-steps of a step
    all_gather: str
    reduce_scatter: str
    secondary_gather: str = ""  # an option of earlier versions; empty: by rule
    copy_engines: bool = False
    takes_vendors: bool = False  # where uncompressed weights are gathered inside a group
    optimizer_states: int = 2
    moments: str = "fp32"  # as these are kept
    feedback: tuple = ()  # hops that feed errors back: intra, inter
    feedback_dtype: str = "fp32"
    pipeline_depth: int = 1
    narrow_gradients: bool = False
    update_in_backward: bool = False
    schedule: tuple = ()  # entries of zeropp.codec_schedule
    adaptive: Adaptive = None
    shard_group: int = 0  # ranks that share a copy; 0: all
    sixteen_bits: str = "bf16"  # the compute dtype, where it has two bytes
    offload: Offload = None  # of the optimizer
    persistence: tuple = (0, 0)  # thresholds of a unit and of all, in parameters
    differences: WeightDifferences = None
    copies_on_host: bool = False  # hpZ's
    reuse: tuple = (0, 0)  # distance, and limit of what is kept, in elements
    keeps_images: bool = False  # of the own shards of weights, as their gathers send them
    fused_updates: bool = True  # the program's updates write images; not in runs before they did

    @classmethod
    def of(cls, config):
        zero, own = config["zero_optimization"], config["zeropp"]
        quantized = zero["zero_quantized_gradients"]
        feedback = own.get("error_feedback", {})  # not without qgZ
        hops = feedback.get("hops", "none")
        adaptive = Adaptive.of(own)
        chosen = adaptive.values if adaptive else ""  # these have no codec of their own
        return cls(
            stage=zero["stage"],
            element_bytes=element_bytes(config),
            weight_codec=own["weight_codec"] if zero["zero_quantized_weights"] and chosen != "weights" else "none",
            gradient_codecs=((own["gradient_codec_intra"], own["gradient_codec_inter"])
                             if quantized and chosen != "gradients" else ("none", "none")),
            quantized_gradients=quantized,
            partition=zero["zero_hpz_partition_size"],
            bucket_elements=zero["reduce_bucket_size"],
            accumulation=config["gradient_accumulation_steps"],
            # With weight differences nothing may be gathered over all ranks.
            all_gather=own.get("all_gather_algorithm", "two-level"),
            reduce_scatter=own["reduce_scatter_algorithm"],
            secondary_gather=own.get("secondary_gather_algorithm", ""),
            copy_engines=own.get("copy_engines") == "on",
            takes_vendors=(own.get("transport") == "nccl" and not own.get("deterministic", False)
                           and own.get("pipeline_depth", 1) == 1),
            optimizer_states=optimizer_states(config["optimizer"]),
            moments=own.get("moments", "fp32"),  # where the optimizer has some; not in traces before it was there
            feedback={"none": (), "both": ("intra", "inter")}.get(hops, (hops,)),
            feedback_dtype=feedback.get("dtype", "fp32"),
            narrow_gradients=own.get("gradient_dtype", "fp32") != "fp32",  # in traces where it has an effect
            update_in_backward=own.get("update_in_backward", False),
            pipeline_depth=own.get("pipeline_depth", 1),  # it has no effect without an algorithm that cuts
            # Not in traces before it was there, nor without compression.
            schedule=tuple(own.get("codec_schedule", ())),
            adaptive=adaptive,
            shard_group=own.get("shard_group_size", 0),  # at stage 3 only; not in traces before it was there
            sixteen_bits="bf16" if config["bf16"]["enabled"] else "fp16",
            offload=Offload.of(config),
            # At stage 3 only; not in traces before they were there, nor the last without an effect.
            persistence=tuple(zero.get(f"stage3_{of}_persistence_threshold", 0) for of in ("param", "model")),
            differences=WeightDifferences.of(own, element_bytes(config), zero["stage"]),
            copies_on_host=own.get("hpz_device") == "cpu",  # in traces with hpZ; not before it was there
            reuse=(zero.get("stage3_max_reuse_distance", 0), zero.get("stage3_max_live_parameters", 0)),
            # In traces where it has an effect; not before it was there.
            keeps_images=own.get("keep_weight_images", False),
        )

    def moment_bytes(self, count):
        return moment_bytes(self.moments, count)

    def on_rails(self):
        """Weight differences go along the rails, to secondary shards."""
        return bool(self.differences) and self.differences.on_rails

    def updates_residents(self):
        """Weight differences are added to the weights that every rank holds."""
        return bool(self.differences) and not self.on_rails()

    def updates_encode(self):
        """The optimizer's updates can write images of weights themselves."""
        return self.fused_updates and self.optimizer_states == FUSED_MOMENTS

    def updates_encode_refreshes(self):
        """The updates write the images of units that persist: their masters lie on the GPU and are gathered, whole,
        after the updates of a step."""
        return (self.updates_encode() and self.stage == 3 and not self.offload and not self.differences
                and not self.update_in_backward)

    def without_compression(self, all_gather_algorithm, reduce_scatter_algorithm="flat"):
        """The ZeRO baseline of the same run: what a saving is relative to."""
        return replace(self, weight_codec="none", gradient_codecs=("none", "none"), quantized_gradients=False,
                       feedback=(), schedule=(), adaptive=None, differences=None, keeps_images=False,
                       partition=1, all_gather=all_gather_algorithm, reduce_scatter=reduce_scatter_algorithm)

    def gradient_block(self):
        """The largest block, in values, of all gradient codecs that the configuration names."""
        if self.adaptive and self.adaptive.values == "gradients":
            return self.adaptive.block
        named = [entry[key] for entry in self.schedule for key in entry if key.startswith("gradient_codec")]
        return max(map(codec_block, (*self.gradient_codecs, *named)))

    def table(self, units, chosen=None):
        """The codec table of units with these names; `chosen` as for Table."""
        return Table(units, Codecs(self.weight_codec, *self.gradient_codecs), self.schedule, self.adaptive, chosen)
