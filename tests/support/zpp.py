"""Frame of the end-to-end tests: runs programs under mpirun, with a deadline, and reads what they left.

A test calls train() or launch() and looks at the Result; zpp.main() runs the unittest cases of the script.
"""

import atexit
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import h5py

BIN = pathlib.Path(os.environ["ZEROPP_BIN"])
TEST_BIN = pathlib.Path(os.environ["ZEROPP_TEST_BIN"])
SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
MPIRUN = shlex.split(os.environ["ZEROPP_MPIRUN"])
OPEN_MPI = os.environ["ZEROPP_LAUNCHER"] == "openmpi"
TRAIN = str(BIN / "zpp_train")
INFO = str(BIN / "zpp_info")
VALIDATE = (sys.executable, str(SOURCE / "validation" / "zpp-validate"))

# Where the tests train: "host", or in the entries NAME.cuda-TRANSPORT "cuda-mpi" or "cuda-nccl".
DEVICE = os.environ.get("ZEROPP_TEST_DEVICE", "host")
BACKEND, _, TRANSPORT = DEVICE.partition("-")
# Seconds, far beyond any run here, also where ten processes wait for each processor: what passes it hangs.
DEADLINE = 180
SLOW = 5  # seconds, beyond which a command is printed with its time, once it has ended

# A GPT that trains in milliseconds.
TINY = ["--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "2", "--seq-length", "16",
        "--micro-batch-size", "2", "--train-iters", "3", "--backend", BACKEND,
        *(["--transport", TRANSPORT] if TRANSPORT else [])]
NO_RING = "warning: files are read and written by threads: "  # in containers that forbid io_uring
FROM_COPIES = "info: weight differences resume from the checkpoint's copies of the weights"
COPIES_GIVEN_UP = ("copies of the weights, which weight differences are added to, are given up: "
                   "this run sends none")
LEFT_OUT = ": write what is meant"  # a file without the keys whose defaults differ from DeepSpeed's
# Tests of any combination of options have these warnings too; the test hpz_warning knows when there is one.
HPZ_WARNINGS = ("nothing here: a step gathers each weight only once",
                "the groups that hold a secondary copy cross nodes")
ALL_FEATURES = ["--node-size", "2", "--zero-quantized-weights", "--zero-hpz-partition-size", "2",
                "--zero-quantized-gradients"]

# Open MPI keeps the folder of each run below its own folder here. A program that ends removes the parent of its folder
# if the parent is empty, while another program may be about to make a folder in it.
SESSIONS = tempfile.TemporaryDirectory(prefix="zpp-mpi-")

OK, INVALID, USAGE, ENVIRONMENT, UNDECIDED, IO, REQUEUE, INTERRUPTED, SKIPPED = 0, 1, 2, 3, 4, 5, 85, 130, 77


class Result:
    """Result of a command that ended."""

    def __init__(self, command, code, stdout, stderr):
        self.command = shlex.join(map(str, command))
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def errors(self, program="zpp_train"):
        """The error lines of our programs; the launcher adds lines of its own."""
        begin = f"{program}: error: "
        return [line[len(begin):] for line in self.stderr.splitlines() if line.startswith(begin)]

    def __str__(self):
        return f"{self.command}\nexit code {self.code}\n{self.stdout}\n{self.stderr}"


