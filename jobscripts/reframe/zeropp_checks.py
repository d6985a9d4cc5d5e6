"""ReFrame checks of zeropp on a system: zpp_train with each part of ZeRO++, and zpp_info.

A check passes when the run's own JSON summary says that it is valid and complete; its figures (step time, tokens a
second, bytes across nodes) come from there as well. README.md says how to run it and what can be set.
"""

import json
import os
import pathlib
import shlex
import sys

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_after, run_before, sanity_function, variable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from train_summary import TrainSummary  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SUMMARY = "summary.json"


class ZeroppCheck(rfm.RunOnlyRegressionTest):
    """A program of zeropp on `nodes` x `ranks_per_node` ranks; it leaves its summary in the stage directory."""

    build = variable(str, value=str(ROOT / "build"))  # folder that was built, or the prefix of an installation
    nodes = variable(int, value=2)
    ranks_per_node = variable(int, value=2)
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    sourcesdir = None
    keep_files = [SUMMARY]
    time_limit = "10m"
    program = None

    @run_after("init")
    def set_ranks(self):
        self.num_tasks = self.nodes * self.ranks_per_node
        self.num_tasks_per_node = self.ranks_per_node

    @run_before("run")
    def set_command(self):
        """Quotes the words of the job's script: a folder may have any name."""
        words = ["--json", SUMMARY, *self.flags()]
        if "emulated-nodes" in self.current_partition.features:
            words += ["--node-size", str(self.ranks_per_node)]
        self.executable = shlex.quote(os.path.join(self.build, "bin", self.program))
        self.executable_opts = [shlex.quote(word) for word in words]
        self.job.launcher.options = list(self.current_partition.extras.get("launcher_options", []))

    def flags(self):
        return []

    def ended_well(self):
        """Some schedulers do not say how a job ended: then the summary alone tells."""
        return sn.assert_in(self.job.exitcode, (0, None), "exit code {0}")


@rfm.simple_test
class ZppTrain(ZeroppCheck):
    """Trains with one part of ZeRO++, with none, or with all."""

    features = parameter(["none", "qwz", "hpz", "qgz", "all"])
    config = variable(str, value=str(ROOT / "inputs" / "site_check.json"))
    warmup = variable(int, value=2)  # steps that are not timed
    program = "zpp_train"
    descr = "zpp_train: valid, complete, and as fast and as frugal as its references"

    def flags(self):
        parts = {"qwz": ["--zero-quantized-weights"], "hpz": ["--zero-hpz-partition-size", str(self.ranks_per_node)],
                 "qgz": ["--zero-quantized-gradients"]}
        chosen = {"none": [], "all": list(parts)}.get(self.features, [self.features])
        return ["--config", self.config, "--output", ".", *(word for part in chosen for word in parts[part])]

    def summary(self):
        return TrainSummary(os.path.join(self.stagedir, SUMMARY), self.warmup)

    @sanity_function
    def is_valid_and_complete(self):
        problems = self.summary().problems(self.nodes, self.ranks_per_node)
        return sn.all([self.ended_well(), sn.assert_eq(problems, [], "; ".join(problems))])

    @performance_function("s")
    def step_time(self):
        return self.summary().step_time()

    @performance_function("tokens/s")
    def tokens_per_second_per_rank(self):
        return self.summary().tokens_per_second_per_rank()

    @performance_function("B")
    def bytes_across_nodes(self):
        return self.summary().bytes_across_nodes()

    @run_before("performance")
    def set_references(self):
        """Bytes are those of the closed form, to the byte; times are the partition's, where it states them."""
        site = self.current_partition.extras.get("zpp_train", {}).get(self.features, {})
        self.reference = {self.current_partition.fullname: {
            **{name: tuple(value) for name, value in site.items()},
            "bytes_across_nodes": (self.summary().derived_bytes_across_nodes(), 0, 0, "B")}}


@rfm.simple_test
class ZppInfo(ZeroppCheck):
    """The build, and the nodes and ranks that it finds."""

    program = "zpp_info"
    descr = "zpp_info: sees the nodes and ranks that the scheduler started"

    @sanity_function
    def sees_the_ranks(self):
        info = json.loads(pathlib.Path(self.stagedir, SUMMARY).read_text(encoding="utf-8"))
        topology = info["topology"]
        return sn.all([
            self.ended_well(),
            sn.assert_eq(info["schema"], "zeropp-info"),
            sn.assert_eq(topology["world_size"], self.nodes * self.ranks_per_node, "{0} ranks, not {1}"),
            sn.assert_eq(topology["node_count"], self.nodes, "{0} nodes, not {1}"),
            sn.assert_eq(topology["ranks_per_node"], self.ranks_per_node, "{0} ranks per node, not {1}"),
            sn.assert_true(info["codecs"] and info["all_gather"] and info["reduce_scatter"], "a registry is empty"),
            sn.assert_ne(info["versions"]["zeropp"], "", "no version")])
