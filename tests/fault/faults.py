# ctest: name=faults labels=fault,nightly timeout=240 processors=4
"""Faults of the machine, in every program: the exit code, the message, and that nothing is lost. One table, FAULTS x
programs; the programs belong to the build with hooks for faults (tests/support/planted_faults.cpp).

Every run prints one error line at most and leaves no partial file. The result of an earlier run in the same folder
stays as it is, byte for byte, unless a new result is complete."""

import dataclasses
import json
import shutil

import zpp

RANKS = 3
WATCHDOG = 124
MATRIX = {
    "base": {"train_batch_size": RANKS, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 3},
             "zeropp": {"backend": "host", "train_steps": 6, "evaluation_interval": 6, "evaluation_batches": 1,
                        "model": {"name": "gpt", "num_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
                                  "seq_length": 8}}},
    "seeds": [1],
    "settings": [{"name": "zero3", "level": "markov"}]}


@dataclasses.dataclass
class App:
    ranks: int
    words: list
    operation: int  # of a run, one in the middle


APPS = {
    "train": App(RANKS, zpp.TINY + ["--zero-stage", "3"], 60),
    "sweep": App(RANKS, ["-b", "4K", "-e", "4K", "-n", "1", "-w", "0", "--collective", "all_gather",
                         "--algorithm", "direct",
                         "--backend", "host"], 42),
    "converge": App(RANKS, ["--config", "matrix.json"], 60),
    # One process: it has no other ranks, and sends nothing.
    "kernels": App(1, ["--filter", "^copy", "--values", "1000", "--samples", "5", "--cache", "1M", "--backend", "host"],
                   5),
}
MULTIPLE = ("train", "sweep", "converge")


@dataclasses.dataclass
class Expected:
    """The expected end of a program with a fault. `words` may have {out}, its folder. `code`: the launcher's exit code;
    None: any code but 0. `verdict`: beginning of the verdict of the new trace; None: the old trace stays."""
    apps: tuple
    code: int | None
    parts: tuple = ()
    verdict: str | None = None
    words: tuple = ()
    fault: str = ""     # ZEROPP_FAULT; {n} is the program's operation
    launch: tuple = ()  # what begins the command of rank 1
    of_rank_1: tuple = ()  # more words of rank 1


DIED = ("rank 1 on ", " died; it was ", " of group ")
WAITS = (" waits in ", " of group ", "longer than --timeout")
SAVING = ("--save", "{out}/kept", "--save-interval", "1")
SAVES = ("cannot save the checkpoint after ",)
QUOTA = ("Disk quota exceeded", "free space there")
FAULTS = {
    "a rank is killed": Expected(MULTIPLE, None, DIED, fault="kill:1:{n}"),
    "rank 0 is killed": Expected(MULTIPLE, None, ("rank 0 on ", *DIED[1:]), fault="kill:0:{n}"),
    "a rank stops": Expected(("train", "sweep"), WATCHDOG, (*WAITS, "rank 1 on ", " is silent for ", " its last was "),
                             words=("--timeout", "2"),
                             fault="stop:1:{n}"),
    "a rank is late": Expected(("train", "sweep"), zpp.OK, verdict="VALID", fault="late:1:{n}"),
    "a message is lost": Expected(MULTIPLE, WATCHDOG, (*WAITS, " waits in exchange "), words=("--timeout", "2"),
                                  fault="drop:1:{n}"),
    # The sweep knows every value (its operation is of a run whose result is looked at). Training looks in verified
    # steps alone (silent_corruption): elsewhere one flipped bit is a slightly other gradient or weight on one rank,
    # which nothing tells from rounding.
    "a message is damaged": Expected(("sweep",), zpp.INVALID, ("index ", "wanted "), verdict="INVALID",
                                     fault="corrupt:1:{n}"),
    "a damaged message is found": Expected(("train",), zpp.INVALID, ("step 2 is damaged on rank 1", "zpp_fabric"),
                                           verdict="INVALID", fault="corrupt:1:{n}", words=("--verify-interval", "1")),
    "a damaged message is not found": Expected(("train",), zpp.OK, verdict="VALID", fault="corrupt:1:{n}"),
    "the disk is full": Expected(tuple(APPS), zpp.IO, ("No space left", "free space"), fault="disk_full:0:1"),
    "the disk fails": Expected(tuple(APPS), zpp.IO, ("Input/output error", "another place"), fault="disk_error:0:1"),
    "a quota is used up": Expected(tuple(APPS), zpp.IO, QUOTA, fault="quota_write:0:1"),
    "a quota is noticed when a file is flushed": Expected(tuple(APPS), zpp.IO, ("cannot flush ", *QUOTA),
                                                          fault="quota_flush:0:1"),
    "a quota of files is used up": Expected(tuple(APPS), zpp.IO, ("cannot create ", *QUOTA), fault="quota_name:0:1"),
    "the disk of a rank is full for a checkpoint": Expected(("train",), zpp.IO, ("No space left", "free space"),
                                                            fault="disk_full:1:2",
                                                            words=SAVING),
    "the quota of a rank is used up for a checkpoint": Expected(("train",), zpp.IO, ("rank-00001.bin", *QUOTA),
                                                                fault="quota_flush:1:2",
                                                                words=SAVING),
    "a rank has no memory to write a checkpoint": Expected(("train",), zpp.ENVIRONMENT,
                                                           (*SAVES, "out of memory", "more ranks"),
                                                           fault="no_memory:1:2", words=SAVING),
    "a rank cannot start the thread that writes": Expected(("train",), zpp.ENVIRONMENT,
                                                           (*SAVES, "a thread cannot be started", "raise the limit"),
                                                           fault="no_thread:1:2", words=SAVING),
    "ranks share a core": Expected(("train", "sweep"), zpp.OK, verdict="VALID", launch=("taskset", "--cpu-list", "0")),
    "another configuration": Expected(("train", "sweep"), zpp.USAGE,
                                      ("different configurations", "rank 1", "node_size"),
                                      of_rank_1=("--node-size", "1")),
    "another deadline": Expected(("train", "sweep"), zpp.USAGE,
                                 ("different configurations", "rank 1", "--timeout (5, rank 0 has 600)"),
                                 of_rank_1=("--timeout", "5")),
    "the clock of a rank is wrong": Expected(("train",), zpp.OK, verdict="VALID", fault="clock:1:86400"),
    "the clock of rank 0 is wrong": Expected(tuple(APPS), zpp.OK, verdict="VALID", fault="clock:0:86400"),
}
TRACE = {name: f"{name}.h5" for name in APPS}


