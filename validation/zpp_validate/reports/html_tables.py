"""The tables of the HTML report, by program: groups of a trace, with the names and units of their columns
(lib/trace/README.md)."""

import statistics
from typing import NamedTuple

from zpp_validate.readers.converge_file import Study


class Table(NamedTuple):
    """`columns`: headings; `rows`: values as they are, which the page writes by their types."""

    title: str
    columns: list
    rows: list
    note: str = ""


def heading(kinds, name):
    """A column's name, with its unit where the name does not say it."""
    words, unit = name.replace("_", " "), kinds[name].partition(" ")[2]
    is_said = f" {unit} " in f" {words} " or unit.removesuffix("s") in words.split()
    return words if is_said or unit in ("", "1", "bool") else f"{words}, {unit}"


def listed(title, group, names="", note=""):
    """Maker of a table of a group: all columns, or those named. A trace without the group has an empty table."""
    def made(trace):
        kinds = trace.groups().get(group, {})
        chosen = names.split() if names and kinds else list(kinds)
        rows = [[bool(row[name]) if kinds[name] == "u bool" else row[name] for name in chosen]
                for row in (trace.rows(group) if kinds else ())]
        return Table(title, [heading(kinds, name) for name in chosen], rows, note)
    return made


def spread(title, group, by="", note=""):
    """Maker of a table of the numbers of a group: their median, least and most for each value of the columns `by`.
    Skipped steps do not count."""
    def made(trace):
        kinds, keys, parts = trace.groups().get(group, {}), by.split(), {}
        for row in trace.rows(group) if kinds else ():
            if not row.get("skipped"):
                parts.setdefault(tuple(row[key] for key in keys), []).append(row)
        numbers = [name for name, kind in kinds.items() if kind[0] != "S" and name not in (*keys, "skipped", "step")]
        rows = [[*key, heading(kinds, name), *(of(row[name] for row in own) for of in (statistics.median, min, max))]
                for key, own in parts.items() for name in numbers]
        return Table(title, [*keys, "quantity", "median", "least", "most"], rows, note)
    return made


def attributes(title, group):
    """Maker of a table of the attributes of a group of zpp_plan."""
    return lambda trace: Table(title, ["what", "value"], [[name.replace("_", " "), value]
                                                          for name, value in trace.plan[group].items()])


def volumes(trace):
    steps, rows = trace.columns["steps"], []
    for link, name in (("inside nodes", "intra"), ("across nodes", "inter")):
        counted, predicted = (sum(steps[f"bytes{kind}_{name}_node"]) for kind in ("", "_predicted"))
        rows.append([link, counted, predicted, "equal" if counted == predicted else "not equal"])
    return Table("Bytes sent, over all ranks and steps", ["link", "counted", "predicted", "they are"], rows)


def collectives(trace):
    table = listed("Collectives", "collectives", "operation purpose phase algorithm codec modelled calls logical_bytes "
                   "wire_bytes_intra wire_bytes_inter seconds",
                   "Bytes are sums over ranks. Bandwidths are of one rank: effective counts uncompressed values, wire "
                   "what was sent. On GPUs the seconds are those of enqueueing, and no bandwidth follows from "
                   "them.")(trace)
    for row, cells in zip(trace.rows("collectives"), table.rows):
        amounts = row["logical_bytes"], row["wire_bytes_intra"] + row["wire_bytes_inter"]
        timed = trace.attributes["backend"] != "cuda" and row["seconds"] > 0
        cells += [amounts[0] / amounts[1] if amounts[1] else None,
                  *(amount / trace.attributes["world_size"] / row["seconds"] / 1e9 if timed else None
                    for amount in amounts)]
    return table._replace(columns=[*table.columns, "compression", "effective, GB/s", "wire, GB/s"])


def settings(trace):
    study, rows = Study(trace), []
    for setting in study.settings:
        runs = [run for run in study.runs if study.setting_of(run) is setting]
        losses, sent = ([[getattr(run, name) for run in runs] for name in names]
                        for names in (("final_train_loss", "final_held_out_loss"),
                                      ("bytes_inter_node", "bytes_predicted_inter_node")))
        rows.append([setting.name, setting.level, setting.bits, len(runs),
                     *(statistics.fmean(each) if runs else None for each in losses),
                     ", ".join(map(str, setting.diverged)) or "none", *map(sum, sent)])
    return Table("Settings, means over seeds",
                 ["setting", "level", "bits per parameter", "runs", "training loss", "held-out loss", "diverged seeds",
                  "bytes across nodes, a step each", "predicted"], rows)


GPUS = spread("GPUs", "gpus", "rank reasons")
TABLES = {
    "train": (
        spread("Where a step goes", "steps", note="Each is the largest over ranks, or the sum of bytes. Gathers and "
               "reductions run beside compute, and on a GPU the optimizer and the gathers after it beside the next "
               "step: parts overlap."),
        volumes, collectives, listed("Memory of rank 0", "memory"),
        listed("Operations a token", "layers", note="Floating-point operations of forward and backward, in closed "
               "form; those of the hardware count recomputation."),
        spread("Quantization errors", "errors", "kind unit_kind"), listed("Held-out loss", "evaluations"),
        spread("Time of the host", "timers", "category"), GPUS),
    "sweep": (
        listed("Collectives by size", "results", "collective redop root codec algorithm modelled group type in_place "
               "size p50 bus_bw wire_bus_bw ratio wire_bytes_intra wire_bytes_inter wrong max_error cv verdict",
               "Bus bandwidths are of uncompressed bytes and of bytes sent; ratio: times faster than the fastest "
               "uncompressed row of this size."), GPUS),
    "fabric": (listed("Typical links", "fabric_typical"), listed("Faults", "fabric_faults", "text"),
               listed("Placement", "placement", "host gpu cpus cpu_numa nearest")),
    "kernels": (listed("Ceilings", "ceilings", "name rate unit"),
                listed("Kernels", "results", "kernel variant dtype shape time p95 cv limit of_limit of_copy verdict")),
    "converge": (settings, listed("Contracts", "checks"), listed("Quadratic", "quadratic_runs")),
    "plan": (listed("Planned traffic, over all ranks", "traffic"),
             listed("Planned collectives of a step", "collectives", "operation purpose phase algorithm codec group "
                    "calls wire_bytes_intra wire_bytes_inter messages_intra messages_inter"),
             listed("Planned memory of a rank", "memory")),
    "plan search": (listed("Searches", "searches"), listed("Configurations that no other beats", "candidates")),
    "plan time": (attributes("Planned time of a step", "time"),),
    "plan breakeven": (listed("Where each part pays", "break_even"),),
    "plan compare": (listed("What each part saves", "comparison"),
                     listed("A step in DeepSpeed", "in_turn", note="Micro-steps run one after the other; the secondary "
                            "copy of hpZ serves all but the first.")),
}


def tables_of(trace):
    """Tables that have rows, for a trace without problems of schema."""
    return [table for table in (make(trace) for make in TABLES[trace.app]) if table.rows]
