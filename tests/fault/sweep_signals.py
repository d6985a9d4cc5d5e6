# ctest: name=sweep_signals labels=fault timeout=300 processors=3
"""A sweep that a signal ends between two rows: trace and JSON have the rows done, the verdict says INVALID:
interrupted, the exit code is 85 after SIGUSR1 and SIGTERM, 130 after SIGINT. The same where memory lacks, with code
3."""

import json
import os
import signal

import zpp

MANY = ["-b", "1K", "-e", "64M", "-i", "64", "-n", "1", "-w", "1", "--collective", "all_gather", "--backend", "host"]


class Signals(zpp.TestCase):
    def running(self, ranks):
        """A sweep of a million rows, in the midst of them."""
        self.json = self.folder / "sweep.json"
        command = [str(zpp.BIN / "zpp_sweep"), *MANY, "--codec", "none,int8:256", "--output", str(self.out),
                   "--json", str(self.json)]
        process = zpp.Process([*zpp.MPIRUN, "-n", str(ranks), *command] if ranks > 1 else command, cwd=self.folder)
        self.addCleanup(process.stop)
        process.wait_for_line(" int8:256 ")
        return process

    def check_kept(self, result, name, code):
        self.assertEqual((result.code, result.errors("zpp_sweep")), (code, []), result)
        attributes, groups = zpp.read_trace(self.out / "sweep.h5")
        found = json.loads(self.json.read_text())
        rows = found["results"]
        self.assertGreaterEqual(len(rows), 3)
        for verdict in (attributes["verdict"], found["verdict"]):
            self.assertEqual(verdict, f"INVALID: interrupted by {name} after {len(rows)} rows")
        self.assertEqual((attributes["interrupted"], attributes["complete"]), (name, 1))
        self.assertEqual(len(groups["results"]["time"]), 2 * len(rows))
        self.assertEqual({row["out_of_place"]["verdict"] for row in rows}, {"VALID"})
        self.assertIn(f"Verdict              : INVALID: interrupted by {name}", result.stdout)
        self.assertIn(f"interrupted by {name} after {len(rows)} rows", result.stderr)

    def test_one_rank_is_asked_to_end(self):
        for chosen, number in ((0, signal.SIGUSR1), (2, signal.SIGTERM)):
            with self.subTest(rank=chosen):
                process = self.running(3)
                os.kill(process.pids("zpp_sweep")[chosen], number)
                self.check_kept(process.end(), number.name, zpp.REQUEUE)

    def test_one_process_without_launcher(self):
        for number, code in ((signal.SIGUSR1, zpp.REQUEUE), (signal.SIGTERM, zpp.REQUEUE),
                             (signal.SIGINT, zpp.INTERRUPTED)):
            with self.subTest(signal=number.name):
                process = self.running(1)
                process.process.send_signal(number)
                self.check_kept(process.end(), number.name, code)

    def test_memory_that_is_lacking(self):
        """At the largest size only: what was measured before it is kept, and the code is the machine's."""
        self.json = self.folder / "sweep.json"
        words = ["-b", "1K", "-e", str(1 << 49), "-f", str(1 << 39), "-n", "1", "--collective", "all_gather",
                 "--backend", "host"]
        process = zpp.Process([*zpp.MPIRUN, "-n", "2", str(zpp.BIN / "zpp_sweep"), *words, "--output", str(self.out),
                               "--json",
                               str(self.json)], cwd=self.folder)
        self.addCleanup(process.stop)
        result = process.end()
        self.assertEqual((result.code, len(result.errors("zpp_sweep"))), (zpp.ENVIRONMENT, 1), result)
        self.assertIn("no memory for", result.stderr)
        self.assertIn("which are in the trace: start again to run it whole, with a smaller --maxbytes (-e)",
                      result.stderr)
        found = json.loads(self.json.read_text())
        self.assertEqual([row["size"] for row in found["results"]], [1024, 1024])
        self.assertEqual(found["verdict"], f"INVALID: ended by all_gather none native of {1 << 49} bytes after 2 rows")
        self.assertEqual(zpp.check_trace(self.out / "sweep.h5").code, zpp.INVALID)

    def test_a_kill_leaves_flight_records_and_a_lock_that_nobody_has(self):
        process = self.running(2)
        os.kill(process.pids("zpp_sweep")[1], signal.SIGKILL)
        self.assertNotEqual(process.end().code, 0)
        left = [path.name for path in self.out.iterdir() if not path.name.startswith("flight-record.")]
        self.assertLessEqual(set(left), {".sweep.h5.lock"})
        self.assertFalse(self.json.exists())


if __name__ == "__main__":
    zpp.main()
