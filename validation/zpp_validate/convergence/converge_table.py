"""Tables of a judged matrix in Markdown, the chapter whose tables docs/howto/safe-compression.md shows, and the same
rows as HDF5."""

import json
import math

import h5py
import numpy as np

from zpp_validate.convergence import judged, measured
from zpp_validate.readers.trace_format import TOKEN_LEVELS
from zpp_validate.tables import markdown_table

COLUMNS = ("setting", "bits", "loss", "perplexity", "bits/byte", "difference", "95 % interval", "p differs",
           "p equivalent",
           "seen from", "provable", "verdict")
EFFECT_COLUMNS = ("setting", "without", "difference", "95 % interval", "p")
BOUND_COLUMNS = ("setting", "seeds", "steps", "violations", "largest share of the bound")
CHECK_COLUMNS = ("contract", "first", "second", "seed", "difference", "allowed")
LADDER_COLUMNS = ("claim", "difference", "95 % interval", "p", "verdict")
ORDER = "The published order of codecs (`a < b`: a has the lower loss):"
TEXT_COLUMNS = {"setting", "without", "verdict", "claim", "weights", "gradients", "feedback", "contract",
                "first", "second"}
SAFE_COLUMNS = ("weights", "gradients", "feedback", "bits", "difference", "95 % interval", "verdict")


def number(value):
    return f"{value:+.4f}"


def interval_text(interval):
    return f"{interval[0]:+.4f} to {interval[1]:+.4f}"


def p_text(p):
    return f"{p:.2g}" if p >= 1e-4 else "< 1e-4"


def mean(setting, name):
    values = [getattr(run, name) for run in setting.runs.values()]
    return sum(values) / len(values)


def loss_cells(setting):
    loss, byte = mean(setting, "final_held_out_loss"), mean(setting, "bits_per_byte")
    return [f"{setting.bits:.2f}", f"{loss:.4f}", f"{math.exp(loss):.3f}", "-" if math.isnan(byte) else f"{byte:.4f}"]


def rows_of(study, rows, level):
    """A baseline, then those that are compared with it."""
    cells = []
    for baseline in (s for s in study.settings if s.level == level and not s.baseline):
        cells.append([baseline.name, *loss_cells(baseline), *["-"] * 6, "baseline"])
        for row in rows:
            if row.baseline is baseline:
                cells.append([row.setting.name, *loss_cells(row.setting), number(row.pairs.mean),
                              interval_text(row.interval),
                              p_text(row.p_differs), p_text(row.p_equivalent), f"{row.detectable:.4f}",
                              f"{row.provable:.4f}",
                              row.verdict])
    cells += [[setting.name, f"{setting.bits:.2f}", *["-"] * 9, diverged_text(setting)] for setting in study.settings
              if setting.level == level and setting.baseline and setting.diverged]
    return cells


def diverged_text(setting):
    return f"{judged.DIVERGED} (seed {', '.join(map(str, setting.diverged))})"


def ladder_table(claims, level):
    own = [claim for claim in claims if claim.level == level]
    cells = [[claim.text, number(claim.pairs.mean), interval_text(claim.pairs.interval(judged.CONFIDENCE)),
              p_text(claim.p), claim.verdict]
             for claim in own]
    return markdown_table.aligned(LADDER_COLUMNS, cells,
                                  TEXT_COLUMNS) if cells else "no two rungs of it are in this matrix"


def effects_table(effects, level):
    """Table of the effects of error feedback; empty without error feedback."""
    cells = [[effect.setting.name, effect.without.name, number(effect.pairs.mean),
              interval_text(effect.pairs.interval(judged.CONFIDENCE)),
              p_text(effect.p)] for effect in effects if effect.setting.level == level]
    if not cells:
        return []
    return ["Effect of error feedback (below 0: it helps):", "",
            markdown_table.aligned(EFFECT_COLUMNS, cells, TEXT_COLUMNS), ""]


