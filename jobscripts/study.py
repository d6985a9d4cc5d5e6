#!/usr/bin/env python3
"""The runs of a study (jobscripts/README.md): which there are, which are missing, run one, collect them.

usage: study.py name STUDY.json
       study.py warmup STUDY.json
       study.py list STUDY.json [--json]
       study.py missing STUDY.json [--results DIR] [--why | --arrays] [--except I,J,...]
       study.py run STUDY.json INDEX [--results DIR] [--build DIR] [--provides KEY] [--declare-nodes] [--dry-run]
                [--launcher WORD...]
       study.py collect STUDY.json [--results DIR] [--output DIR]

name prints the study's name, warmup the number of steps that are not timed. list prints a line per run: index, name,
nodes, ranks per node; with --json everything, also the commands. missing prints the indices of the runs that are not
complete; with --arrays a line per layout: nodes, ranks per node, minutes, indices as sbatch --array takes them. run
starts run INDEX with the words of the launcher before it, and keeps its files in RESULTS/runs/NAME/. It does not start
a complete run again, and resumes a run that left checkpoints. In the launcher's words @NODES@, @RANKS@ and
@RANKS_PER_NODE@ become the run's numbers. collect writes table.md, table.tsv, plot.png and plot.svg.

Exit codes: 0 ok; 1 a run is missing or INVALID (collect), or ended well without a complete trace (run); 2 command line
or study; 3 a Python module is missing; 5 files; 85 a run reached its time limit and saved; 124 a run reached its time
limit and did not save; run else exits with the code of the program (README.md).
"""

import argparse
import json
import math
import re
import shlex
import shutil
import sys
from pathlib import Path

import environment_snapshot
import needed_modules
import study_file
import study_results
import supervise
from study_file import ROOT, StudyError

JUDGING = ("h5py", "numpy")  # modules that say whether a run is complete
STARTING = 180  # seconds that a job has beside the time limit of its run; a signal warns it 120 s before its end


def main(words=None):
    arguments = parse(words)
    try:
        study = study_file.load(arguments.study)
        if arguments.results is None:
            arguments.results = study_results.default_results(study)
        return arguments.command(study, arguments)
    except StudyError as error:
        return fail(2, error)
    except OSError as error:
        return fail(5, f"{error.filename or arguments.results}: {error.strerror}: check the folder and the space on its disk")
    except ModuleNotFoundError as error:
        return without(error.name)


def fail(code, message):
    print(f"study: error: {message}", file=sys.stderr)
    return code


def without(modules):
    return fail(3, f"{sys.executable} has no Python module {modules}: install it there, or call the program with another Python, for example "
                   f"/usr/bin/python3 {sys.argv[0]}; in jobs ZEROPP_PYTHON names it")


def indices(text):
    """Indices of --except. Raises ValueError."""
    return {int(part) for part in text.split(",") if part}


def parse(words):
    parser = argparse.ArgumentParser(prog="study.py", description="The runs of a study (jobscripts/README.md).",
                                     allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, function, text):
        added = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        added.add_argument("study", type=Path, metavar="STUDY.json")
        added.add_argument("--results", type=Path, metavar="DIR", help="[out/studies/NAME]")
        added.set_defaults(command=function)
        return added

    command("name", print_name, "the study's name")
    command("warmup", print_warmup, "steps at the begin of a run that are not timed")
    added = command("list", list_runs, "a line per run: index, name, nodes, ranks per node")
    added.add_argument("--json", action="store_true", help="everything, as JSON")
    added.add_argument("--build", type=Path, default=Path("build"), metavar="DIR", help="of zeropp [build]")
    added = command("missing", list_missing, "the indices of the runs that are not complete, one per line")
    added.add_argument("--why", action="store_true", help="with name and reason")
    added.add_argument("--arrays", action="store_true", help="by layout: nodes, ranks per node, minutes, indices")
    added.add_argument("--except", dest="excepted", type=indices, default=set(), metavar="I,J,...",
                       help="leave these out")
    added = command("run", run_one, "starts run INDEX, unless it is complete")
    added.add_argument("index", type=int, metavar="INDEX")
    added.add_argument("--build", type=Path, default=Path("build"), metavar="DIR", help="of zeropp [build]")
    added.add_argument("--provides", action="append", default=[], metavar="KEY",
                       help="what of the run's environment the launcher brings (network); others are refused")
    added.add_argument("--declare-nodes", action="store_true",
                       help="nodes are emulated: adds --node-size with the ranks per node")
    added.add_argument("--dry-run", action="store_true", help="print the command and do nothing")
    added.add_argument("--launcher", nargs=argparse.REMAINDER, default=[], metavar="WORD",
                       help="all words after it begin the command, as mpirun -n @RANKS@")
    added = command("collect", collect, "table.md, table.tsv, plot.png and plot.svg from the traces")
    added.add_argument("--output", type=Path, metavar="DIR", help="[that of --results]")
    return parser.parse_args(words)


