# ctest: name=random_options timeout=600 labels=cli processors=4
"""Random options of zpp_train, made from the option table of zpp_info --json: each set ends with VALID, from the
program and from the trace checker, or with one error line and exit code 2 or 3; pairs of runs that must agree bit for
bit do. The seed is printed; a set that fails is printed with as few options as still fail.

ZEROPP_RANDOM_SEED names another seed, ZEROPP_RANDOM_SETS another number of sets: a campaign."""

import collections
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import random
import shlex
import shutil
import subprocess
import sys
import tempfile

import zpp

zpp.skip_without_gpus(1)
RANKS = [1, 2, 2, 3, 4, 4, 6, 8]
STEPS = 3
JOBS = 2
# Set for every run, or what a run only takes where a file of that kind lies.
FIXED = {"zeropp.train_steps", "zeropp.backend", "zeropp.transport", "zeropp.data.path", "zeropp.checkpoint.load",
         "zeropp.checkpoint.weights"}
MOST = {"elements": 10**6, "bytes": 2**30, "ranks": 8, "steps": 5, "tokens": 600}  # by unit
# Words that change no bit of a deterministic run; they are added to the words of a set.
PAIRS = {"again": [], "hpZ off": ["--zero-hpz-partition-size", "1"],
         "hpZ on the host": ["--zero-hpz-partition-size", "2", "--hpz-device", "cpu"],
         "no overlap": ["--no-overlap-comm"],
         "recomputation": ["--recompute-activations"], "offload": ["--offload-optimizer", "cpu"],
         "log": ["--log-interval", "1"], "kept images": ["--keep-weight-images"]}


class Table:
    """The option table, and a random value for each option."""

    def __init__(self, folder):
        path = folder / "info.json"
        subprocess.run([zpp.INFO, "--json", path], check=True, capture_output=True)
        info = json.loads(path.read_text())
        self.options = [option for option in info["options"] if option["path"] not in FIXED]
        self.codecs = info["codecs"]
        names = {kind: [row["name"] for row in info[kind]] for kind in ("all_gather", "reduce_scatter", "models")}
        self.texts = {"zeropp.all_gather_algorithm": names["all_gather"],
                      "zeropp.reduce_scatter_algorithm": names["reduce_scatter"], "zeropp.model.name": names["models"],
                      "zeropp.data.source": ["markov", "text"], "zeropp.checkpoint.save": ["save"]}
        self.paths = {option["flag"]: option["path"] for option in self.options}
        self.folder, self.text = folder, folder / "text"
        self.text.write_bytes(random.Random(1).randbytes(20_000))

    def codec(self, rng):
        codec = rng.choice(self.codecs)
        blocks = [block for block in (16, 32, 64, 128, 256, 512)
                  if codec["minimum_block"] <= block <= codec["maximum_block"]]
        return f"{codec['name']}:{rng.choice(blocks)}" if blocks and rng.random() < 0.7 else codec["name"]

    def integer(self, option, rng):
        least = int(option["minimum"] or 0)
        most = max(least, MOST.get(option["unit"], least + 8))
        if option["maximum"] is not None:
            most = min(most, int(option["maximum"]))
        return min(most, least + int(math.exp(rng.uniform(0, math.log(most - least + 1)))) - rng.randint(0, 1))

    def number(self, option, rng):
        if option["minimum"] is not None and option["maximum"] is not None and option["maximum"] < 1e6:
            return rng.uniform(option["minimum"], option["maximum"])
        return max((option["default"] or 1) * rng.choice([0, 0.5, 1, 2]), option["minimum"] or 0)

    def words(self, option, rng):
        """Flag and value, or none where a value takes more than the table says."""
        flag, kind = option["flag"], option["kind"]
        if kind == "boolean":
            return [flag if rng.random() < 0.7 else flag.replace("--", "--no-", 1)]
        if option["choices"]:
            return [flag, rng.choice(option["choices"])]
        if kind == "codec":
            return [flag, self.codec(rng)]
        if kind == "integer":
            return [flag, max(self.integer(option, rng), int(option["minimum"] or 0))]
        if kind == "number":
            return [flag, self.number(option, rng)]
        if kind == "structured":
            keys = rng.sample(["weight_codec", "gradient_codec_intra", "gradient_codec_inter"], rng.randint(1, 3))
            return [flag, json.dumps([{"from_step": rng.randint(0, 2), **{key: self.codec(rng) for key in keys}}])]
        if option["path"].endswith("nvme_path"):
            return [flag, tempfile.gettempdir()]
        return [flag, rng.choice(self.texts[option["path"]])]


@dataclasses.dataclass
class End:
    """How a run ended, as a word to count by; what is wrong with that, if anything; the error line; the trace."""
    outcome: str
    wrong: str | None = None
    message: str = ""
    trace: pathlib.Path | None = None


