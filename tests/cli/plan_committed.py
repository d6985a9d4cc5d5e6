# ctest: name=plan_committed labels=cli,nightly timeout=180
"""zpp_plan beside every trace of zpp_train in results/: the bytes of each step are the planned ones, and memory is
within 3 % of the measured peak. Prints a line for each run, and compares what docs/howto/planning.md says of them."""

import json
import re

import planned
import zpp
from zpp_validate.readers import kept_results

TOLERANCE = 0.03  # of the measured peak
FEWEST = 10  # different configurations that have one


def traces():
    """(path, trace) of every run of the trainer."""
    for path, text in kept_results.json_files(zpp.SOURCE / "results"):
        trace = json.loads(text)
        if isinstance(trace, dict) and trace.get("schema") == "zeropp-trace" and trace.get("app") == "train":
            yield path, trace


# Until then a shard in the compute dtype lay beside the master, and all-gathers in place had a workspace.
GATHERS_MASTER_SINCE = "2026-11-26T17:00"

# Until then no part had the tables by which updates write images of weights: kept images, and images that persistent
# units send.
TABLES_SINCE, TABLES_OF_REFRESHES_SINCE = "2026-11-27T12:00", "2026-11-28T09:00"
# Until then the activations of every run on a GPU had room for the scores of a deterministic attention.
SCORES_IF_DETERMINISTIC_SINCE = "2026-11-29T00:00"


def unlisted(trace):
    """Parts of the memory that the program of the trace had otherwise, or not at all."""
    keeps_images = json.loads(trace["config_json"])["zeropp"].get("keep_weight_images", False)
    since = TABLES_SINCE if keeps_images else TABLES_OF_REFRESHES_SINCE
    return (*("weight_image_tables",) * (trace["started_at"] < since), *("activations",) * had_scores(trace))


def had_scores(trace):
    return trace["backend"] == "cuda" and trace["started_at"] < SCORES_IF_DETERMINISTIC_SINCE


def most_scores(trace):
    """Bytes that room for the scores of one sequence adds to the activations of a run, at most."""
    model = json.loads(trace["config_json"])["zeropp"]["model"]
    heads, length = model["num_attention_heads"], model["seq_length"]
    small_arrays = 1 << 17
    return heads * length * (2 * length + 8) + small_arrays


def gathers_master(trace):
    """Whether the program of the trace gathers the master where nothing is offloaded."""
    parts = dict(zip(trace["memory"]["name"], trace["memory"]["bytes_actual"]))
    offloads = any(name.startswith("offloaded_") and name != "offloaded_activations" for name in parts)
    return trace["started_at"] >= GATHERS_MASTER_SINCE and (offloads or parts["compute_shard"] == 0)


def job(trace):
    """The values that determine a plan."""
    return trace["config_json"], trace["node_count"], trace["ranks_per_node"]


class Committed(zpp.TestCase):
    def check_bytes(self, trace, plan):
        first = self.first.get(job(trace))
        self.assertEqual(planned.wrong_steps(trace, plan, first), [])
        # A step after one that was skipped finds the secondary shards of its weights: a plan knows of no overflow.
        skipped = any(trace["steps"]["skipped"])
        self.assertEqual(planned.wrong_collectives(trace, plan, but=("weights", "weights_secondary") if skipped else (),
                                                   first=first), [])

    def check_activations(self, trace, plan):
        held, planned_bytes = planned.parts(trace)["activations"][1], planned.planned_parts(plan)["activations"]
        self.assertGreaterEqual(held, planned_bytes)
        self.assertLessEqual(held, planned_bytes + (most_scores(trace) if had_scores(trace) else 0))

    def check_with_shard(self, trace, plan):
        self.check_bytes(trace, plan)
        self.check_activations(trace, plan)
        self.assertEqual(planned.wrong_memory(trace, plan, but=("arena", "compute_shard", *unlisted(trace))), [])
        return "a shard in the compute dtype"

    def check_current(self, trace, plan):
        self.check_bytes(trace, plan)
        self.check_activations(trace, plan)
        self.assertEqual(planned.wrong_memory(trace, plan, but=unlisted(trace)), [])
        peak = dict(zip(trace["memory"]["name"], trace["memory"]["bytes_actual"])).get("buffers_peak")
        if peak is None:
            self.assertEqual(trace["backend"], "host")
            return "and the host has no peak of buffers"
        # The peak of a GPU counts only its own memory.
        total = sum(size for name, size in planned.planned_parts(plan).items()
                    if trace["backend"] != "cuda" or not name.startswith("offloaded_"))
        error = total / peak - 1
        self.errors.append(abs(error))
        self.assertLess(abs(error), TOLERANCE)
        self.measured.add(job(trace))
        return f"memory {total} of measured {peak} ({100 * error:+.3f} %)"

    def test_bytes_and_memory(self):
        found = list(traces())
        jobs = {job(trace): trace for _, trace in found}
        differences = {of: trace for of, trace in jobs.items() if planned.sends_differences(trace)}
        plans = dict(zip(jobs,
                         zpp.side_by_side(lambda trace: planned.plan(trace, int(planned.sends_differences(trace))),
                                          jobs.values())))
        self.first = dict(zip(differences, zpp.side_by_side(planned.plan, differences.values())))
        self.measured, self.errors = set(), []
        for path, trace in found:
            plan = plans[job(trace)]
            check = self.check_current if gathers_master(trace) else self.check_with_shard
            with self.subTest(str(path)):
                verdict = check(trace, plan)
                print(f"{path}: {len(trace['steps']['loss'])} steps of {planned.traffic(plan)['step']} bytes, "
                      f"{verdict}")
        self.assertGreaterEqual(len(self.measured), FEWEST)
        page = " ".join((zpp.SOURCE / "docs/howto/planning.md").read_text().split())
        said = re.findall(r"For all (\d+) committed runs .*? For the (\d+) whose .*? within (\S+) % of", page)
        self.assertEqual(said, [(str(len(found)), str(len(self.errors)), f"{100 * max(self.errors):.1f}")])


zpp.main()