def command_words(study, run, arguments):
    """The command without its launcher."""
    declared = ["--node-size", str(run.ranks_per_node)] if getattr(arguments, "declare_nodes", False) else []
    output = study_results.folder(arguments.results, run).absolute()
    return [str((ROOT / arguments.build).absolute() / "bin" / study.app), *run.fill(run.flags), *declared,
            *checkpoint_words(study, run, arguments), "--output", str(output)]


def checkpoint_words(study, run, arguments):
    """Flags with which the run resumes from the checkpoints of an earlier start, where there are any."""
    if study.save_interval is None:
        return []
    place = str(study_results.checkpoints_path(arguments.results, run).absolute())
    interval = ["--save-interval", str(study.save_interval)] if study.save_interval > 0 else []
    return ["--save", place, "--load", place, *interval]


def print_name(study, _):
    print(study.name)
    return 0


def print_warmup(study, _):
    print(study.warmup)
    return 0


def list_runs(study, arguments):
    if arguments.json:
        print(json.dumps([{"index": run.index, "name": run.name, "values": run.values, "nodes": run.nodes,
                           "ranks_per_node": run.ranks_per_node, "environment": run.environment,
                           "time_limit": study.time_limit,
                           "folder": str(study_results.folder(arguments.results, run)),
                           "command": command_words(study, run, arguments)} for run in study.runs], indent=2))
    else:
        for run in study.runs:
            print(f"{run.index}\t{run.name}\t{run.nodes}\t{run.ranks_per_node}")
    return 0


def list_missing(study, arguments):
    layouts = {}
    for run in study.runs:
        why = None if run.index in arguments.excepted else study_results.why_missing(study, arguments.results, run)
        if why is None:
            continue
        if not arguments.arrays:
            print(f"{run.index}\t{run.name}\t{why}" if arguments.why else run.index)
            continue
        require_provided(study, run, ())
        layouts.setdefault((run.nodes, run.ranks_per_node), []).append(run.index)
    for (nodes, ranks_per_node), chosen in layouts.items():
        saving = 0 if study.save_interval is None else supervise.SAVING
        minutes = math.ceil((study.time_limit + saving + supervise.GRACE + STARTING) / 60)
        print(f"{nodes}\t{ranks_per_node}\t{minutes}\t{ranges(chosen)}")
    return 0


def ranges(chosen):
    """[0, 1, 2, 5] as "0-2,5"."""
    parts = []
    for index in chosen:
        if parts and parts[-1][1] == index - 1:
            parts[-1][1] = index
        else:
            parts.append([index, index])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


def require_provided(study, run, provided):
    unmet = sorted(set(run.environment) - set(provided))
    if unmet:
        raise StudyError(f"{study.path}: {run.name} needs {', '.join(unmet)}, which this runner does not provide: "
                         "use jobscripts/local/netns")