class Process:
    """A command that runs; end() waits for it. `patient`: the launcher gives ranks one second to end before
    it kills them, and takes that second whenever a rank fails."""

    def __init__(self, command, cwd=None, env=None, patient=False):
        self.command, self.began = list(map(str, command)), time.monotonic()
        quick = {} if patient else {"OMPI_MCA_odls_base_sigkill_timeout": "0"}
        own = {"OMPI_MCA_orte_tmpdir_base": tempfile.mkdtemp(dir=SESSIONS.name)}
        self.process = subprocess.Popen(self.command, cwd=cwd, env={**os.environ, **own, **quick, **(env or {})},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, start_new_session=True)

    def end(self, timeout=DEADLINE):
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise AssertionError(f"hangs: still running after {timeout} s: "
                                 f"{shlex.join(self.command)}") from None
        seconds = time.monotonic() - self.began
        if seconds > SLOW:
            print(f"{seconds:.1f} s: {shlex.join(self.command)}", flush=True)
        return Result(self.command, self.process.returncode, out, err)

    def stop(self):
        """The launcher ends its ranks when it is asked to."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.process.poll() is None:
                os.killpg(self.process.pid, number)
                try:
                    self.process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    pass

    def wait_for_line(self, text):
        """Reads standard output until a line holds `text`; fails when the program ends before."""
        seen = []
        for line in self.process.stdout:
            seen.append(line)
            if text in line:
                return line
        raise AssertionError(f"ended without {text!r}: {''.join(seen)}{self.process.stderr.read()}")

    def pids(self, name):
        """Process ids of the ranks, by the name of their program, in the order they were started."""
        def children(pid):
            try:
                task = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            except FileNotFoundError:
                return []
            return [int(child) for child in task]

        found, waiting = [], [self.process.pid]
        while waiting:
            pid = waiting.pop(0)
            waiting += children(pid)
            try:
                comm = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            except FileNotFoundError:
                continue
            if comm == name:
                found.append(pid)
        return sorted(found)

    @contextlib.contextmanager
    def stopped(self, name):
        """Ranks of the program `name` stand still within the block."""
        pids = self.pids(name)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)


def launch(groups, **options):
    """Starts ranks of several commands as one job: [(ranks, [word, ...]), ...]."""
    words = []
    for ranks, command in groups:
        words += ([":"] if words else []) + ["-n", str(ranks), *command]
    return Process(MPIRUN + words, **options)


class Connection:
    """To a rank that runs one program after the other."""

    def __init__(self, connected):
        connected.settimeout(DEADLINE)
        self.socket, self.lines = connected, connected.makefile("rb")

    def send(self, data):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the rank has ended
            self.socket.sendall(data)

    def line(self):
        """Empty where the rank has ended."""
        with contextlib.suppress(ConnectionResetError):
            return self.lines.readline()
        return b""

    def close(self):
        self.lines.close()
        self.socket.close()


class Ranks:
    """Ranks that run one program after the other (tests/tools/standing_ranks.cpp): to start them takes longer than most
    programs do."""

    PROGRAMS = ("zpp_train", "zpp_sweep", "zpp_fabric", "zpp_converge")
    idle = collections.defaultdict(list)  # by their number

    def __init__(self, ranks):
        self.folder = tempfile.TemporaryDirectory(prefix="zpp-ranks-")
        path = f"{self.folder.name}/socket"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen(ranks)
            server.settimeout(DEADLINE)
            self.process = launch([(ranks, [TEST_BIN / "standing_ranks", path])])
            sockets = [server.accept()[0] for _ in range(ranks)]
        self.connections = [Connection(one) for one in sockets]
        self.connections.sort(key=lambda connection: int(connection.line()))

    def call(self, command, cwd):
        """(Result, whether these ranks are there for another call: one that ends its job ends them)."""
        files = [pathlib.Path(self.folder.name, name) for name in ("stdout", "stderr")]
        for file in files:
            file.write_bytes(b"")
        words = b"".join(os.fsencode(word) + b"\0" for word in (cwd or os.getcwd(), *files, *command))
        shown = [*MPIRUN, "-n", len(self.connections), *command]
        began = time.monotonic()
        for connection in self.connections:
            connection.send(b"%d\n%s" % (len(words), words))
        try:
            answers = [connection.line() for connection in self.connections]
        except TimeoutError:
            self.process.stop()
            raise AssertionError(f"hangs: still running after {DEADLINE} s: {shlex.join(map(str, shown))}") from None
        alive = all(answers)
        ended = None if alive else self.end()
        code = next(filter(None, map(int, answers)), OK) if alive else ended.code
        out, err = (file.read_text() for file in files)
        seconds = time.monotonic() - began
        if seconds > SLOW:
            print(f"{seconds:.1f} s: {shlex.join(map(str, shown))}", flush=True)
        return Result(shown, code, out, err + ("" if alive else ended.stderr)), alive

    def end(self):
        for connection in self.connections:
            connection.close()
        self.process.began = time.monotonic()  # the end is what may take long
        return self.process.end()

    @classmethod
    def run(cls, ranks, command, cwd):
        """Result of a command; it runs in ranks that are idle, or in new ones."""
        try:
            own = cls.idle[ranks].pop()
        except IndexError:
            own = cls(ranks)
        result, alive = own.call(command, cwd)
        if alive:
            cls.idle[ranks].append(own)
        else:
            own.folder.cleanup()
        return result

    @classmethod
    def end_all(cls):
        """Results of the launchers."""
        idle, cls.idle = [own for all_of in cls.idle.values() for own in all_of], collections.defaultdict(list)
        ended = [own.end() for own in idle]
        for own in idle:
            own.folder.cleanup()
        return ended


atexit.register(Ranks.end_all)

# NCCL's kernels wait on a GPU for kernels of other ranks: jobs that share GPUs would take turns in waiting.
NCCL_JOB = threading.Lock()


def run(ranks, command, cwd=None, apart=False, **options):
    """Runs a program to its end: one of Ranks.PROGRAMS in ranks that ran others before, unless it is to be `apart`, has
    options of launch(), or runs on GPUs, where a process has routes and a peak of memory for all its life. Over NCCL
    one at a time."""
    words = list(map(str, command))
    on_host = BACKEND == "host" and ("--backend" not in words or words[words.index("--backend") + 1] == "host")
    if on_host and os.path.basename(words[0]) in Ranks.PROGRAMS and not apart and not options:
        return Ranks.run(ranks, words, cwd)
    with NCCL_JOB if "nccl" in words else contextlib.nullcontext():
        return launch([(ranks, words)], cwd=cwd, **options).end()


def train(ranks, *words, out=None, **options):
    """Runs zpp_train of the tiny model, as run() does."""
    return run(ranks, train_command(*words, out=out), **options)


def train_command(*words, out=None):
    """The flags of TINY, unless `words` has them or names a model that refuses them, then `words`."""
    words = [str(word) for word in words]
    command = [TRAIN]
    for flag, value in zip(TINY[::2], TINY[1::2]):
        if flag not in words and not (flag == "--num-attention-heads" and "quadratic" in words):
            command += [flag, value]
    return command + words + (["--output", str(out)] if out is not None else [])


def gpus():
    """The GPUs that programs see, as zpp_info lists them."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "info.json"
        subprocess.run([INFO, "--json", path], check=True, capture_output=True)
        return json.loads(path.read_text())["gpus"]


