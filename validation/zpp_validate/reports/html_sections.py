"""The tables of the HTML report, by program: what a trace has, in the units that its columns are in
(lib/trace/README.md)."""

import math
import statistics

from zpp_validate.readers.converge_file import Study
from zpp_validate.readers.sweep_file import bytes_text
from zpp_validate.reports.html_page import element, folded, table

LINKS = (("inside nodes", "intra"), ("across nodes", "inter"))
SHOWN = 60  # rows of a table that stand open; more are folded


def real(value, digits=4):
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def whole(value):
    return f"{value:,}".replace(",", "\u2009")


def percent(value):
    return f"{100 * value:.1f} %" if math.isfinite(value) else "-"


def equality(counted, predicted):
    return "equal" if counted == predicted else element("span", f"predicted {whole(predicted)}", class_="bad")


def listed(title, header, rows, note=None):
    """A heading and a table; nothing where there are no rows."""
    if not rows:
        return []
    made = table(header, rows)
    body = folded(f"{len(rows)} rows", made) if len(rows) > SHOWN else made
    return [element("h3", title), element("p", note, class_="note") if note else [], body]


def columns(trace, group, header, names, formats):
    """Rows of cells of a group: `formats` by the name of the column, else the text as it is."""
    return header, [[formats.get(name, str)(row[name]) for name in names] for row in trace.rows(group)]


# Training ----------------------------------------------------------------------------------------


def volumes(trace):
    steps = trace.columns["steps"]
    rows = []
    for link, name in LINKS:
        counted, predicted = (sum(steps[f"bytes{kind}_{name}_node"]) for kind in ("", "_predicted"))
        rows.append([link, whole(counted), whole(statistics.median_low(steps[f"bytes_{name}_node"])
                                                 if steps["loss"] else 0),
                     equality(counted, predicted)])
    return listed("Bytes sent, over all ranks and steps", ("link", "#counted", "#median step", "prediction"), rows)


def rates(trace, row):
    """Effective (uncompressed) and wire bandwidth of a rank, mean over ranks. On a GPU the seconds are those of
    enqueueing."""
    ranks, seconds = trace.attributes["world_size"], row["seconds"]
    if trace.attributes["backend"] == "cuda" or seconds <= 0:
        return ["-", "-"]
    sent = row["wire_bytes_intra"] + row["wire_bytes_inter"]
    return [real(amount / ranks / seconds / 1e9) for amount in (row["logical_bytes"], sent)]


def collectives(trace):
    rows = []
    for row in trace.rows("collectives"):
        sent = row["wire_bytes_intra"] + row["wire_bytes_inter"]
        rows.append([f"{row['operation']} {row['purpose']}", row["phase"],
                     row["algorithm"] + (" (modelled)" if row["modelled"] else ""),
                     row["codec"], whole(row["calls"]), whole(row["wire_bytes_intra"]), whole(row["wire_bytes_inter"]),
                     f"{row['logical_bytes'] / sent:.2f}x" if sent else "-", real(row["seconds"]), *rates(trace, row)])
    return listed("Collectives", ("collective", "phase", "algorithm", "codec", "#calls", "#bytes inside",
                                  "#bytes across", "#compression",
                                  "#seconds", "#effective GB/s", "#wire GB/s"), rows,
                  "Bytes are sums over ranks. Bandwidths are of one rank: effective counts uncompressed values, wire "
                  "what was sent. On GPUs the "
                  "seconds are those of enqueueing, and no bandwidth follows from them.")


def memory(trace):
    rows = [[row["name"], whole(row["bytes_predicted"]), whole(row["bytes_actual"]), bytes_text(row["bytes_actual"])]
            for row in trace.rows("memory") if row["bytes_predicted"] or row["bytes_actual"]]
    return listed("Memory of rank 0", ("part", "#bytes predicted", "#bytes taken", "#taken"), rows)


PARTS = (("step", "time"), ("forward", "time_forward"), ("backward", "time_backward"),
         ("of both, waits for communication", "time_communication_exposed"),
         ("optimizer", "time_optimizer"), ("of it, the host with what is offloaded", "time_offload_wait"),
         ("gathers of weights at work", "time_gather"),
         ("reductions of gradients at work", "time_reduce"))


