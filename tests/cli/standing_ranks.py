# ctest: name=standing_ranks labels=cli timeout=180 processors=4
"""Programs that run one after the other in ranks that stay (tests/support/zpp.py) end as they do in processes of their
own: exit code, text, files, and what a trace says beside times. They leave no open file and no thread. A call that ends
its job ends its ranks, and the next one has new ranks."""

import os
import pathlib
import re
import shutil
import signal
import threading

import zpp

RANKS = 4
# One after the other: what an earlier one leaves would change a later one.
CALLS = [
    ["--zero-stagee", "3"],
    zpp.ALL_FEATURES,
    ["--zero-stage", "0", "--zero-quantized-weights"],
    ["--node-size", "3"],
    ["--fp16", "--initial-scale-power", "30", "--zero-stage", "1", "--train-iters", "4"],
    [*zpp.ALL_FEATURES, "--weight-differences", "--bf16", "--error-feedback", "both", "--eval-interval", "1",
     "--all-gather-algorithm", "two-level"],
    ["--optimizer", "SGD", "--lr", "1e30", "--zero-stage", "2", "--bf16"],
    ["--offload-optimizer", "nvme", "--offload-optimizer-nvme-path", "/tmp", "--recompute-activations"],
    ["--save", "kept", "--save-interval", "1", "--json", "made.json"],
    ["--help"],
    ["--zero-stage", "1", "--adaptive-bits", "weights", "--zero-quantized-weights", "--measure-quantization-error", "1",
     "--node-size", "1", "--log-interval", "2"],
]
OF_THE_RUN = re.compile(r"time|seconds|tokens_per_second|wait|pid|command|sha256|run_id|started_at")


def steady(text):
    """Lines without the times of steps."""
    return re.sub(r"\d+ ms  \d+ tokens/s", "", text).splitlines()


def facts(path):
    """The content of the trace except times; None if there is no trace."""
    if not path.exists():
        return None
    root, groups = zpp.read_trace(path)
    counters = groups.pop("counters")
    groups["counters"] = dict(zip(counters["name"], counters["value"]))
    return repr(({name: value for name, value in root.items() if not OF_THE_RUN.search(name)},
                 {group: {name: value for name, value in columns.items() if not OF_THE_RUN.search(name)}
                  for group, columns in groups.items() if group != "timers"}))


class StandingRanks(zpp.TestCase):
    def ended(self, words, apart):
        """How a call ended, and what it left, in a folder that is the same for all."""
        place = self.folder / "place"
        place.mkdir()
        result = zpp.train(RANKS, "--deterministic", *words, out=place / "out", cwd=place, apart=apart)
        left = sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))
        found = {"code": result.code, "stdout": steady(result.stdout), "stderr": steady(result.stderr), "files": left,
                 "trace": facts(place / "out" / "train.h5")}
        shutil.rmtree(place)
        return found

    def kept_by_ranks(self):
        """Open files and threads of each rank."""
        own, = zpp.Ranks.idle[RANKS]
        return [(len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir())),
                 len(list(pathlib.Path(f"/proc/{pid}/task").iterdir()))) for pid in own.process.pids("standing_ranks")]

    def test_calls_end_as_in_processes_of_their_own(self):
        codes = set()
        for words in CALLS:
            with self.subTest(words=words):
                alone = self.ended(words, apart=True)
                codes.add(alone["code"])
                for name, value in self.ended(words, apart=False).items():
                    self.assertEqual(value, alone[name], name)
        self.assertEqual(codes, {zpp.OK, zpp.INVALID, zpp.USAGE, zpp.ENVIRONMENT})
        kept = self.kept_by_ranks()
        for words in CALLS:
            self.ended(words, apart=False)
        self.assertEqual(self.kept_by_ranks(), kept)

    def test_a_call_that_ends_its_job(self):
        """By a rank that is killed while it trains."""
        self.check_ok(self.train(RANKS, out=self.folder / "first"))
        own, = zpp.Ranks.idle[RANKS]
        ended = []
        call = threading.Thread(target=lambda: ended.append(self.train(RANKS, "--train-iters", 1_000_000,
                                                                       "--log-interval", 1)))
        call.start()
        printed = pathlib.Path(own.folder.name, "stdout")
        while "step 2/" not in printed.read_text():
            self.assertTrue(call.is_alive(), ended)
        os.kill(own.process.pids("standing_ranks")[1], signal.SIGKILL)
        call.join()
        self.assertNotEqual(ended[0].code, zpp.OK)
        self.assertIn("step 2/", ended[0].stdout)
        self.assertEqual(zpp.Ranks.idle[RANKS], [])
        self.check_ok(self.train(RANKS, out=self.folder / "next"))


if __name__ == "__main__":
    zpp.main()
