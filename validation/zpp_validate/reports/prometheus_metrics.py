"""The JSON of a program as metrics for Prometheus: names with base units, and labels that distinguish rows."""

import datetime
import math

from prometheus_client.core import Metric

from zpp_validate.problem import Problem

MICRO, GIGA = 1e-6, 1e9
# Metrics of each row of zpp_sweep: name, key in the JSON, unit, description.
OF_A_ROW = (
    ("bus_bandwidth_bytes_per_second", "bus_bw", GIGA,
     "Bus bandwidth as nccl-tests defines it, of uncompressed bytes."),
    ("wire_bus_bandwidth_bytes_per_second", "wire_bus_bw", GIGA, "Bytes that the busiest rank sent, over the time."),
    ("time_seconds", "p50", MICRO, "Median time of the collective, the largest over ranks."),
    ("time_p95_seconds", "p95", MICRO, "95th percentile of the time of the collective, the largest over ranks."),
    ("time_p99_seconds", "p99", MICRO, "99th percentile of the time of the collective, the largest over ranks."))


class Gauges:
    """Gauges of any number of files, as a registry of prometheus_client collects them. `labels`: added to every
    sample."""

    def __init__(self, labels):
        self.labels, self.metrics, self.seen = labels, {}, set()

    def add(self, name, explained, value, **labels):
        """Adds a sample; a value that the program did not measure is left out. Raises Problem."""
        if value is None or not math.isfinite(value):
            return
        labels = {key: str(text) for key, text in labels.items()} | self.labels
        if (key := (name, *sorted(labels.items()))) in self.seen:
            raise Problem(f"{name} of {labels} is there twice: give one file of each measurement")
        self.seen.add(key)
        self.metrics.setdefault(name, Metric(name, explained, "gauge")).add_sample(name, labels, value)

    def collect(self):
        return self.metrics.values()


def add_head(add, program, success, when, **of):
    """Adds the metrics of every file: alerts use the age of the last run and its success. `success`: whether the exit
    code was 0; `of`: labels of what the program judged."""
    add("zeropp_success", "1 where the last run of the program ended with exit code 0, else 0.", int(success),
        program=program, **of)
    add("zeropp_last_run_timestamp_seconds", "Unix time at which the last run of the program ended or began.", when,
        program=program, **of)


def add_run(add, document):
    """The head of zpp_sweep and zpp_fabric; returns labels of the size of the run."""
    run = document["provenance"]
    when = datetime.datetime.fromisoformat(document.get("end_time", document["start_time"]))
    add_head(add, "zpp_" + run["app"], document["verdict"] == "VALID", when.timestamp())
    if document["software_version"]:
        add("zeropp_build_info", "Version and commit of the program, with the value 1.", 1,
            program="zpp_" + run["app"], version=document["software_version"], commit=run["git_commit"])
    return {"ranks": run["world_size"], "nodes": run["node_count"]}


def sweep(document, _when, add):
    """Metrics of zpp_sweep: each row is measured out of place and in place."""
    scale, prefix = add_run(add, document), "zeropp_collective_"
    for row in document["results"]:
        words = {name: row[name] for name in ("collective", "algorithm", "codec", "group", "transport",
                                              "redop", "root")}
        words |= {"dtype": row["type"], "bytes": row["size"]} | scale
        for place in ("out_of_place", "in_place"):
            measured, labels = row[place], {**words, "place": place}
            for name, key, unit, explained in OF_A_ROW:
                if key in measured or key != "p99":  # which earlier versions did not write
                    add(prefix + name, explained, measured[key] * unit, **labels)
            for link in ("intra", "inter"):
                add(prefix + "sent_bytes", "Bytes that all ranks sent in one run, by the kind of link.",
                    measured[f"wire_bytes_{link}"], **labels, link=f"{link}-node")
            add(prefix + "valid", "1 where every checked value of the row was right, else 0.",
                int(measured["verdict"] == "VALID"), **labels)