def breakdown(trace):
    taken = [row for row in trace.rows("steps") if not row["skipped"]]
    if not taken:
        return []
    whole_time = statistics.median(row["time"] for row in taken)
    rows = [[label, real(1e3 * median), percent(median / whole_time)]
            for label, name in PARTS for median in [statistics.median(row[name] for row in taken)]]
    return listed("Where a step goes", ("part", "#median ms", "#of the step"), rows,
                  "Each is the largest over ranks. Gathers and reductions run beside compute, and on a GPU the "
                  "optimizer and the gathers behind it beside the next step: parts overlap.")


def flops(trace):
    kinds = {}
    for row in trace.rows("layers"):
        kinds.setdefault("blocks" if row["name"].startswith("h.") else row["name"], []).append(row)
    total = trace.attributes["flops_per_token"]
    rows = [[kind, whole(len(own)),
             real(sum(row["flops_per_token"] for row in own)), real(sum(row["hardware_flops_per_token"]
                                                                        for row in own)),
             percent(sum(row["flops_per_token"] for row in own) / total)] for kind, own in kinds.items()]
    return listed("Operations a token", ("layers", "#number", "#of the model", "#with recomputation", "#share"), rows,
                  "Floating-point operations of forward and backward, in closed form.")


def errors(trace):
    rows = trace.rows("errors") if "errors" in trace.columns else []
    cells = []
    for kind in dict.fromkeys((row["kind"], row["unit_kind"]) for row in rows):
        own = [row for row in rows if (row["kind"], row["unit_kind"]) == kind]
        mean = lambda name: real(statistics.fmean(row[name] for row in own))
        cells.append([*kind, whole(len(own)), mean("relative_l2"), mean("cosine"), mean("norm_ratio"),
                      real(max(row["largest"] for row in own))])
    return listed("Quantization errors", ("of", "units", "#steps", "#relative L2", "#cosine", "#norm ratio",
                                          "#largest"), cells,
                  "Means over the measured steps, but for the largest.")


def timers(trace):
    totals = {}
    for row in trace.rows("timers"):
        totals.setdefault(row["category"], []).append(row["seconds"])
    whole_time = sum(map(statistics.fmean, totals.values()))
    rows = [[name, real(statistics.fmean(own)), real(min(own)), real(max(own)),
             percent(statistics.fmean(own) / whole_time)]
            for name, own in sorted(totals.items(), key=lambda item: -sum(item[1])) if sum(own)]
    return listed("Time of the host", ("category", "#seconds, mean over ranks", "#least", "#most", "#share"), rows)


def evaluations(trace):
    header = ("#after step", "#nats a token", "#bits a byte", "#batches")
    four = lambda value: "-" if math.isnan(value) else f"{value:.4f}"
    return listed("Held-out loss", *columns(trace, "evaluations", header, ("step", "loss", "bits_per_byte", "batches"),
                                            {"loss": four, "bits_per_byte": four}))


def gpus(trace):
    if "gpus" not in trace.columns:
        return []
    by_rank = {}
    for row in trace.rows("gpus"):
        by_rank.setdefault(row["rank"], []).append(row)
    rows = [[rank, real(statistics.median(row["sm_clock"] for row in own)), real(max(row["power"] for row in own)),
             real(max(row["temperature"] for row in own)), real(statistics.fmean(row["utilization"] for row in own)),
             ", ".join(sorted({reason for row in own for reason in row["reasons"].split(",") if reason}))]
            for rank, own in sorted(by_rank.items())]
    return listed("GPUs", ("#rank", "#median clock MHz", "#most W", "#most degC", "#mean use %", "=reasons for clocks"),
                  rows)


def train(trace):
    return [breakdown(trace), volumes(trace), collectives(trace), memory(trace), flops(trace), errors(trace),
            evaluations(trace), timers(trace), gpus(trace)]


# Other programs ----------------------------------------------------------------------------------