def entropy_text(study, level, bits):
    """How near the baselines come to the entropy of a source whose entropy is known."""
    if math.isnan(bits):
        return []
    nats = bits * math.log(2)
    apart = [f"{setting.name} is {mean(setting, 'final_held_out_loss') - nats:.4f} above it"
             for setting in study.settings
             if setting.level == level and not setting.baseline and not setting.diverged]
    return [f"Entropy of the source: {nats:.4f} nats per token; {', '.join(apart)}.", ""]


def runs_text(study, level):
    """Settings that the runs of a level share, by the first baseline; empty where its configuration lacks them."""
    first = next((setting for setting in study.settings if setting.level == level and not setting.baseline
                  and setting.runs), None)
    try:
        config = json.loads(first.config_json)
        model, run = config["zeropp"]["model"], next(iter(first.runs.values()))
        return [f"A run of {first.name}: a {model['name']} of {model['num_layers']} layers of width "
                f"{model['hidden_size']}, {run.steps} steps of "
                f"{config['train_batch_size']} sequences of {model['seq_length']} tokens on {run.world_size} ranks in "
                f"nodes of {run.node_size}, {first.optimizer} with a "
                f"learning rate of at most {config['optimizer']['params']['lr']:g}, schedule "
                f"{config['scheduler']['type']}.", ""]
    except (ValueError, AttributeError, KeyError, TypeError):
        return []


def seeds_text(study, level):
    counts = sorted({len(setting.runs) for setting in study.settings if setting.level == level})
    return f"{' to '.join(map(str, counts))} seeds per setting"


def legend(margin, count):
    return f"""
bits: sent for a parameter by one gather and one reduce-scatter. loss: on held-out data after the last step, nats a \
token, mean over
seeds; perplexity: its exponential. difference: to the baseline, paired by seed and data order, with its 95 % interval \
(Student's t). p
differs: of no difference, two-sided; p equivalent: of a difference of {margin:g} or more on either side (two \
one-sided tests); both
corrected over {count} settings (Holm). seen from: the smallest true difference that these runs would show with a \
probability of
{judged.POWER:.0%}; provable: the smallest margin within which they show equivalence; both corrected over all \
settings. The interval is of its row alone. Equivalent: within
{margin:g} nats; worse, better: a difference is shown (it may be within the margin as well); undecided: neither is \
shown; diverged: a
loss is not finite, or the last step was skipped. Claims are paired, p corrected over those of a model: `<`, the \
difference is
above 0; `<=`, it is within {margin:g} on both sides.
"""


def power_text(rows):
    """How small a difference the matrix can see, over its settings."""
    seen, provable = sorted(row.detectable for row in rows), sorted(row.provable for row in rows)
    between = [f"{first:.4f}" if first == last else f"{first:.4f} to {last:.4f}"
               for first, last in ((seen[0], seen[-1]), (provable[0], provable[-1]))]
    return (f"A true difference of {between[0]} nats would be shown with a probability of {judged.POWER:.0%}; "
            f"equivalence is shown within {between[1]} nats.")


def bounds(study, summaries):
    """`summaries`: rows of /quadratic_runs."""
    own = {}
    for row in summaries:
        own.setdefault(study.setting_of(study.runs[row["run"]]).name, []).append(row)
    cells = [[name, str(len(rows)), str(sum(row["steps"] for row in rows)), str(sum(row["violations"] for row in rows)),
              f"{max(row['largest_ratio'] for row in rows):.3f}"] for name, rows in own.items()]
    return ["## quadratic: distance to the closed form against the codec's bound", "",
            markdown_table.aligned(BOUND_COLUMNS, cells, TEXT_COLUMNS), ""] if cells else []


