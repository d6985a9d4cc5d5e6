#!/usr/bin/env python3
"""Runs a study over emulated networks: every run of inputs/studies/NAME.json that is missing, one after the other, each on
a cluster of its own (netns.py) with the rate that its axis `network` names; then the table.

usage: netns_study.py STUDY.json [OPTION...]
  --results DIR      [out/studies/NAME]; in runs/RUN/ the trace, the log and counters.json, all runs in summaries.json
  --build DIR        of zeropp [build]
  --only AXIS=VALUE  only runs with this value, as rate=1gbit; may be given for several axes. No table is made
  --busy SHARE       a run is disturbed when programs that are not its own took more than this share of the cores [0.1]
  --rounds N         after the first round go N - 1 times over the runs that were disturbed, also those of earlier calls,
                     and start them again; what was disturbed least counts, whatever its times [1]
  --patience SECONDS wait that long at most before a run until others take less than SHARE [0]
  --dry-run          print the commands and do nothing
  --help

Started again it runs what is missing only. Needs what netns.py and jobscripts/study.py need.
Exit codes: 0 ok; 1 a run failed, is INVALID, or its interfaces sent other bytes than it counted; 2 usage or study;
3 a Python module is missing; 5 files; 77 this machine does not allow namespaces; 130 interrupted.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import netns_hosts

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "jobscripts"), str(ROOT / "validation")]
import needed_modules  # noqa: E402
import study_file  # noqa: E402
import study_results  # noqa: E402

SKIPPED, INTERRUPTED = 77, 130
COUNTERS, SUMMARIES = "counters.json", "summaries.json"


def fail(code, message):
    print(f"netns_study: error: {message}", file=sys.stderr)
    sys.exit(code)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        fail(2, f"{message} (try --help)")


def parse(words):
    parser = Parser(prog="netns_study", add_help=False, allow_abbrev=False)
    parser.add_argument("study", nargs="?")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--busy", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--patience", type=float, default=0)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--help", "-h", action="store_true")
    options = parser.parse_args(words)
    if options.help:
        print(__doc__.strip())
        sys.exit(0)
    if options.study is None:
        parser.error("no study: name a file of inputs/studies/")
    if options.rounds < 1 or not 0 < options.busy <= 1 or options.patience < 0:
        parser.error("--rounds is 1 or more, --busy above 0 and up to 1, --patience 0 or more")
    return options


def chosen(study, only):
    """The runs that --only leaves."""
    wanted = [condition.partition("=")[::2] for condition in only]
    for axis, value in wanted:
        if value not in study.axes.get(axis, ()):
            known = [f"{axis}={value}" for axis, values in study.axes.items() for value in values]
            raise study_file.StudyError(f"--only {axis}={value} names no value of an axis: known are {', '.join(known)}")
    return [run for run in study.runs if all(run.values[axis] == value for axis, value in wanted)]


def rate_of(run):
    """Rate of the run's link. Raises StudyError where its `network` has keys that netns.py does not know."""
    network = run.environment.get("network", {})
    unknown = sorted(set(network) - {"rate"})
    if unknown or "rate" not in network:
        raise study_file.StudyError(f"{run.name}: network holds {', '.join(unknown) or 'no rate'}: give it one key, rate")
    try:
        netns_hosts.bits_per_second(str(network["rate"]))
    except ValueError as error:
        raise study_file.StudyError(f"{run.name}: network.rate: {error}") from None
    return network["rate"]


def command(options, run, place):
    """study.py keeps what the run leaves; netns.py is its launcher."""
    return [sys.executable, str(ROOT / "jobscripts" / "study.py"), "run", options.study, str(run.index),
            "--results", str(options.results), "--build", str(options.build), "--provides", "network", "--declare-nodes",
            "--launcher", sys.executable, str(ROOT / "jobscripts" / "local" / "netns.py"), "--hosts", "@NODES@",
            "--ranks-per-host", "@RANKS_PER_NODE@", "--rate", rate_of(run), "--counters", str(place / COUNTERS)]