def sweep(trace):
    rows = []
    for row in trace.rows("results"):
        name = " ".join(filter(None, (row["collective"], row["redop"].replace("none", ""), row["root"]
                                      and f"root {row['root']}")))
        rows.append([name, row["codec"], row["algorithm"] + (" (modelled)" if row["modelled"] else ""), row["group"],
                     row["type"],
                     "in place" if row["in_place"] else "out of place", bytes_text(row["size"]), real(row["p50"]),
                     real(row["bus_bw"]),
                     real(row["wire_bus_bw"]), real(row["ratio"], 3),
                     whole(row["wire_bytes_intra"] + row["wire_bytes_inter"]), whole(row["wrong"]),
                     real(row["max_error"], 3), percent(row["cv"]), row["verdict"]])
    return [listed("Collectives by size", ("collective", "codec", "algorithm", "group", "type", "place", "#size",
                                           "#median us", "#effective GB/s",
                                           "#wire GB/s", "#ratio", "#bytes sent", "#wrong", "#largest error", "#cv",
                                           "verdict"), rows,
                   "Bus bandwidths, of uncompressed bytes and of bytes sent; ratio: times faster than the fastest "
                   "uncompressed row of this size."),
            gpus(trace)]


def fabric(trace):
    typical = columns(trace, "fabric_typical", ("links", "of", "#count", "#median", "#typical", "#worst", "#limit"),
                      ("class", "metric", "count", "median", "typical", "worst", "limit"),
                      {name: real for name in ("median", "typical", "worst", "limit")})
    return [listed("Typical links", *typical, "Latency in us, bandwidth in GB/s."),
            listed("Faults", *columns(trace, "fabric_faults", ("=what",), ("text",), {})),
            listed("Placement", *columns(trace, "placement", ("host", "GPU", "processors", "NUMA", "=nearest adapters"),
                                         ("host", "gpu", "cpus", "cpu_numa", "nearest"), {}))]


def kernels(trace):
    ceilings = columns(trace, "ceilings", ("ceiling", "#rate", "unit"), ("name", "rate", "unit"), {"rate": real})
    names = ("kernel", "variant", "dtype", "shape", "time", "p95", "cv", "limit", "of_limit", "of_copy", "verdict")
    rows = columns(trace, "results", ("kernel", "variant", "dtype", "shape", "#median us", "#p95 us", "#cv", "limit",
                                      "#of limit", "#of copy",
                                      "verdict"), names, {"time": real, "p95": real}
                   | dict.fromkeys(("cv", "of_limit", "of_copy"), percent))
    return [listed("Ceilings", *ceilings), listed("Kernels", *rows)]


def converge(trace):
    study = Study(trace)
    rows = []
    for setting in study.settings:
        runs = [run for run in study.runs if study.setting_of(run) is setting]
        mean = lambda name: real(statistics.fmean(getattr(run, name) for run in runs), 5)
        counted, predicted = (sum(getattr(run, name) for run in runs)
                              for name in ("bytes_inter_node", "bytes_predicted_inter_node"))
        rows.append([setting.name, setting.level, real(setting.bits), whole(len(runs)), mean("final_train_loss"),
                     mean("final_held_out_loss"),
                     ", ".join(map(str, setting.diverged)) or "none", whole(counted), equality(counted, predicted)]
                    if runs else
                    [setting.name, setting.level, real(setting.bits), 0, *["-"] * 5])
    checks = columns(trace, "checks", ("check", "#first run", "#second run", "#difference", "#limit", "holds"),
                     ("name", "first", "second", "difference", "limit", "passed"),
                     {"difference": real, "limit": real, "passed": lambda passed: "yes" if passed else "no"})
    quadratic = columns(trace, "quadratic_runs", ("#run", "#steps", "#beyond the bound", "#nearest to it"),
                        ("run", "steps", "violations", "largest_ratio"), {"largest_ratio": real})
    return [listed("Settings, means over seeds", ("=setting", "level", "#bits a parameter", "#runs", "#training loss",
                                                  "#held-out loss", "diverged seeds",
                                                  "#bytes across nodes, a step each", "prediction"), rows),
            listed("Contracts", *checks), listed("Quadratic", *quadratic)]



