# ctest: name=limit_keys timeout=180 labels=cli,nightly processors=2
"""jobscripts/local/limit_keys.sh: its flags exist; on a small model on the host its table shows the effect of each key,
and refuses other weights and failed runs."""

import json
import re

import local_script
import zpp


class LimitKeys(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "limit_keys.sh"

    def words(self, *more):
        return ["--gpus", "4", "--backend", "host", "--layers", "3", "--hidden", "64", "--steps", "1",
                "--warmup", "1", *more]

    def test_flags_exist(self):
        program = local_script.whole_help(zpp.TRAIN)
        known = set(re.findall("--[a-z][a-z0-9-]*", program))
        runs = self.dry_run(*self.words())
        self.assertEqual(len(runs), 15)
        for run in runs:
            flags = {word for word in run[run.index(str(zpp.BIN / "zpp_train")):] if re.match("--[a-z]", word)}
            self.assertEqual({flag for flag in flags if flag not in known and flag.replace("--no-", "--") not in known},
                             set(), run)

    def test_a_small_model(self):
        done = self.script(*self.words())
        self.assertEqual(done.returncode, 0, done)
        rows = {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")]
                                                  for line in done.stdout.splitlines()[2:])}
        memory, _, gathers, reductions, inside, between = range(6)

        def value(name, column):
            return float(rows[name][column])

        self.assertLess(value("stage3_max_reuse_distance=1", gathers), value("stock", gathers))
        self.assertLess(value("stage3_max_reuse_distance=1e9", gathers), value("stage3_max_reuse_distance=1", gathers))
        self.assertLess(value("stage3_max_reuse_distance=1e9", between), value("stock", between))
        self.assertLess(value("stage3_param_persistence_threshold=block", inside), value("stock", inside))
        self.assertGreater(value("reduce_bucket_size=eighth_of_block", reductions), value("stock", reductions))
        self.assertGreater(value("shard_group_size=node", memory), value("stock", memory))
        self.assertLess(value("shard_group_size=node", between), value("stock", between))
        self.assertEqual({row[-1] for name, row in rows.items() if name != "shard_group_size=node"}, {"the same"})

        study = self.folder / "results" / "here" / "limits"
        table = [*zpp.VALIDATE, "limit-table", study]
        self.assertEqual(local_script.run(*table).stdout, done.stdout)
        (again,) = (study / "runs").glob("*-stock-again.json")
        run = json.loads(again.read_text())
        for wrong, code, part in (({**run, "parameters_hash": "another"}, 1, "OTHER"), ({}, 2, "error: ")):
            again.write_text(json.dumps(wrong))
            judged = local_script.run(*table)
            self.assertEqual(judged.returncode, code, judged)
            self.assertIn(part, judged.stdout + judged.stderr)


if __name__ == "__main__":
    zpp.main()