class Signals:
    """Ends the current run when a signal asks this script to end, and remembers that it came."""

    def __init__(self):
        self.came, self.child = False, None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.end)

    def end(self, *_):
        self.came = True
        if self.child:
            self.child.send_signal(signal.SIGTERM)

    def run(self, words):
        """The exit code; INTERRUPTED after a signal, also one that came before."""
        if not self.came:
            self.child = subprocess.Popen(words, cwd=ROOT)
            if self.came:  # between the two lines
                self.end()
            code = self.child.wait()
            self.child = None
        return INTERRUPTED if self.came else code

    def wait_until_quiet(self, busy, patience):
        """Waits until programs take less than the share `busy` of the cores for a second, or the patience ends."""
        end = time.monotonic() + patience
        while time.monotonic() < end and not self.came:
            before, begin = netns_hosts.busy_seconds(), time.monotonic()
            time.sleep(1)
            if (netns_hosts.busy_seconds() - before) / (time.monotonic() - begin) / os.cpu_count() < busy:
                return


def is_complete(study, results, run):
    """Its trace is whole, and so is what its interfaces sent: what ends a run may come between the two."""
    try:
        json.loads((study_results.folder(results, run) / COUNTERS).read_text())
    except (FileNotFoundError, ValueError):
        return False
    return study_results.why_missing(study, results, run) is None


def others(place):
    """The share of the cores that other programs took while a complete run ran."""
    return json.loads((place / COUNTERS).read_text())["others_cpu_share"]


def perform(options, run, place, signals):
    """Runs it; what an earlier, complete run left in `place` stays if that was disturbed less, or if this one fails."""
    aside = place.with_name(f".{place.name}.before")
    shutil.rmtree(aside, ignore_errors=True)
    if place.exists():
        place.rename(aside)
    place.mkdir(parents=True)
    signals.wait_until_quiet(options.busy, options.patience)
    code = signals.run(command(options, run, place))
    if code == 0 and others(place) > options.busy:
        print(f"{run.name}: disturbed: others took {others(place):.0%} of the cores", flush=True)
    if aside.exists():
        if code != 0 or others(aside) <= others(place):
            shutil.rmtree(place)
            aside.rename(place)
            return 0
        shutil.rmtree(aside)
    return code


def main(words):
    options = parse(words)
    try:
        study = study_file.load(options.study)
        if options.results is None:
            options.results = study_results.default_results(study)
        options.results, options.study = options.results.absolute(), str(Path(options.study).absolute())
        if options.dry_run:
            for run in chosen(study, options.only):
                print(shlex.join(command(options, run, study_results.folder(options.results, run).absolute())))
            return 0
        absent = needed_modules.missing(("h5py", "numpy"))
        if absent:
            fail(3, f"{sys.executable} has no Python module {', '.join(absent)}: install what is missing, or start this script with another Python")
        for run in study.runs:
            rate_of(run)
        return work(options, study)
    except study_file.StudyError as error:
        fail(2, error)
    except OSError as error:
        fail(5, f"{error.filename}: {error.strerror}: check the folder and the space on its disk")


def work(options, study):
    from zpp_validate.tables import network_summary

    signals = Signals()
    failed = {}
    for number in range(options.rounds):
        for run in chosen(study, options.only):
            place = study_results.folder(options.results, run)
            complete = is_complete(study, options.results, run)
            if complete and (number == 0 or others(place) <= options.busy):
                continue
            if not complete:
                shutil.rmtree(place, ignore_errors=True)
            failed[run.index] = perform(options, run, place, signals)
            if signals.came:
                return INTERRUPTED
            if failed[run.index] == SKIPPED:
                return SKIPPED
    summaries = [network_summary.summarize(study, run, study_results.trace_path(study, options.results, run),
                                           study_results.folder(options.results, run) / COUNTERS)
                 for run in study.runs if is_complete(study, options.results, run)]
    network_summary.write(options.results / SUMMARIES, study, summaries)
    if options.only:
        return int(any(failed.values()))
    table = [sys.executable, str(ROOT / "validation" / "zpp-validate"), "network-table", str(options.results / SUMMARIES),
             "--output", str(options.results / "table.md")]
    return subprocess.run(table, check=False).returncode or int(any(failed.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
