# ctest: name=plan_alone timeout=60 labels=cli,without-cuda
"""zpp_plan needs no MPI: it plans where MPI cannot start, and under a launcher once."""

import json

import planned
import zpp

CLUSTER = zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"
MODEL = ["--num-layers", "2", "--hidden-size", "64", "--seq-length", "32", "--bf16", "--nodes", "2",
         "--ranks-per-node", "4",
         "--all-gather-algorithm", "two-level"]
COMMANDS = {"estimate": MODEL, "search": MODEL, "time": [*MODEL, "--cluster", CLUSTER],
            "breakeven": [*MODEL, "--cluster", CLUSTER],
            "compare": MODEL,
            "savings": ["--table"]}
BROKEN = {"OMPI_MCA_pml": "of_no_name"}  # MPI_Init ends the process


class Alone(zpp.TestCase):
    def test_where_mpi_cannot_start(self):
        if zpp.OPEN_MPI:
            self.assertNotEqual(zpp.Process([zpp.INFO], env=BROKEN).end().code, zpp.OK)
        for command, words in COMMANDS.items():
            with self.subTest(command):
                self.check_ok(zpp.Process([planned.PLAN, command, *words], cwd=self.folder, env=BROKEN).end())

    def test_under_a_launcher_rank_0_plans(self):
        alone = self.check_ok(zpp.Process([planned.PLAN, *MODEL], cwd=self.folder).end())
        launched = self.check_ok(zpp.launch([(3, [planned.PLAN, *MODEL, "--output", self.out,
                                                  "--json", self.folder / "plan.json"])]).end())
        self.assertEqual(launched.stdout, alone.stdout)
        root, _ = zpp.read_trace(self.out / "plan.h5")
        self.assertEqual((root["world_size"], root["transport"], root["verdict"]), (1, "none", "VALID"))
        self.assertEqual(json.loads((self.folder / "plan.json").read_text())["job"]["world_size"], 8)
        failed = zpp.launch([(3, [planned.PLAN, "--nodes", "0"])]).end()
        self.assertEqual(len(failed.errors("zpp_plan")), 1, failed)
        self.assertNotEqual(failed.code, zpp.OK, failed)

    def test_there_is_nobody_to_wait_for(self):
        for command in COMMANDS:
            self.check_fails(zpp.Process([planned.PLAN, command, "--timeout", "3"]).end(), zpp.USAGE,
                             "--timeout", program="zpp_plan")
            self.assertNotIn("--timeout",
                             self.check_ok(zpp.Process([planned.PLAN, command, "--help-all"]).end()).stdout)


if __name__ == "__main__":
    zpp.main()
