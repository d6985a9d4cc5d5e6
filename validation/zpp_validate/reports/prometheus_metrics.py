"""What the JSON of a program says, as metrics for Prometheus: names with base units, and labels that tell rows
apart."""

import datetime
import math
from dataclasses import dataclass, field

MICRO, GIGA = 1e-6, 1e9


@dataclass
class Metric:
    """One gauge. `samples`: pairs of labels, as a dictionary, and a value."""

    name: str
    help: str
    samples: list = field(default_factory=list)

    def add(self, value, **labels):
        """Adds a sample; a value that the program did not measure is left out."""
        if value is not None and math.isfinite(value):
            self.samples.append((labels, value))


def seconds_of(text):
    """The Unix time of an ISO 8601 date, as programs write it."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def head(program, success, when, version="", commit="", **of):
    """The metrics that every file has: an alert asks for the age of the last run and for its success. `success`:
    whether the exit code was 0; `of`: labels that tell apart what the program judged."""
    labels = {"program": program} | of
    good = Metric("zeropp_success", "1 where the last run of the program ended with exit code 0, else 0.")
    good.add(int(success), **labels)
    last = Metric("zeropp_last_run_timestamp_seconds", "Unix time at which the last run of the program ended or began.")
    last.add(when, **labels)
    build = Metric("zeropp_build_info", "Version and commit of the program, with the value 1.")
    if version:
        build.add(1, **labels, version=version, commit=commit)
    return [good, last, build]


def head_of_run(document):
    run = document["provenance"]
    return head("zpp_" + run["app"], document["verdict"] == "VALID",
                seconds_of(document.get("end_time", document["start_time"])),
                document["software_version"], run["git_commit"])


def sweep(document, _when):
    """Metrics of zpp_sweep: each row is measured out of place and in place."""
    run = document["provenance"]
    scale = {"ranks": run["world_size"], "nodes": run["node_count"]}
    prefix = "zeropp_collective_"
    bus = Metric(prefix + "bus_bandwidth_bytes_per_second",
                 "Bus bandwidth as nccl-tests defines it, of uncompressed bytes.")
    wire = Metric(prefix + "wire_bus_bandwidth_bytes_per_second", "Bytes that the busiest rank sent, over the time.")
    median = Metric(prefix + "time_seconds", "Median time of the collective, the largest over ranks.")
    slow = Metric(prefix + "time_p95_seconds", "95th percentile of the time of the collective, the largest over ranks.")
    slowest = Metric(prefix + "time_p99_seconds",
                     "99th percentile of the time of the collective, the largest over ranks.")
    sent = Metric(prefix + "sent_bytes", "Bytes that all ranks sent in one run, by the kind of link.")
    valid = Metric(prefix + "valid", "1 where every checked value of the row was right, else 0.")
    for row in document["results"]:
        words = {name: row[name] for name in ("collective", "algorithm", "codec", "group", "transport",
                                              "redop", "root")}
        words |= {"dtype": row["type"], "bytes": row["size"]} | scale
        for place in ("out_of_place", "in_place"):
            measured, labels = row[place], {**words, "place": place}
            bus.add(measured["bus_bw"] * GIGA, **labels)
            wire.add(measured["wire_bus_bw"] * GIGA, **labels)
            median.add(measured["p50"] * MICRO, **labels)
            slow.add(measured["p95"] * MICRO, **labels)
            if "p99" in measured:
                slowest.add(measured["p99"] * MICRO, **labels)
            for link in ("intra", "inter"):
                sent.add(measured[f"wire_bytes_{link}"], **labels, link=f"{link}-node")
            valid.add(int(measured["verdict"] == "VALID"), **labels)
    return head_of_run(document) + [bus, wire, median, slow, slowest, sent, valid]


def fabric(document, _when):
    """Metrics of zpp_fabric: what is typical of each class of links, every rail, and every fault. Pairs of ranks are
    not among them: there are as many as the square of the ranks, and a database keeps each for good."""
    run = document["provenance"]
    scale = {"ranks": run["world_size"], "nodes": run["node_count"]}
    latency = Metric("zeropp_fabric_latency_seconds", "Latency of the links of a class: median of all, what is "
                     "typical, worst, and limit beyond which one is slow.")
    bandwidth = Metric("zeropp_fabric_bandwidth_bytes_per_second",
                       "Bandwidth of the links of a class: median of all, what is typical, worst, and limit below "
                       "which one is slow.")
    links = Metric("zeropp_fabric_links", "Number of links of a class that were measured.")
    for row in document["typical"]:
        metric, unit = (latency, MICRO) if row["metric"] == "latency" else (bandwidth, GIGA)
        for statistic in ("median", "typical", "worst", "limit"):
            if row.get(statistic) is not None:  # surveys of schema 1.0 have no "typical"
                metric.add(row[statistic] * unit, **{"class": row["class"]}, statistic=statistic, **scale)
        if row["metric"] == "latency":
            links.add(row["count"], **{"class": row["class"]}, **scale)
    rail = Metric("zeropp_fabric_rail_bandwidth_bytes_per_second", "Bandwidth of a rank while every rail is loaded.")
    for row in document["rails"]:
        if row["bandwidth"] is not None:
            rail.add(row["bandwidth"] * GIGA, rank=row["rank"], rail=row["rail"],
                     host=document["placement"][row["rank"]]["host"])
    fault = Metric("zeropp_fabric_fault", "A slow or corrupting rank, link or rail, with the value 1.")
    for row in document["faults"]:
        labels = {name: row.get(name, "") for name in ("kind", "class", "metric", "rank", "peer", "rail", "host")}
        fault.add(1, **labels)
    faults = Metric("zeropp_fabric_faults", "Number of slow or corrupting ranks, links and rails.")
    faults.add(len(document["faults"]), **scale)
    mistakes = Metric("zeropp_fabric_placement_mistakes", "Number of mistakes in the placement of ranks.")
    mistakes.add(len(document["mistakes"]), **scale)
    return head_of_run(document) + [latency, bandwidth, links, rail, fault, faults, mistakes]


def gate(document, when):
    """Metrics of zpp-validate gate, which says no time of its own: `when` is that of the file."""
    labels = {"baseline": document["baseline"].rpartition("/")[2].removesuffix(".json")}
    code = Metric("zeropp_gate_exit_code", "Exit code of the gate: 0 nothing moved, 1 something did, 4 too "
                  "few samples.")
    code.add(document["code"], **labels)
    quantities = Metric("zeropp_gate_quantities", "Number of compared quantities, by verdict.")
    verdicts = [each["verdict"] for each in document["findings"]]
    for verdict in sorted(set(verdicts)):
        quantities.add(verdicts.count(verdict), **labels, verdict=verdict)
    invalid = Metric("zeropp_gate_invalid_runs", "Number of runs that zpp-validate check did not accept.")
    invalid.add(len(document["invalid"]), **labels)
    missing = Metric("zeropp_gate_missing_rows", "Number of rows, seeds and times of the baseline that were not run.")
    missing.add(len(document["missing"]), **labels)
    return head("gate", document["code"] == 0, when, **labels) + [code, quantities, invalid, missing]


def comparison(document, when):
    """Metrics of zpp-validate compare: its exit code, the ratio of every row, and how many have which verdict. The
    label `compared` is the program whose files were: a machine has several comparisons."""
    labels = {"compared": document["program"]}
    code = Metric("zeropp_comparison_exit_code",
                  "Exit code of the comparison: 0 nothing slower, 1 something is, 2 it could not be made, 4 too "
                  "few samples.")
    code.add(document["code"], **labels)
    ratio = Metric("zeropp_comparison_time_ratio", "Median time after over before; above 1 is slower.")
    rows = Metric("zeropp_comparison_rows", "Number of compared rows, by verdict.")
    verdicts = [row["verdict"] for row in document["rows"]]
    for row in document["rows"]:
        ratio.add(row["ratio"], row=row["row"], verdict=row["verdict"], **labels)
    for verdict in sorted({*verdicts, "slower", "faster", "same", "undecided"}):
        rows.add(verdicts.count(verdict), verdict=verdict, **labels)
    return head("compare", document["code"] == 0, when, **labels) + [code, ratio, rows]


MADE_BY = {"zeropp-sweep": sweep, "zeropp-fabric": fabric, "zeropp-gate": gate, "zeropp-comparison": comparison}