def fabric(document, _when, add):
    """Metrics of zpp_fabric: what is typical of each class of links, every rail, and every fault. Pairs of ranks are
    not among them: there are as many as the square of the ranks, and a database keeps each for good."""
    scale, prefix = add_run(add, document), "zeropp_fabric_"
    for row in document["typical"]:
        labels = {"class": row["class"]} | scale
        name, unit, side = (("latency_seconds", MICRO, "beyond") if row["metric"] == "latency" else
                            ("bandwidth_bytes_per_second", GIGA, "below"))
        for statistic in ("median", "typical", "worst", "limit"):
            if row.get(statistic) is not None:  # surveys of schema 1.0 have no "typical"
                add(prefix + name, f"{row['metric'].capitalize()} of the links of a class: median of all, what is "
                    f"typical, worst, and limit {side} which one is slow.", row[statistic] * unit, **labels,
                    statistic=statistic)
        if row["metric"] == "latency":
            add(prefix + "links", "Number of links of a class that were measured.", row["count"], **labels)
    for row in document["rails"]:
        if row["bandwidth"] is not None:
            add(prefix + "rail_bandwidth_bytes_per_second", "Bandwidth of a rank while every rail is loaded.",
                row["bandwidth"] * GIGA, rank=row["rank"], rail=row["rail"],
                host=document["placement"][row["rank"]]["host"])
    for row in document["faults"]:
        add(prefix + "fault", "A slow or corrupting rank, link or rail, with the value 1.", 1,
            **{name: row.get(name, "") for name in ("kind", "class", "metric", "rank", "peer", "rail", "host")})
    add(prefix + "faults", "Number of slow or corrupting ranks, links and rails.", len(document["faults"]), **scale)
    add(prefix + "unmeasured_pairs", "Number of pairs of ranks that the survey did not measure.",
        len(document.get("unmeasured", [])), **scale)  # which earlier versions did not write
    add(prefix + "placement_mistakes", "Number of mistakes in the placement of ranks.", len(document["mistakes"]),
        **scale)


def gate(document, when, add):
    """Metrics of zpp-validate gate, which says no time of its own: `when` is that of the file."""
    labels = {"baseline": document["baseline"].rpartition("/")[2].removesuffix(".json")}
    add_head(add, "gate", document["code"] == 0, when, **labels)
    add("zeropp_gate_exit_code", "Exit code of the gate: 0 nothing moved, 1 something did, 4 too few samples.",
        document["code"], **labels)
    verdicts = [each["verdict"] for each in document["findings"]]
    for verdict in sorted(set(verdicts)):
        add("zeropp_gate_quantities", "Number of compared quantities, by verdict.", verdicts.count(verdict), **labels,
            verdict=verdict)
    add("zeropp_gate_invalid_runs", "Number of runs that zpp-validate check did not accept.", len(document["invalid"]),
        **labels)
    add("zeropp_gate_missing_rows", "Number of rows, seeds and times of the baseline that were not run.",
        len(document["missing"]), **labels)


def comparison(document, when, add):
    """Metrics of zpp-validate compare: its exit code, the ratio of every row, and how many have which verdict. The
    label `compared` is the program whose files were: a machine has several comparisons."""
    labels = {"compared": document["program"]}
    add_head(add, "compare", document["code"] == 0, when, **labels)
    add("zeropp_comparison_exit_code", "Exit code of the comparison: 0 nothing slower, 1 something is, 2 it could not "
        "be made, 4 too few samples.", document["code"], **labels)
    verdicts = [row["verdict"] for row in document["rows"]]
    for row in document["rows"]:
        add("zeropp_comparison_time_ratio", "Median time after over before; above 1 is slower.", row["ratio"],
            row=row["row"], verdict=row["verdict"], **labels)
    for verdict in sorted({*verdicts, "slower", "faster", "same", "undecided"}):
        add("zeropp_comparison_rows", "Number of compared rows, by verdict.", verdicts.count(verdict), verdict=verdict,
            **labels)


MADE_BY = {"zeropp-sweep": sweep, "zeropp-fabric": fabric, "zeropp-gate": gate, "zeropp-comparison": comparison}
