# ctest: name=standard_output labels=fault timeout=300 processors=2
"""Every program that cannot write its standard output, full or closed, says so and ends with code 5, after its files
are written. A slow standard output, or one that does not block, loses nothing. A standard error that nobody reads does
not delay a job past its deadline."""

import os
import subprocess
import threading
import time

import programs
import zpp

MESSAGE = r"error: cannot write to standard output: {}; what is missing there is lost: .* start again$"
# By what standard output is: how the shell makes it, and how the message calls that.
OUTPUTS = {"full": (">/dev/full", "No space left on device"), "closed": (">&-", "it is closed")}
PRINT_ONLY = {"info": [], "train": ["--help"], "sweep": ["--help-all"], "converge": ["--help"], "plan": ["--version"],
              "fabric": ["--version"], "kernels": ["--backend", "host", "--list"]}


class StandardOutput(zpp.TestCase):
    def run_to(self, output, words):
        """The program, without a launcher, whose standard output would be the launcher's."""
        shell = ["sh", "-c", f'exec "$@" {output}', "sh", *map(str, words)]
        return zpp.Process(shell, cwd=self.folder).end()

    def check_said(self, result, reason, program):
        self.assertEqual(result.code, zpp.IO, result)
        lines = [line for line in result.stderr.splitlines() if "error: " in line]
        self.assertEqual(len(lines), 1, result)
        self.assertRegex(lines[0], rf"^{program}: " + MESSAGE.format(reason))

    def test_what_only_prints(self):
        cases = [(program, words, output) for program, words in PRINT_ONLY.items() for output in OUTPUTS.values()]
        results = zpp.side_by_side(lambda case: self.run_to(case[2][0], [zpp.BIN / f"zpp_{case[0]}", *case[1]]), cases)
        for (program, _, (output, reason)), result in zip(cases, results):
            with self.subTest(program=program, output=output):
                self.check_said(result, reason, f"zpp_{program}")

    def test_what_writes_files_has_written_them(self):
        programs.write_inputs(self)
        table = [*programs.TRACED.items(), *(("plan", [name, *words]) for name, words in programs.PLANNED.items())]
        cases = [(program, words, output, reason, self.folder / f"{number}-{name}")
                 for number, (program, words) in enumerate(table) for name, (output, reason) in OUTPUTS.items()]

        def run(case):
            program, words, output, _, out = case
            return self.run_to(output, [zpp.BIN / f"zpp_{program}", *words, "--output", out])
        for (program, words, output, reason, out), result in zip(cases, zpp.side_by_side(run, cases)):
            with self.subTest(program=program, words=words, output=output):
                self.check_said(result, reason, f"zpp_{program}")
                self.check_accepted(out / f"{program}.h5")

    def test_what_is_not_a_trace(self):
        table = [["savings", "--table", "--json"], ["calibrate", "--gpu", "h100", "--node-gbit", "400", "--calibrated"]]
        for words in table:
            for name, (output, reason) in OUTPUTS.items():
                with self.subTest(words=words, output=name):
                    made = self.folder / f"{words[0]}-{name}.json"
                    result = self.run_to(output, [zpp.BIN / "zpp_plan", *words, made])
                    self.check_said(result, reason, "zpp_plan")
                    self.assertTrue(made.is_file(), result)

    def test_validation(self):
        self.check_ok(self.train(1))
        trace = self.out / "train.h5"
        (self.folder / "many").mkdir()
        many = []
        for number in range(40):  # more than Python's buffer holds
            many.append(self.folder / "many" / f"{'n' * 240}-{number}.h5")
            many[-1].symlink_to(trace)
        table = [("", ["--help"]), (" check", ["check", "--help"]), (" check", ["check", trace]),
                 (" check", ["check", *many]), (" summarize", ["summarize", trace])]
        for program, words in table:
            for name, (output, reason) in OUTPUTS.items():
                with self.subTest(words=words[:2], output=name):
                    result = self.run_to(output, [*zpp.VALIDATE, *words])
                    self.check_said(result, reason, rf"zpp-validate(?:{program})?")

    def test_the_common_command(self):
        for words in (["--help"], ["--version"]):
            for name, (output, _) in OUTPUTS.items():
                with self.subTest(words=words, output=name):
                    result = self.run_to(output, [zpp.BIN / "zpp", *words])
                    self.assertEqual((result.code, len(result.stderr.splitlines())), (zpp.IO, 1), result)
                    self.assertIn("zpp: error: cannot write to standard output", result.stderr)

    def test_an_error_keeps_its_code(self):
        for output, _ in OUTPUTS.values():
            result = self.run_to(output, [zpp.BIN / "zpp_plan", "--no-such-flag"])
            self.assertEqual(result.code, zpp.USAGE, result)

    def test_a_closed_output_is_no_file_of_the_run(self):
        """No file gets the number 1: what is printed would be in it."""
        self.check_said(self.run_to(">&-", [*zpp.train_command(out=self.out)]), "it is closed", "zpp_train")
        self.check_accepted(self.out / "train.h5")

    def test_a_pipe_that_is_read_late(self):
        """Also one that does not block, as some programs leave it; it is smaller than what is printed."""
        words = [zpp.BIN / "zpp_info", "--config-keys"]
        whole = subprocess.run(words, capture_output=True, check=True).stdout
        for blocks in (True, False):
            with self.subTest(blocks=blocks):
                reader, writer = os.pipe()
                os.set_blocking(writer, blocks)
                with open(writer, "wb") as end:
                    fill_but(end.fileno(), 1024)
                    process = subprocess.Popen(words, stdout=end, stderr=subprocess.PIPE)
                read = []
                thread = threading.Thread(target=lambda: read.append(read_late(reader)))
                thread.start()
                _, errors = process.communicate(timeout=zpp.DEADLINE)
                thread.join()
                self.assertEqual((process.returncode, errors), (zpp.OK, b""))
                self.assertEqual(read[0].lstrip(b"\0"), whole)


class StandardError(zpp.TestCase):
    def test_one_that_nobody_reads_does_not_stop_the_watchdog(self):
        """Both ranks print to one pipe that is full: the deadline ends them all the same, and each leaves what it did
        last."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        writer = os.open(pipe, os.O_WRONLY)
        self.addCleanup(os.close, writer)
        fill_but(writer, 1)
        command = ["sh", "-c", f'exec "$@" >{pipe} 2>&1', "sh",
                   *zpp.train_command("--train-iters", 1_000_000, "--log-interval", 1, "--timeout", 3, out=self.out)]
        result = zpp.launch([(2, command)], cwd=self.folder).end()
        self.assertEqual(result.code, 124, result)
        self.assertEqual(len(list(self.out.glob("flight-record.*.json"))), 2, result)


def fill_but(descriptor, room):
    """Fills a pipe with zeros until it has this much room."""
    blocking = os.get_blocking(descriptor)
    os.set_blocking(descriptor, False)
    try:
        while True:
            os.write(descriptor, bytes(room))
    except BlockingIOError:
        pass
    os.set_blocking(descriptor, blocking)


def read_late(descriptor):
    time.sleep(1)
    with open(descriptor, "rb") as pipe:
        return pipe.read()


if __name__ == "__main__":
    zpp.main()