def skip_without_gpus(ranks):
    """Ends the script with exit code 77 where DEVICE needs more GPUs than there are for `ranks`."""
    needed = {"host": 0, "cuda-mpi": 1, "cuda-nccl": ranks}[DEVICE]
    found = len(gpus()) if needed else 0
    if found < needed:
        print(f"skipped: {DEVICE} at {ranks} ranks needs {needed} GPUs, {found} are visible")
        sys.exit(SKIPPED)


def skip_without_open_mpi(what):
    """Ends the script with exit code 77 where this build's MPI is another: `what` starts programs with Open MPI."""
    if not OPEN_MPI:
        print(f"skipped: {what} starts programs with Open MPI, and this build's MPI is another")
        sys.exit(SKIPPED)


def side_by_side(function, items, gpus=BACKEND == "cuda"):
    """[function(item), ...]; two at a time, for a launcher waits more than it works, and more on a large machine.
    With `gpus` never more: a GPU's driver makes one program's context at a time, and refuses one too many."""
    with concurrent.futures.ThreadPoolExecutor(2 if gpus else max(2, (os.cpu_count() or 2) // 8)) as pool:
        return list(pool.map(function, items))


def read_trace(path):
    """(root attributes, {group: {column or attribute: values}}) with text as str."""
    def plain(value):
        if isinstance(value, bytes):
            return value.decode()
        return value.item() if hasattr(value, "item") and value.ndim == 0 else value

    with h5py.File(path, "r") as file:
        root = {name: plain(value) for name, value in file.attrs.items()}
        groups = {}
        for name, group in file.items():
            groups[name] = {key: plain(value) for key, value in group.attrs.items()}
            for column, dataset in group.items():
                groups[name][column] = [plain(value) for value in dataset[()].tolist()]
    return root, groups


def ignored_keys(line):
    """The keys of a warning `FILE: ignored: KEY, KEY (WHY); KEY (WHY)`."""
    groups = re.findall(r"(?:^|; )([^()]*) \([^()]*\)", line.split(": ignored: ")[1])
    return [key for group in groups for key in group.split(", ")]


def check_trace(*paths):
    """The result of zpp-validate check for `paths`, judged in this process: starting another Python takes longer."""
    from zpp_validate.checkers import check_trace as checker

    judged = list(checker.verdicts([str(path) for path in paths]))
    return Result(["zpp-validate", "check", *paths], OK if all(valid for valid, _ in judged) else INVALID,
                  "".join(f"{line}\n" for _, lines in judged for line in lines), "")


class TestCase(unittest.TestCase):
    """Each test has a folder of its own, self.folder; runs write to self.out, made by the program."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="zpp-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.out = self.folder / "out"

    def train(self, ranks, *words, **options):
        options.setdefault("out", self.out)
        options.setdefault("cwd", self.folder)
        return train(ranks, *words, **options)

    def start(self, ranks, *words, env=None):
        """zpp_train, running; stopped when the test ends."""
        process = launch([(ranks, train_command(*words, out=self.out))], cwd=self.folder, env=env, patient=True)
        self.addCleanup(process.stop)
        return process

    def check_ok(self, result):
        self.assertEqual(result.code, OK, result)
        known = (NO_RING, FROM_COPIES, LEFT_OUT, *HPZ_WARNINGS)
        self.assertEqual([line for line in result.stderr.splitlines() if not any(words in line for words in known)], [],
                         result)
        return result

    def check_fails(self, result, code, *parts, program="zpp_train"):
        """Exit code, exactly one error line, which holds all `parts`, and no file left."""
        self.assertEqual(result.code, code, result)
        errors = result.errors(program)
        self.assertEqual(len(errors), 1, result)
        for part in parts:
            self.assertIn(part, errors[0])
        self.check_nothing_left(result)
        return errors[0]

    def check_accepted(self, *traces):
        """By zpp-validate check, each of them."""
        judged = check_trace(*traces)
        verdicts = [line.rpartition(": ")[2] for line in judged.stdout.splitlines()]
        self.assertEqual((judged.code, verdicts), (OK, ["VALID"] * len(traces)), judged)

    def check_tampering(self, paths, changes):
        """A copy of the trace with a change (name of a trace in `paths`, dataset, rows, value, words) is INVALID with
        these words. Without rows (None) an attribute changes; a number keeps its type."""
        copies = []
        for index, (name, where, row, value, _) in enumerate(changes):
            copies.append(self.folder / f"{index}.h5")
            shutil.copyfile(paths[name], copies[-1])
            with h5py.File(copies[-1], "r+") as file:
                if row is not None:
                    file[where][row] = value
                    continue
                group, _, attribute = where.rpartition("/")
                attributes = file[group].attrs
                if isinstance(value, str):
                    attributes[attribute] = value
                else:
                    attributes.modify(attribute, value)
        judged = check_trace(*copies)
        for path, (name, where, _, _, words) in zip(copies, changes):
            with self.subTest(name, where=where):
                lines = [line for line in judged.stdout.splitlines() if line.startswith(f"{path}: INVALID: ")]
                self.assertIn(words, "\n".join(lines), judged)

    def check_nothing_left(self, result):
        left = [p for p in self.folder.rglob("*") if p.name.endswith((".h5", ".partial"))]
        self.assertEqual(left, [], result)

    def trace(self, out=None):
        return read_trace((out or self.out) / "train.h5")

    def write_json(self, name, value):
        path = self.folder / name
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path


def main():
    """Runs the cases of the calling script. Exit code 77 when every case was skipped."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result, left = program.result, [ended for ended in Ranks.end_all() if ended.code != OK]
    for ended in left:
        print(f"ranks did not end in order: {ended}")
    if not result.wasSuccessful() or left:
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun and len(result.skipped) == result.testsRun else 0)
