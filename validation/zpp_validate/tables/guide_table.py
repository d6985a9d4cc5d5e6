"""What guides to ZeRO promise beside what was measured, from the runs of jobscripts/local/guide_claims.sh.

usage: zpp-validate guide-table STUDY [--session S] [--output FILE]

STUDY has runs.tsv and runs/. Of the last session, or S: bytes of a rank per parameter, of the state (weights,
gradients, optimizer) and of everything; how much less than stage 0 the state is, beside the rule of the ZeRO paper
(arXiv 1910.02054, 16 bytes a parameter) at this number of ranks, and the guide's number for many; the memory that the
operating system saw, without that of a model of almost nothing; the fastest step with offload and without overlap.
Exits with 1 where a run failed."""

from pathlib import Path
import statistics

from zpp_validate.readers import session_runs
from zpp_validate.tables import markdown_table

COLUMNS = ("claim", "measured", "by its rule here", "claimed", "met")
STATE = ("master", "moments", "gradient_shard", "compute_shard", "resident_weights", "local_gradients")
MANY = {1: 4, 2: 8}  # the guide's "4x" and "8x"; stage 3: as many as there are ranks
CLOSE = 0.95  # of what a claim says


def rule(stage, ranks):
    """Bytes a parameter, the paper's: 16-bit weights 2, 16-bit gradients 2, fp32 optimizer 12."""
    sharded = {0: 0, 1: 12, 2: 14, 3: 16}[stage]
    return 16 - sharded + sharded / ranks


def memory_of(run):
    return dict(zip(run["memory"]["name"], run["memory"]["bytes_actual"]))


def state_of(run):
    return sum(memory_of(run)[name] for name in STATE)


def everything_of(run):
    return sum(size for name, size in memory_of(run).items() if not name.startswith("offloaded_")
               and name not in ("buffers_peak", "gpu_used"))


def step_of(run):
    """The fastest: what else runs on the machine only adds."""
    return min(run["steps"]["time"][run["warmup"]:])


def met(value, claimed):
    return "yes" if value >= CLOSE * claimed else "no"


def resident_peak(run):
    """Bytes of the host that the largest rank had, whoever asked for them; on a GPU little of it is the model's."""
    return max(int(file.read_text(encoding="utf-8")) for file in Path(f"{run['summary']}.peaks").iterdir())


def memory_rows(runs):
    base, ranks = runs["stage-0"], runs["stage-0"]["world_size"]
    parameters = sum(base["parameter_units"]["elements"])
    nothing = resident_peak(runs["nothing"])
    seen = lambda name: resident_peak(runs[name]) - nothing
    yield ("stage 0: state, all of a rank", f"{state_of(base) / parameters:.2f} and "
           f"{everything_of(base) / parameters:.2f} bytes a parameter", f"{rule(0, ranks):.2f}", "16",
           "")
    for stage in (1, 2, 3):
        run = runs[f"stage-{stage}"]
        ratio = state_of(base) / state_of(run)
        expected = rule(0, ranks) / rule(stage, ranks)
        many = MANY.get(stage, ranks)
        yield (f"stage {stage}: state smaller by", f"{ratio:.2f}x ({state_of(run) / parameters:.2f} bytes a parameter)",
               f"{expected:.2f}x",
               f"{many}x" + (" with many ranks" if stage < 3 else ", one for each rank"), met(ratio, many))
        yield (f"stage {stage}: all of a rank smaller by", f"{everything_of(base) / everything_of(run):.2f}x", "", "",
               "")
        yield (f"stage {stage}: resident memory smaller by",
               f"{seen('stage-0') / seen(f'stage-{stage}'):.2f}x ({seen(f'stage-{stage}') / 1e6:.0f} MB)", "", "", "")


def time_rows(runs):
    stock = statistics.mean(step_of(runs[name]) for name in ("stage-3", "stage-3-again") if name in runs)
    yield "stage 3: step", f"{1e3 * stock:.0f} ms (" + " and ".join(f"{1e3 * step_of(runs[name]):.0f}"
                                                                    for name in ("stage-3", "stage-3-again")
                                                                    if name in runs) + ")", "", "", ""
    for name, run in runs.items():
        if name.startswith("offload-"):
            yield (f"{name.replace('-', ' ', 1)}: step longer by",
                   f"{step_of(run) / stock:.2f}x ({1e3 * step_of(run):.0f} ms)", "", "", "")
    for stage in range(4):
        alone, beside = runs.get(f"stage-{stage}-alone"), runs[f"stage-{stage}"]
        if alone is not None:
            base = stock if stage == 3 else step_of(beside)
            saved = 1 - base / step_of(alone)
            yield (f"stage {stage}: overlap_comm makes a step shorter by",
                   f"{100 * saved:.0f} % ({1e3 * step_of(alone):.0f} to {1e3 * base:.0f} ms)", "", "shorter",
                   "yes" if saved > 0 else "no")


def table_of(runs):
    rows = [*memory_rows(runs), *time_rows(runs)]
    return markdown_table.aligned(COLUMNS, rows, COLUMNS), True


def main(words):
    return session_runs.main(words, "guide-table", __doc__, ("nothing", *(f"stage-{stage}" for stage in range(4))),
                             table_of, partial=True)