def contracts(study, checks):
    """`checks`: rows of /checks."""
    cells = []
    for row in checks:
        first, second = study.runs[row["first"]], study.runs[row["second"]]
        cells.append([row["name"], *(study.setting_of(run).name for run in (first, second)), str(first.seed),
                      f"{row['difference']:.3g}" if row["difference"] else "identical", f"{row['limit']:g}"
                      if row["limit"] else "none"])
    return ["## contract: runs that may not differ", "", markdown_table.aligned(CHECK_COLUMNS, cells, TEXT_COLUMNS),
            ""] if cells else []


def text_of(study, trace, rows, claims, missing, effects, errors, margin):
    lines = []
    for name in TOKEN_LEVELS:
        if any(setting.level == name for setting in study.settings):
            lines += [f"## {name}: {seeds_text(study, name)}", "",
                      *entropy_text(study, name, float(trace.data[name]["source_entropy_bits"])),
                      *runs_text(study, name),
                      markdown_table.aligned(COLUMNS, rows_of(study, rows, name), TEXT_COLUMNS), "",
                      ORDER, "", ladder_table(claims, name), "",
                      *effects_table(effects, name)]
    lines += [f"- {each}" for each in missing] + ([power_text(rows), legend(margin, len(rows))] if rows else [])
    lines += measured.table(errors)
    lines += bounds(study, trace.rows("quadratic_runs")) + contracts(study, trace.rows("checks"))
    return "\n".join(lines) + "\n"


def codec_cells(setting):
    weights = f"differences {setting.weight_differences}" if setting.weight_differences else setting.weight_codec
    return [weights, "/".join(dict.fromkeys(setting.gradient_codecs)), setting.feedback, f"{setting.bits:.2f}"]


def chapter(study, rows, claims, effects, margin, command):
    """The chapter of docs/howto/safe-compression.md, of the hardest level that was run: settings whose baseline sends
    everything uncompressed. None where there are none."""
    beside = [row for row in rows if row.baseline.uncompressed]
    level = next((name for name in reversed(TOKEN_LEVELS) if any(row.setting.level == name for row in beside)), None)
    if level is None:
        return None
    own = [row for row in beside if row.setting.level == level]
    own.sort(key=lambda row: (math.isnan(row.setting.bits), row.setting.bits, row.setting.index))
    cells = [[*codec_cells(row.setting), number(row.pairs.mean), interval_text(row.interval), row.verdict]
             for row in own]
    plain = {setting.name for setting in study.settings if setting.uncompressed}
    gone = [setting for setting in study.settings if setting.level == level and setting.baseline in plain
            and setting.diverged]
    cells += [[*codec_cells(setting), "-", "-", diverged_text(setting)] for setting in gone]
    count = {word: sum(word in row.verdict for row in own) for word in (judged.SAFE, judged.WORSE, judged.OPEN)}
    count[judged.SAFE] += sum(judged.WITHIN in row.verdict for row in own)
    return "\n".join([
        "## Which compression is safe", "",
        f"Held-out loss on {'real text' if level == 'text' else 'a source of known entropy'} beside uncompressed "
        f"training, "
        f"{seeds_text(study, level)}, paired by seed and data order, `{study.attributes['git_commit'][:12]}`. Safe is "
        f"what is shown "
        f"to be within {margin:g} nats of the baseline: {count[judged.SAFE]} of {len(own) + len(gone)} settings are; "
        f"{count[judged.WORSE]} are shown to be worse, {len(gone)} diverged, of {count[judged.OPEN]} these runs show "
        f"neither.", "",
        markdown_table.aligned(SAFE_COLUMNS, cells, TEXT_COLUMNS), "",
        ORDER, "", ladder_table(claims, level), "",
        *effects_table(effects, level), power_text(own), "",
        "It is remade by", "", "```", command, "```", ""])


