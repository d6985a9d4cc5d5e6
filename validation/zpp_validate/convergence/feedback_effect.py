"""The effect of error feedback: a setting with it, compared with the one that differs in nothing else, paired by seed.

Twins are found by their columns, not by their names. The p-values, two-sided, are corrected over all twins of the file
(Holm).
"""

import json
from dataclasses import dataclass

from zpp_validate.readers.trace_format import TOKEN_LEVELS
from zpp_validate.stats import paired, rank_test

ALIKE = ("level", "model", "stage", "weight_codec", "gradient_codec_intra", "gradient_codec_inter", "reduce_scatter",
         "hpz", "optimizer")


@dataclass
class Effect:
    """`pairs`: of the loss with feedback minus that without; below 0, feedback helps. `p`: corrected."""

    setting: object
    without: object
    pairs: paired.Pairs
    p: float


def rest_of(setting):
    """Its configuration without what error feedback is."""
    config = json.loads(setting.config_json)
    config.get("zeropp", {}).pop("error_feedback", None)
    return json.dumps(config, sort_keys=True)


def effects_of(study):
    judged = [s for s in study.settings if s.level in TOKEN_LEVELS and not s.diverged]
    key = lambda setting: (*(getattr(setting, name) for name in ALIKE), rest_of(setting))
    without = {key(s): s for s in reversed(judged) if s.feedback == "off"}
    found = []
    for setting in (s for s in judged if s.feedback != "off"):
        twin = without.get(key(setting))
        if twin and set(twin.runs) == set(setting.runs):
            pairs = paired.of(study.differences(setting, twin))
            found.append(Effect(setting, twin, pairs, pairs.p_differs()))
    for effect, p in zip(found, rank_test.holm([effect.p for effect in found])):
        effect.p = p
    return found