class Faults(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.write_json("matrix.json", MATRIX)

    def run_app(self, name, out, expected=None):
        app = APPS[name]
        expected = expected or Expected((name,), zpp.OK)
        command = [zpp.TEST_BIN / f"defective_{name}", *app.words, *(word.format(out=out) for word in expected.words),
                   "--output", out]
        env = {"ZEROPP_FAULT": expected.fault.format(n=app.operation)} if expected.fault else {}
        groups = [(app.ranks, command)]
        if expected.launch or expected.of_rank_1:
            groups = [(1, command), (1, [*expected.launch, *command, *expected.of_rank_1]), (app.ranks - 2, command)]
        if app.ranks == 1:
            process = zpp.Process(command, cwd=self.folder, env=env)
        else:
            process = zpp.launch(groups, cwd=self.folder, env=env, patient=expected.code is None)
        self.addCleanup(process.stop)
        return process.end()

    def test_every_fault_in_every_program(self):
        before = dict(zip(APPS, zpp.side_by_side(self.healthy, APPS)))
        cases = [(fault, name) for fault, expected in FAULTS.items() for name in expected.apps]
        for (fault, name), problem in zip(cases,
                                          zpp.side_by_side(lambda case: self.problem(*case, before[case[1]]), cases)):
            with self.subTest(fault=fault, program=name):
                self.assertIsNone(problem, problem)

    def healthy(self, name):
        out = self.folder / f"before-{name}"
        result = self.run_app(name, out)
        self.assertEqual(result.code, zpp.OK, result)
        return out

    def problem(self, fault, name, before):
        """The difference from the table, or None."""
        expected = FAULTS[fault]
        out = self.folder / f"{fault}-{name}"
        out.mkdir()
        shutil.copy(before / TRACE[name], out)
        result = self.run_app(name, out, expected)
        errors = result.errors(f"zpp_{name}")
        if result.code == zpp.OK if expected.code is None else result.code != expected.code:
            return f"exit code, not {expected.code}: {result}"
        if len(errors) != (0 if expected.code == zpp.OK else 1):
            return f"{len(errors)} error lines: {result}"
        missing = [part for part in expected.parts if part not in errors[0]]
        if missing:
            return f"the line has no {missing}: {result}"
        partial = [path.name for path in out.rglob("*") if path.name.endswith(".partial")]
        if partial:
            return f"partial files are left: {partial}"
        if expected.verdict is None and (out / TRACE[name]).read_bytes() != (before / TRACE[name]).read_bytes():
            return "the earlier trace is not what it was"
        attributes = zpp.read_trace(out / TRACE[name])[0]
        if attributes["complete"] != 1 or not attributes["verdict"].startswith(expected.verdict or "VALID"):
            return f"the trace says {attributes['verdict']}"
        if expected.code == WATCHDOG:
            return self.problem_of_records(out)
        return None

    @staticmethod
    def problem_of_records(out):
        """The rank that hangs may not have written one."""
        records = [json.loads(path.read_text()) for path in sorted(out.glob("flight-record.*.json"))]
        if len(records) < RANKS - 1:
            return f"{len(records)} flight records"
        for record in records:
            numbers = [operation["number"] for operation in record["operations"]]
            if record["ranks"] != RANKS or not numbers or len(numbers) > 64 or numbers != sorted(set(numbers)):
                return f"a flight record of operations {numbers}"
        return None

    def test_a_shared_core_is_named(self):
        """zpp_fabric looks at the placement."""
        words = ["taskset", "--cpu-list", "0", zpp.BIN / "zpp_fabric", "--fabric-threshold", "1000",
                 "--fabric-bytes", "4K",
                 "--backend", "host", "--output", self.out]
        result = zpp.launch([(RANKS, words)], cwd=self.folder).end()
        self.assertIn(result.code, (zpp.OK, zpp.INVALID), result)
        self.assertRegex(result.stdout, rf"(?m)^# MISTAKE: {RANKS} ranks on .* share 1 processors")


if __name__ == "__main__":
    zpp.skip_without_open_mpi("the table of faults")
    zpp.main()
