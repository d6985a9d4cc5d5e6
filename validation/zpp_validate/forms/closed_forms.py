"""Bytes that ZeRO-0..3 with qwZ, hpZ and qgZ sends and holds, by the rules of lib/trace/README.md.

Shares nothing with the library. Replays which unit is gathered from where, and what is reduced. collectives.py and
wire.py have the bytes of each collective, memory.py the bytes that a rank holds. Sources: ZeRO (arXiv 1910.02054),
section 7, for the bytes of a step of each stage; ZeRO++ (arXiv 2306.10209), section 3, for qwZ, hpZ and qgZ.
"""

from zpp_validate.forms import stage3_limits
from zpp_validate.forms.collectives import Collectives
from zpp_validate.forms.error_feedback import ErrorFeedback
from zpp_validate.forms.layout import Layout
from zpp_validate.forms.memory import Memory
from zpp_validate.forms.settings import Settings
from zpp_validate.forms.volume import Volume
from zpp_validate.forms.weight_images import KeptImages, is_fused
from zpp_validate.forms.wire import Bytes, Topology
from zpp_validate.problem import Unfit

__all__ = ["Bytes", "Run", "Settings", "Topology"]


class Run:
    """The schedule: which unit is gathered from where, and what is reduced, when."""

    def __init__(self, settings, topology, unit_tensors, layers, units=(), chosen=None):
        """`unit_tensors[u]`: elements of the tensors of unit u; `layers`: unit indices by layer. `units`: names, which
        a schedule may ask for; `chosen`: {step: bits by unit}, of adaptive bits."""
        s = settings
        self.settings = s
        self.layout = Layout(s, topology, unit_tensors, layers, units)
        self.collectives = Collectives(s, topology, self.layout)
        self.feedback = ErrorFeedback(s, self.layout)
        elements = [0 if unit in self.layout.persistent else count for unit, count in enumerate(self.layout.padded)]
        uses = stage3_limits.uses_of_step(layers, s.accumulation) if s.stage == 3 else []
        self.step_uses = list(zip(uses, stage3_limits.gathers([use[2] for use in uses], elements, *s.reuse)))
        self.evaluation_uses = list(zip(((0, "evaluation", use) for use in layers),
                                        stage3_limits.gathers(layers, elements, *s.reuse)))
        self.sums = [self.collectives.gradient_sums(part) for part, _ in self.layout.buckets]
        self.shapes = None  # of exact differences: {(steps before, unit): (width, escapes)}; None in a plan
        self.valid = set()  # units whose secondary shard holds the current weights
        self.held = False  # secondary shards hold weights that differences can be added to
        self.codecs = None
        self.choose(chosen)
        self.secondary = [self.collectives.secondary(unit) for unit in range(len(self.layout.shards))]
        self.differences = [self.collectives.difference(unit) for unit in range(len(self.layout.shards))
                            if s.differences]

    # The codecs in force
    # -----------------------------------------------------------------------------------------------

    def choose(self, chosen):
        """Widths of adaptive bits, from the first step on."""
        self.table = self.settings.table(self.layout.names, chosen)
        self.take(min(chosen) if chosen else 0)

    def take(self, step):
        """The codecs of the step after `step` others. Where those of weights change, secondary shards are cut again."""
        before, self.codecs = self.codecs, self.table.at(step)
        if before == self.codecs:
            return
        if before and [codecs.weights for codecs in before] != [codecs.weights for codecs in self.codecs]:
            self.valid.clear()
            self.held = False
        self.take_gradients()
        self.take_weights()

    def take_gradients(self):
        """Sets the reductions of one backward pass."""
        collectives, buckets = self.collectives, self.layout.buckets
        codecs = [self.codecs[unit].gradients for _, unit in buckets]
        self.reductions = [collectives.reduction(part, both) for (part, _), both in zip(buckets, codecs)]
        self.across = [sums for (part, _), both in zip(buckets, codecs) if self.layout.groups.count > 1
                       for sums in collectives.sums_across(part, both[1])]

    def take_weights(self):
        """Sets the gathers from the shards of all ranks, and the gathers that bring whole weights to copies."""
        collectives = self.collectives
        self.weights = [collectives.weights(unit, codecs.weights) for unit, codecs in enumerate(self.codecs)]
        self.copies = [collectives.along_rail("weights_copy", unit, codecs.weights)
                       for unit, codecs in enumerate(self.codecs) if self.settings.on_rails()]

    # Rows of a trace about one rank
    # -----------------------------------------------------------------------------------------

    def memory(self):
        """State of one rank in bytes, by kind; the arena for activations and workspaces is apart."""
        return Memory(self.settings, self.layout, self.table).rows()

    def copy_bytes(self):
        """Bytes of one whole copy of the weights that differences are added to."""
        return Memory(self.settings, self.layout, self.table).copy_bytes()

    def file_counters(self, volume, taken):
        """By name: bytes that `taken` steps read from files and write to them, and the number of accesses."""
        s = self.settings
        if not s.offload:
            return {}
        return s.offload.counters(self.layout.updated, s.element_bytes, s.optimizer_states, s.moment_bytes, taken,
                                  volume.gathered)

    def gathers_of(self, unit, phase):
        """Number of gathers of the unit in this phase of the first micro-step."""
        return sum(gathered for (micro, of, units), flags in self.step_uses if (micro, of) == (0, phase)
                   for used, gathered in zip(units, flags) if used == unit)

    def sent_in_a_step(self, values, unit, codec):
        """Bytes, over all ranks, of one unit's `values`, weights or gradients, in a step that finds no secondary shard
        to read."""
        if values == "gradients":
            sent = sum((self.collectives.reduction(part, (codec, codec)).sent
                        for part, of in self.layout.buckets if of == unit), Bytes())
            return (sent.intra + sent.inter) * self.settings.accumulation
        sent = self.collectives.weights(unit, codec).sent
        uses = sum(gathered for (_, _, units), flags in self.step_uses
                   for of, gathered in zip(units, flags) if of == unit)
        return (sent.intra + sent.inter) * (1 if self.settings.partition > 1 else uses)

    # The replay
    # ---------------------------------------------------------------------------------------------------------

    def gather_for(self, uses, volume):
        """Stage 3: bytes that the uses of layers gather."""
        differences = self.settings.differences
        whole = not self.held or differences and differences.refreshes(self.begun)
        total = Bytes()
        for (_, phase, units), flags in uses:
            for unit in (unit for unit, gathered in zip(units, flags) if gathered):
                if differences and unit not in self.valid:
                    total += self.update_copies(phase, unit, whole, volume)
                total += self.gather_unit(phase, unit, volume)
        return total

    def update_copies(self, phase, unit, whole, volume):
        """Brings the copies of a unit up to date, by its differences or its `whole` weights."""
        self.valid.add(unit)
        self.held = True
        volume.gathered[unit] += phase != "evaluation"
        return volume.count(phase, self.copies[unit] if whole else self.difference(unit))

    def difference(self, unit):
        """The collective of a unit's differences. The ranks of a run agree on the shape of exact ones; each serves one
        exchange."""
        if not self.settings.differences.exact or self.shapes is None:
            return self.differences[unit]
        shape = self.shapes.pop((self.begun, unit), None)
        if shape is None:
            raise Unfit(f"/exact_differences has no row of unit {unit} after {self.begun} steps")
        return self.collectives.exact_difference(unit, *shape)

    def gather_unit(self, phase, unit, volume):
        """Bytes of a gather from secondary shards (ZeRO++, section 3.2) where these are valid, else from the shards of
        all ranks."""
        if unit in self.valid:
            pieces = self.collectives.secondary_pieces()
            return sum((volume.count(phase, self.secondary[unit]) for _ in range(pieces)), Bytes())
        volume.gathered[unit] += phase != "evaluation"
        if volume.images:
            volume.images.gathered(unit, self.codecs[unit].weights)
        if self.settings.partition > 1:
            self.valid.add(unit)
        return volume.count(phase, self.weights[unit])

    def whole_units(self, phase, volume, differences=False):
        """Bytes of one gather of each unit that stays whole: every unit at stages 1 and 2, the units that persist at
        stage 3. `differences`: their differences are sent."""
        units = {0: (), 3: sorted(self.layout.persistent)}.get(self.settings.stage, range(len(self.weights)))
        for unit in units:
            volume.gathered[unit] += phase == "update"
        return sum((volume.count(phase, self.difference(unit) if differences else self.weights[unit])
                    for unit in units), Bytes())

    def step(self, skipped, volume):
        """Bytes of one step (ZeRO, section 7: stages 2 and 3 reduce in every micro-step)."""
        s = self.settings
        total = Bytes()
        for _ in range(s.accumulation if s.stage >= 2 else 1):
            total += sum((volume.count("backward", c) for c in self.reductions), Bytes())
        total += sum((volume.count("backward", c) for c in self.across), Bytes())
        total += self.gather_for(self.step_uses, volume)
        if s.stage == 0:
            total += sum((volume.count("backward", c) for c in self.sums), Bytes())
        return total if skipped else total + self.update(volume)

    def update(self, volume):
        """Bytes after the optimizer's update, which makes every secondary shard stale."""
        s = self.settings
        differences = s.updates_residents() and not s.differences.refreshes(self.begun)
        total = self.whole_units("update", volume, differences)
        self.valid.clear()
        if s.updates_encode_refreshes():
            volume.refreshes_written += sum(is_fused(self.codecs[unit].weights) for unit in self.layout.persistent)
        if volume.images:
            volume.images.updated({unit: self.codecs[unit].weights for unit in self.layout.sharded})
        return total

    def replay(self, skipped, evaluations, first=0, found="none"):
        """Volume of a run. `skipped`: one flag per step; `evaluations`: (steps before it, batches) of each. `first`:
        steps of the runs that this one resumes; `found`: the copies of the weights that it found, as in
        /weight_copies."""
        s = self.settings
        volume = Volume(images=KeptImages(s.updates_encode()) if s.keeps_images else None)
        if s.adaptive and not self.table.chosen:
            raise ValueError("the widths of adaptive bits are not known: choose() them")
        if skipped or evaluations:  # else the run has ended before it began
            self.begin(first, found, volume)
        for step in range(len(skipped) + 1):
            self.begun = first + step
            self.take(self.begun)
            self.evaluate(sum(batches for before, batches in evaluations if before == step), volume)
            if step < len(skipped):
                volume.steps.append(self.step(skipped[step], volume))
        return volume

    def begin(self, first, found, volume):
        """Work before the first step of a run that resumes after `first` steps and `found` such copies of the
        weights."""
        s = self.settings
        # A checkpoint may hold the resident weights that differences are added to.
        if not s.updates_residents() or found != "current":
            self.begun = first - 1
            stale = s.updates_residents() and found == "behind"
            self.whole_units("initial", volume, stale and not s.differences.refreshes(first - 1))
        if found != "none":  # copies of the weights are of the step before, with its codecs
            self.take(first - 1)
        self.held = found != "none"
        self.valid = set(range(len(self.layout.shards))) if found == "current" else set()

    def evaluate(self, batches, volume):
        for _ in range(batches if self.settings.stage == 3 else 0):
            self.gather_for(self.evaluation_uses, volume)
