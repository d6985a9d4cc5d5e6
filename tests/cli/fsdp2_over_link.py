# ctest: name=fsdp2_over_link timeout=120 labels=cli processors=2
"""jobscripts/local/fsdp2_over_link.sh: each flag of each command that it would run exists, runs alternate, and wrong usage
is said in one line. jobscripts/local/plugin_overhead.py prints its table, where there is PyTorch."""

import json
import os

import local_script
import zpp
from local_script import option, run, whole_help


class Fsdp2OverLink(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "fsdp2_over_link.sh"

    def test_commands(self):
        commands = self.dry_run("--rounds", "2", "--rate", "100mbit", "--steps", "7")
        self.assertEqual(len(commands), 2 * 4)
        known = whole_help(*zpp.VALIDATE, "peer-fsdp2")
        for number, command in enumerate(commands):
            hosts, peer = command[:command.index("--")], command[command.index("peer-fsdp2"):]
            self.assertEqual((option(hosts, "--rate"), option(peer, "--steps")), ("100mbit", "7"))
            for flag in (word for word in peer if word.startswith("--")):
                self.assertIn(flag, known)
            self.assertEqual(("--prepare" in peer, "--reshard" in peer), ((False, False), (True, False), (False, True), (True, True))[number % 4])
            if "--prepare" in peer:
                name, _, arguments = option(peer, "--prepare").partition(" ")
                self.assertEqual((name, json.loads(arguments)["node_size"]), ("zeropp.torch:compress", int(option(peer, "--node-size"))))
        self.assertEqual(len({option(command, "--json") for command in commands}), len(commands))

    def test_bad_usage(self):
        for words in (["--rounds"], ["--frob", "1"], ["extra"]):
            with self.subTest(words=words):
                done = self.script(*words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)

    def test_overhead(self):
        python = os.environ.get("ZEROPP_TORCH_PYTHON")
        if not python:
            self.skipTest("ZEROPP_TORCH_PYTHON names no Python with PyTorch")
        environment = {**os.environ, "PYTHONPATH": str(zpp.BIN.parent / "python")}
        done = run(*zpp.MPIRUN, "-n", "2", python, zpp.SOURCE / "jobscripts" / "local" / "plugin_overhead.py", "--device", "cpu",
                   "--transport", "torch", "--mib", "0.5", env=environment)
        self.assertEqual(done.returncode, 0, done)
        rows = [line.split("|")[1].strip() for line in done.stdout.splitlines()]
        self.assertIn("decode int8:256", rows)
        self.assertIn("reduce-scatter, zeropp int4:128", rows)


if __name__ == "__main__":
    zpp.main()
