# ctest: name=timeline_events timeout=60 labels=oracle
"""zpp-validate timeline on traces made here: the file is in the trace-event format, slices nest, and times equal the
times of the trace."""

import json
import math
import tempfile
import unittest
from pathlib import Path

import numpy as np

import synthetic_trace
import validate

# Keys that the format asks for in each kind of event, beside ph, name, pid and tid.
REQUIRED = {"X": {"ts", "dur"}, "C": {"ts", "args"}, "i": {"ts", "s"}, "M": {"args"}}
STEPS, COLLECTIVES, FIRST_RANK = 1, 2, 10


def make(seed, **case):
    """A synthetic trace with times that differ everywhere, forward and backward together longer than some steps."""
    attributes, groups = synthetic_trace.make(dict(synthetic_trace.FEATURES, hpz=2) | case)
    random, steps = np.random.default_rng(seed), groups["steps"]
    time = random.uniform(0.1, 0.2, len(steps["time"]))
    steps |= {"time": time, "time_forward": time * random.uniform(0.3, 1.0, len(time)),
              "time_backward": time * random.uniform(0.3, 1.0, len(time)),
              "time_communication_exposed": time * random.uniform(0, 0.5, len(time))}
    groups["steps"] = {name: list(map(float, v)) if name.startswith("time") else v for name, v in steps.items()}
    for group in ("timers", "collectives"):
        groups[group]["seconds"] = random.uniform(0, 3, len(groups[group]["seconds"])).tolist()
    return attributes, groups