def document(study, rows, claims, effects, errors):
    """{group: {column: (unit, values)}} of the judged rows, and of every run what they were judged by, for
    write_hdf5()."""
    loss = "nats per token"
    judged_rows = {
        "setting": ("", [row.setting.name for row in rows]), "baseline": ("", [row.baseline.name for row in rows]),
        "level": ("", [row.setting.level for row in rows]),
        "bits": ("bits per parameter", [row.setting.bits for row in rows]),
        "seeds": ("seeds", [row.pairs.count for row in rows]),
        "loss": (loss, [row.mean("final_held_out_loss") for row in rows]),
        "bits_per_byte": ("bits per byte", [row.mean("bits_per_byte") for row in rows]),
        "difference": (loss, [row.pairs.mean for row in rows]), "spread": (loss, [row.pairs.spread for row in rows]),
        "low": (loss, [row.interval[0] for row in rows]), "high": (loss, [row.interval[1] for row in rows]),
        "p_low": ("1", [row.p_low for row in rows]), "p_high": ("1", [row.p_high for row in rows]),
        "p_differs": ("1", [row.p_differs for row in rows]), "p_equivalent": ("1", [row.p_equivalent for row in rows]),
        "detectable": (loss, [row.detectable for row in rows]), "provable": (loss, [row.provable for row in rows]),
        "verdict": ("", [row.verdict for row in rows])}
    runs = [(setting, run) for setting in study.settings if setting.level in TOKEN_LEVELS
            for run in setting.runs.values()]
    each_run = {"setting": ("", [setting.name for setting, _ in runs]),
                "level": ("", [setting.level for setting, _ in runs]),
                "seed": ("", [str(run.seed) for _, run in runs]), "data_hash": ("", [run.data_hash for _, run in runs]),
                "loss": (loss, [run.final_held_out_loss for _, run in runs])}
    low, high = zip(*(claim.pairs.interval(judged.CONFIDENCE) for claim in claims)) if claims else ((), ())
    claimed = {"level": ("", [claim.level for claim in claims]), "claim": ("", [claim.text for claim in claims]),
               "difference": (loss, [claim.pairs.mean for claim in claims]), "low": (loss, low), "high": (loss, high),
               "p": ("1", [claim.p for claim in claims]), "verdict": ("", [claim.verdict for claim in claims])}
    gone = [setting for setting in study.settings if setting.level in TOKEN_LEVELS and setting.diverged]
    diverged = {"setting": ("", [setting.name for setting in gone]), "level": ("", [setting.level for setting in gone]),
                "seeds": ("", [",".join(map(str, setting.diverged)) for setting in gone])}
    low, high = zip(*(each.pairs.interval(judged.CONFIDENCE) for each in effects)) if effects else ((), ())
    changed = {"setting": ("", [each.setting.name for each in effects]),
               "without": ("", [each.without.name for each in effects]),
               "difference": (loss, [each.pairs.mean for each in effects]), "low": (loss, low), "high": (loss, high),
               "p": ("1", [each.p for each in effects])}
    lost = {"setting": ("", [each.setting.name for each in errors]), "kind": ("", [each.kind for each in errors]),
            "unit_kind": ("", [each.unit_kind for each in errors]),
            "rows": ("rows", [len(each.errors) for each in errors]),
            "low": ("1", [min(each.errors) for each in errors]), "median": ("1", [each.median for each in errors]),
            "high": ("1", [max(each.errors) for each in errors])}
    return {"judged": judged_rows, "runs": each_run, "ladder": claimed, "feedback": changed, "errors": lost,
            "diverged": diverged}


def write_hdf5(path, groups, attributes):
    with h5py.File(path, "w") as file:
        file.attrs.update({name: np.bytes_(value.encode()) if isinstance(value, str) else value
                           for name, value in attributes.items()})
        for group, columns in groups.items():
            for name, (unit, values) in columns.items():
                is_text = any(isinstance(value, str) for value in values)
                array = np.array([value.encode() for value in values]) if is_text else np.array(values, dtype=float)
                file.create_dataset(f"{group}/{name}", data=array).attrs["units"] = np.bytes_(unit)
