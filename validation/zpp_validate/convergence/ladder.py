"""The published order of codecs, from the least harm to the most, as claims that data may or may not support:

  no codec  <=  int8 inside nodes, int4 with Hadamard rotation between them  <  plain int4 gradients  <  int4 weights

(SDP4Bit, NeurIPS 2024, its tables: two-level gradients reach the baseline, plain 4-bit gradients do not, 4-bit weights
are worst.) Settings are found by their codecs, not by their names; error feedback is off in all, and weights go whole.
Claims are paired by seed: `<`, that the difference is above 0 (one-sided); `<=`, that the rung is reached: the
difference lies within the margin on both sides (two one-sided tests). p-values are corrected over the claims of a model
(Holm).
"""

import re
from dataclasses import dataclass

from zpp_validate.readers.trace_format import TOKEN_LEVELS
from zpp_validate.stats import paired, rank_test

SUPPORTED, REVERSED, UNSUPPORTED = "supported", "the data say the opposite", "not supported by the data"
USUAL_BLOCK = 128
NEAR = "int8 + had32 int4 gradients"  # the rung that is to reach the one below it, not to differ from it


def plain(codec, form):
    """Whether it is `form` with some block and no option."""
    return re.fullmatch(rf"{form}(:\d+)?", codec) is not None


def two_hops(setting):
    return setting.weight_codec == "none" and setting.reduce_scatter == "2-hop"


RUNGS = {
    "no codec": lambda s: s.uncompressed,
    NEAR: lambda s: two_hops(s) and plain(s.gradient_codec_intra, "int8")
    and re.fullmatch(r"int4(:\d+)?\+had32", s.gradient_codec_inter),
    "int4 gradients": lambda s: two_hops(s) and all(plain(codec, "int4") for codec in s.gradient_codecs),
    "int4 weights": lambda s: plain(s.weight_codec, "int4") and s.gradient_codecs == ("none", "none"),
}


@dataclass
class Claim:
    """`lower` `relation` `upper`: settings, by their losses. `pairs` of upper minus lower; p of the claim and of its
    opposite, corrected."""

    level: str
    relation: str
    lower: object
    upper: object
    pairs: paired.Pairs
    margin: float
    p: float
    p_opposite: float
    verdict: str = ""

    @property
    def text(self):
        return f"{self.lower.name} {self.relation} {self.upper.name}"


def distance_from_usual(setting):
    """Sort key of several settings on a rung: the setting with the usual blocks first, then by order."""
    blocks = [int(block) for codec in (setting.weight_codec, *setting.gradient_codecs)
              for block in re.findall(r":(\d+)", codec)]
    return sum(abs(block - USUAL_BLOCK) for block in blocks), setting.index


def rungs_of(settings):
    """By the rung's name its setting; rungs that no setting is on are left out."""
    off = [setting for setting in settings if setting.feedback == "off" and setting.hpz <= 1
           and not setting.weight_differences]
    found = {name: [setting for setting in off if belongs(setting)] for name, belongs in RUNGS.items()}
    found["no codec"] = [setting for setting in found["no codec"] if not setting.baseline]
    return {name: min(candidates, key=distance_from_usual) for name, candidates in found.items() if candidates}


def claims_of(study, margin, level):
    """(claims, what is missing as text) over the models of the levels that train on tokens."""
    claims, missing = [], []
    whole = [s for s in study.settings if s.level in TOKEN_LEVELS and not s.diverged]
    groups = dict.fromkeys((s.level, s.model) for s in whole)
    for where in groups:
        rungs = rungs_of([s for s in whole if (s.level, s.model) == where])
        missing += [f"{where[0]}, {where[1]}: the rung `{name}` has no setting here, or only some that diverged"
                    for name in RUNGS if name not in rungs]
        names, own = [name for name in RUNGS if name in rungs], []
        for below, above in zip(names, names[1:]):
            lower, upper = rungs[below], rungs[above]
            if set(lower.runs) != set(upper.runs) or len(lower.runs) < 2:
                missing.append(f"{where[0]}, {where[1]}: {lower.name} and {upper.name} are of other seeds or data")
                continue
            pairs = paired.of(study.differences(upper, lower))
            if above == NEAR:  # within the margin on both sides; the opposite: beyond it on one
                p, opposite = max(pairs.p_equivalent(margin)), min(1.0, 2 * min(pairs.p_above(margin),
                                                                                pairs.p_below(-margin)))
            else:
                p, opposite = pairs.p_above(0), pairs.p_below(0)
            own.append(Claim(where[0], "<=" if above == NEAR else "<", lower, upper, pairs, margin, p, opposite))
        for name in ("p", "p_opposite"):
            for claim, p in zip(own, rank_test.holm([getattr(claim, name) for claim in own])):
                setattr(claim, name, p)
        for claim in own:
            claim.verdict = SUPPORTED if claim.p <= level else REVERSED if claim.p_opposite <= level else UNSUPPORTED
        claims += own
    return claims, missing