class OptionSet:
    """Ranks, and per option (by its flag) the words that set it."""

    def __init__(self, table, seed, number):
        self.table, self.rng = table, random.Random(f"{seed}/{number}")
        self.folder = table.folder / str(number)
        self.folder.mkdir()
        self.ranks = self.rng.choice(RANKS)
        count = min(len(table.options), 1 + int(self.rng.expovariate(1 / 7)))
        self.options = {option["flag"]: table.words(option, self.rng)
                        for option in self.rng.sample(table.options, count)}
        if number % 2:  # every step is verified: an alarm is a failure
            self.options["--verify-interval"] = ["--verify-interval", 1]
            self.options.pop("--verify-action", None)

    def words(self, options):
        given = ["--train-iters", STEPS, *(word for words in options.values() for word in words)]
        return given + (["--data-path", self.table.text] if "text" in given else [])

    def run(self, options, *more):
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        try:
            result = zpp.train(self.ranks, *self.words(options), *more, out=out, cwd=out)
        except AssertionError as hang:
            return End("hang", str(hang))
        errors, trace = result.errors(), out / "train.h5"
        if result.code in (zpp.USAGE, zpp.ENVIRONMENT):
            wrong = None if len(errors) == 1 and not trace.exists() else f"not one line, or a trace:\n{result}"
            return End(f"code {result.code}", wrong, "".join(errors))
        if result.code == zpp.INVALID and "not finite" in result.stdout + result.stderr:
            return End("not finite")  # a rate or a scale that no training stands
        if result.code != zpp.OK or "VALID" not in result.stdout or "INVALID" in result.stdout:
            return End(f"code {result.code}", str(result))
        return End("VALID", trace=trace)

    def judge(self, options):
        end = self.run(options)
        if end.trace is not None:
            checked = zpp.check_trace(end.trace)
            if checked.code != zpp.OK:
                return End("VALID, and the checker says otherwise", str(checked))
        return end

    def repaired(self, message):
        """The options without the first that the message names; none where it names none."""
        for flag in self.options:
            if flag in message or self.table.paths[flag].removeprefix("zeropp.") in message:
                return {other: words for other, words in self.options.items() if other != flag}
        return None

    def shrunk(self, outcome):
        """The fewest options that still have this outcome."""
        options = dict(self.options)
        for flag in list(options):
            fewer = {other: words for other, words in options.items() if other != flag}
            end = self.judge(fewer)
            if end.wrong and end.outcome == outcome:
                options = fewer
        return options

    def pair(self):
        """(outcome, what is wrong) of two deterministic runs that must have the same parameters."""
        # Differences in 16 bits are of other weights with offload (docs/concepts/weight-differences.md).
        name = self.rng.choice([name for name in PAIRS if name != "offload"
                                or "--weight-differences" not in self.options])
        changed = PAIRS[name]
        options = {flag: words for flag, words in self.options.items()
                   if not {flag, flag.replace("--", "--no-", 1)} & {"--deterministic", "--hash-parameters", *changed}}
        ends = [self.run(options, "--deterministic", *words) for words in ([], changed)]
        for end in ends:
            if end.wrong:
                return f"{name}: {end.outcome}", end.wrong
            if end.trace is None:
                return f"{name}: refused", None
        hashes = [zpp.read_trace(end.trace)[0]["parameters_hash"] for end in ends]
        if len(set(hashes)) == 1:
            return f"{name}: equal", None
        return (f"{name}: differs", f"{self.ranks} ranks: {self.words(options)} --deterministic, with and without "
                f"{changed}")

    def play(self):
        """(outcomes, what is wrong): a refused set is tried again without the option that the error names."""
        outcomes = []
        while True:
            end = self.judge(self.options)
            outcomes.append(end.outcome)
            if end.wrong:
                return outcomes, (f"{end.wrong}\nwith as few options as end so: {self.ranks} ranks, "
                                  f"{shlex.join(map(str, self.words(self.shrunk(end.outcome))))}")
            if end.outcome == "VALID" and self.rng.random() < 0.5:
                outcome, wrong = self.pair()
                return [*outcomes, f"pair {outcome}"], wrong
            fewer = self.repaired(end.message)
            if fewer is None or len(outcomes) == 6:
                return outcomes, None
            self.options = fewer


def main():
    seed = int(os.environ.get("ZEROPP_RANDOM_SEED", 1))
    sets = int(os.environ.get("ZEROPP_RANDOM_SETS", 40))
    print(f"ZEROPP_RANDOM_SEED={seed} ZEROPP_RANDOM_SETS={sets}", flush=True)
    counts, failures = collections.Counter(), []

    def play(number):
        options = OptionSet(table, seed, number)
        outcomes, wrong = options.play()
        shutil.rmtree(options.folder)
        counts.update(outcomes)
        if wrong:
            failures.append(number)
            print(f"--- set {number}: {wrong}", flush=True)

    with tempfile.TemporaryDirectory(prefix="zpp-") as folder:
        table = Table(pathlib.Path(folder))
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(play, range(sets)))
    for outcome, count in sorted(counts.items()):
        print(f"{count:6} {outcome}")
    print(f"{len(failures)} of {sets} sets failed")
    sys.exit(1 if failures or not counts["VALID"] else 0)


main()