def plan(trace):
    names = ("bytes_intra_node", "bytes_inter_node", "messages_intra_node", "messages_inter_node")
    traffic = columns(trace, "traffic", ("phase", "#bytes inside", "#bytes across", "#messages inside",
                                         "#messages across"), ("phase", *names),
                      dict.fromkeys(names, whole))
    counts = ("calls", "wire_bytes_intra", "wire_bytes_inter", "messages_intra", "messages_inter")
    sent = columns(trace, "collectives", ("collective", "of", "phase", "algorithm", "codec", "group", "#calls",
                                          "#bytes inside", "#bytes across",
                                          "#messages inside", "#messages across"),
                   ("operation", "purpose", "phase", "algorithm", "codec", "group", *counts),
                   dict.fromkeys(counts, whole))
    parts = [[row["name"], whole(row["bytes"]), bytes_text(row["bytes"])] for row in trace.rows("memory")
             if row["bytes"]]
    return [listed("Planned traffic, over all ranks", *traffic), listed("Planned collectives of a step", *sent),
            listed("Planned memory of a rank", ("part", "#bytes", "#size"), parts)]


def plan_search(trace):
    sizes = columns(trace, "searches", ("#nodes", "#ranks a node", "#combinations", "#possible", "#within the limits"),
                    ("nodes", "ranks_per_node", "considered", "possible", "fitting"),
                    {name: whole for name in ("considered", "possible", "fitting")})
    rows = [[row["nodes"], row["stage"], row["shard_group_size"] or "all", row["weight_codec"],
             row["weight_difference_codec"],
             row["hpz_partition_size"], row["gradient_codecs"], row["all_gather"], row["reduce_scatter"],
             "yes" if row["recompute"] else "no", row["micro_batch"], row["micro_steps"],
             whole(row["bytes_inter_node"]), whole(row["bytes_intra_node"]),
             bytes_text(row["memory"]), real(row["seconds"])] for row in trace.rows("candidates")]
    header = ("#nodes", "#stage", "#ranks of a shard group", "weights", "differences", "#hpZ", "gradients",
              "all-gather", "reduce-scatter", "recompute", "#micro-batch", "#micro-steps",
              "#bytes across", "#bytes inside", "#memory", "#step s")
    return [listed("Searches", *sizes), listed("Configurations that no other beats", header, rows)]


def plan_time(trace):
    time = trace.plan["time"]
    rows = [[name.removesuffix("_seconds").replace("_", " "), real(1e3 * value)] for name, value in time.items()
            if name.endswith("_seconds")]
    return listed("Planned time of a step", ("part", "#ms"), rows, f"On {time['cluster']}; bound by {time['bound']}.")


def break_even(trace):
    rows = [[row["feature"], real(8e-9 * row["link_rate"]), real(8e-9 * row["gpu_rate"]),
             real(1e3 * row["step_seconds"]), real(row["speedup"])]
            for row in trace.rows("break_even")]
    return listed("Where each part pays", ("feature", "#below Gbit/s a link", "#Gbit/s a GPU", "#step ms here",
                                           "#speed-up here"), rows)


def comparison(trace):
    rows = [[row["feature"], whole(row["bytes_out_of_node"]), real(row["reduction"]), bytes_text(row["memory"]),
             real(1e3 * row["step_seconds"]),
             real(row["speedup"]), real(8e-9 * row["link_rate"]), row["bound"] or "-"]
            for row in trace.rows("comparison")]
    in_turn = [[row["feature"], whole(row["bytes_out_of_node"]), real(row["reduction"]),
                real(1e3 * row["step_seconds"]), real(row["speedup"])]
               for row in trace.rows("in_turn")]
    return [listed("What each part saves", ("feature", "#bytes out of a node", "#factor", "#memory", "#step ms",
                                            "#speed-up", "#pays below Gbit/s a link",
                                            "bound by"), rows),
            listed("A step in DeepSpeed", ("feature", "#bytes out of a node", "#factor", "#step ms", "#speed-up"),
                   in_turn,
                   "Micro-steps run one after the other; the secondary copy of hpZ serves all but the first.")]


SECTIONS = {"train": train, "sweep": sweep, "fabric": fabric, "kernels": kernels, "converge": converge, "plan": plan,
            "plan search": plan_search, "plan time": plan_time, "plan breakeven": break_even,
            "plan compare": comparison}