def run_one(study, arguments):
    run = study.run(arguments.index)
    require_provided(study, run, arguments.provides)
    words = run.fill(arguments.launcher) + command_words(study, run, arguments)
    if arguments.dry_run:
        print(shlex.join(words))
        return 0
    absent = needed_modules.missing(JUDGING)
    if absent:
        return without(", ".join(absent))
    if study_results.why_missing(study, arguments.results, run) is None:
        print(f"{run.name}: complete")
        return 0
    return start(study, run, words, arguments.results)


def start(study, run, words, results):
    """Runs it and keeps what it leaves; returns the exit code."""
    place = study_results.folder(results, run)
    place.mkdir(parents=True, exist_ok=True)
    log = place / "output.log"
    log.unlink(missing_ok=True)  # first, so that nobody takes an earlier start's for this one's once its trace is gone
    make_room(study, run, results)
    record = {"run": run.identity(), "command": words, "exit": None, "seconds": None}
    study_results.write_record(results, run, record)
    environment_snapshot.write(place / "environment.txt")
    print(f"{run.name}: {shlex.join(words)}", flush=True)
    try:
        code, seconds, late = supervise.supervise(words, ROOT, log, study.time_limit, study.save_interval is not None)
    except OSError as error:
        if error.filename != words[0]:
            raise
        return fail(2, f"{run.name}: no program {words[0]} ({error.strerror}): build it, or correct the launcher")
    study_results.write_record(results, run, {**record, "exit": code, "seconds": round(seconds, 3)})
    if code != 0 and late:
        return fail(code, f"{run.name}: exit code {code}: {over(study, code)} (see {log})")
    if code != 0:
        return fail(code, f"{run.name}: exit code {code} after {seconds:.0f} s: {last_line(log)} (see {log})")
    why = study_results.why_missing(study, results, run)
    if why is not None:
        return fail(1, f"{run.name}: {why} (see {log})")
    print(f"{run.name}: complete after {seconds:.0f} s")
    return 0


def over(study, code):
    """Message about a run that reached the study's time limit."""
    limit = f"the study's time_limit of {study.time_limit} s is over"
    if code == supervise.ASKED:
        return f"{limit}, and the run saved where it stands: start it again"
    if study.save_interval is not None:
        return f"{limit}, and the run did not end when it was asked to save: set a larger time_limit"
    return (f"{limit}, and the run saves nothing: set a larger time_limit, or save_interval, so that it resumes when "
            f"started again")


def make_room(study, run, results):
    """Removes checkpoints of other flags, and the trace of an earlier start that this one does not resume. A run that
    resumes keeps the earlier trace: zpp_train renames it."""
    saved = study_results.checkpoints_path(results, run)
    if saved.is_dir() and study_results.read_record(results, run).get("run") != run.identity():
        shutil.rmtree(saved)  # of other flags
    if study.save_interval is None or not saved.is_dir():
        study_results.trace_path(study, results, run).unlink(missing_ok=True)


def last_line(path):
    """The message of a failed program: its error line, else the last line of output, which may be the launcher's."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    own = (line for line in lines if re.match(r"zpp_\w+: error: ", line))
    return next(own, lines[-1] if lines else "no output")


def collect(study, arguments):
    from zpp_validate.tables import study_plot, study_table

    rows = [study_table.Row(run.index, run.name, run.values, run.nodes, run.ranks_per_node, run.environment,
                            study_results.why_missing(study, arguments.results, run)) for run in study.runs]
    for run, row in zip(study.runs, rows):
        row.read(study_results.trace_path(study, arguments.results, run), study.warmup)
    output = arguments.output or arguments.results
    output.mkdir(parents=True, exist_ok=True)
    text = study_table.markdown(study.name, study.description, list(study.axes), rows)
    print(text, end="")
    study_results.write_text(output / "table.md", text)
    study_results.write_text(output / "table.tsv", study_table.tab_separated(list(study.axes), rows))
    for name in ("plot.png", "plot.svg"):
        with study_results.replaced(output / name) as partial:
            study_plot.draw(study.name, rows, [partial])
    wrong = [f"{row.name} ({problem})" for row in rows for problem in row.problems]
    return fail(1, f"{len(wrong)} problems: {'; '.join(wrong)}") if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