class Timeline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_on(self, path, code=0, output=None):
        done = validate.run("timeline", path, "-o", output or self.folder / "out.json")
        self.assertEqual(done.returncode, code, done)
        self.assertEqual(done.stderr.count("\n"), 1 if code else 0, done)
        return done

    def timeline(self, attributes, groups):
        synthetic_trace.write(self.folder / "train.h5", attributes, groups)
        self.run_on(self.folder / "train.h5")
        return json.loads((self.folder / "out.json").read_text(), parse_constant=self.fail)  # NaN is no JSON

    def check_format(self, document):
        self.assertEqual(set(document), {"traceEvents", "displayTimeUnit", "otherData"})
        self.assertIn(document["displayTimeUnit"], ("ms", "ns"))
        last, named, used, open_slices = 0, set(), set(), {}
        for event in document["traceEvents"]:
            self.assertLessEqual({"ph", "name", "pid", "tid"} | REQUIRED[event["ph"]], set(event), event)
            self.assertIsInstance(event["name"], str)
            self.assertTrue(isinstance(event["pid"], int) and isinstance(event["tid"], int), event)
            if event["ph"] == "M":
                self.assertIn(event["name"], ("process_name", "process_sort_index", "thread_name", "thread_sort_index"))
                named |= {(event["pid"], event["tid"])}
                continue
            used.add((event["pid"], event["tid"]))
            begin = round(event["ts"] * 1000)
            self.assertGreaterEqual(begin, last, event)
            last = begin
            if event["ph"] == "X":
                end = begin + round(event["dur"] * 1000)
                self.assertGreaterEqual(end, begin)
                stack = open_slices.setdefault((event["pid"], event["tid"]), [])
                while stack and stack[-1] <= begin:
                    stack.pop()
                if stack:
                    self.assertLessEqual(end, stack[-1], f"reaches out of the slice that it began in: {event}")
                stack.append(end)
            elif event["ph"] == "C":
                self.assertTrue(event["args"] and all(math.isfinite(value) for value in event["args"].values()), event)
            else:
                self.assertIn(event["s"], "gpt")
        self.assertLessEqual(used, named)

    def slices(self, document, process, thread):
        return [event for event in document["traceEvents"]
                if event["ph"] == "X" and (event["pid"], event["tid"]) == (process, thread)]

    def process_name(self, document, process):
        (name,) = [event["args"]["name"] for event in document["traceEvents"]
                   if (event["name"], event["pid"]) == ("process_name", process)]
        return name

    def check_times(self, document, groups):
        steps, begin = groups["steps"], 0
        shown = [self.slices(document, STEPS, thread) for thread in (1, 2, 3)]
        self.assertEqual([len(track) for track in shown], [len(steps["time"])] * 3)
        for index, (step, forward, backward) in enumerate(zip(*shown)):
            self.assertAlmostEqual(step["ts"], begin, 2)
            for event, column in ((step, "time"), (forward, "time_forward"), (backward, "time_backward")):
                self.assertAlmostEqual(event["dur"], 1e6 * steps[column][index], 2)
                self.assertGreaterEqual(event["ts"], step["ts"])
                self.assertLessEqual(event["ts"] + event["dur"], step["ts"] + step["dur"] + 1e-3)
                self.assertEqual(event["args"]["of"], "largest over ranks")
            self.assertEqual(step["name"], f"step {index}" + (" (skipped)" if steps["skipped"][index] else ""))
            self.assertEqual(step["args"]["bytes_inter_node"], steps["bytes_inter_node"][index])
            begin += 1e6 * steps["time"][index]
        exposed = [event["args"]["exposed"] for event in document["traceEvents"]
                   if event["name"] == "exposed communication (s)"]
        self.assertEqual(exposed, steps["time_communication_exposed"])
        marks = [event for event in document["traceEvents"] if event["ph"] == "i"]
        self.assertEqual([mark["args"]["step"] for mark in marks], groups["evaluations"]["step"])
        for mark in marks:
            self.assertAlmostEqual(mark["ts"], 1e6 * sum(steps["time"][: mark["args"]["step"]]), 2)

    def check_sums(self, document, groups):
        timers = groups["timers"]
        for rank in set(timers["rank"]):
            own = {category: seconds
                   for r, category, seconds in zip(*(timers[name] for name in ("rank", "category", "seconds")))
                   if r == rank}
            whole, *parts = self.slices(document, FIRST_RANK + rank, 1)
            self.assertEqual((whole["name"], whole["args"]["of"]), ("training loop", f"rank {rank}"))
            self.assertIn("a sum", whole["args"]["meaning"])
            self.assertAlmostEqual(whole["dur"], 1e6 * sum(own.values()), 1)
            for part in parts:
                self.assertAlmostEqual(part["dur"], 1e6 * own.pop(part["name"]), 2)
            self.assertEqual(own, {})
        shown = sum((self.slices(document, COLLECTIVES, thread) for thread in range(1, 9)), [])
        rows, phases = groups["collectives"], set(groups["collectives"]["phase"])
        wholes = [event for event in shown if event["name"] in phases]
        self.assertEqual({event["name"] for event in wholes}, phases)
        self.assertEqual(len(shown), len(rows["phase"]) + len(phases))
        for whole in wholes:
            self.assertIn("a sum", whole["args"]["meaning"])
            seconds = sum(s for s, phase in zip(rows["seconds"], rows["phase"]) if phase == whole["name"])
            self.assertAlmostEqual(whole["dur"], 1e6 * seconds, 1)

    def test_traces(self):
        cases = {"as is": {}, "skipped": dict(skipped=(1, 0, 1, 0)), "many ranks": dict(local=4), "one rank": dict(
            nodes=1, local=1, hpz=1, qwz=False, qgz=False, gather="flat", reduce="flat"), "no evaluation": dict(
                evaluations=(), interval=0), "stage 1": dict(stage=1, hpz=1, qwz=False, qgz=False)}
        for seed, (name, case) in enumerate(cases.items()):
            with self.subTest(name):
                attributes, groups = make(seed, **case)
                document = self.timeline(attributes, groups)
                self.check_format(document)
                self.check_times(document, groups)
                self.check_sums(document, groups)
                ranks = [event["pid"] for event in document["traceEvents"]
                         if event["name"] == "process_name" and event["pid"] >= FIRST_RANK]
                self.assertEqual(sorted(ranks), [FIRST_RANK + rank for rank in range(attributes["world_size"])])
                self.assertIn("largest over ranks", self.process_name(document, STEPS))

    def test_json_and_what_a_trace_may_lack(self):
        attributes, groups = make(9, evaluations=(), interval=0)
        wanted = self.timeline(attributes, groups)
        path = self.folder / "train.json"
        path.write_text(json.dumps({**attributes, **groups}))
        self.run_on(path)
        self.assertEqual(json.loads((self.folder / "out.json").read_text()), wanted)
        path.write_text(json.dumps({**attributes, **groups, "steps": {}, "collectives": {}}))
        self.run_on(path)
        document = json.loads((self.folder / "out.json").read_text())
        self.check_format(document)
        self.assertEqual({event["pid"] for event in document["traceEvents"]}, {FIRST_RANK + rank for rank in range(4)})
        path.write_text(json.dumps({**attributes, "backend": "cuda", **groups}))
        self.run_on(path)
        document = json.loads((self.folder / "out.json").read_text())
        self.assertEqual(self.slices(document, COLLECTIVES, 1)[0]["args"]["time"], "to enqueue, of the host")

    def test_what_is_no_trace(self):
        attributes, groups = make(1)
        path = self.folder / "bad.json"
        for document, part in (({**attributes}, "it holds no times"), ({"schema": "other"}, 'its schema is "other"'),
                               ([], "no object"),
                               ({**attributes, "steps": {"time": [1.0]}}, "it has no time_forward")):
            path.write_text(json.dumps(document))
            self.assertIn(part, self.run_on(path, 2).stderr)
        self.assertIn("cannot be read", self.run_on(self.folder / "nowhere.h5", 5).stderr)
        synthetic_trace.write(self.folder / "train.h5", attributes, groups)
        self.assertIn("cannot be read or written",
                      self.run_on(self.folder / "train.h5", 5, self.folder / "nowhere" / "x").stderr)


unittest.main(verbosity=2)
