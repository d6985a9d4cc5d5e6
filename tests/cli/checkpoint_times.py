# ctest: name=checkpoint_times timeout=180 labels=cli,nightly processors=2
"""jobscripts/local/checkpoint_times.sh: its flags exist; a small model is saved on the host, and the table has what was
measured; other weights after going on, or a run that failed, are the exit code."""

import json
import re

import local_script
import zpp


class CheckpointTimes(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "checkpoint_times.sh"

    def words(self, *more):
        return ["--folder", self.folder / "disk", "--gpus", "2", "--backend", "host", "--shape", "tiny",
                "--interval", "5", "--saves", "2",
                *more]

    def test_flags_exist(self):
        program = local_script.whole_help(zpp.TRAIN)
        known = set(re.findall("--(?:no-)?[a-z][a-z0-9-]*", program))
        runs = [run for run in self.dry_run(*self.words()) if str(zpp.BIN / "zpp_train") in run]
        self.assertEqual(len(runs), 5)
        for run in runs:
            flags = {word for word in run[run.index(str(zpp.BIN / "zpp_train")):] if re.match("--[a-z]", word)}
            self.assertEqual({flag for flag in flags if flag.replace("--no-", "--") not in known and flag not in known},
                             set(), run)

    def test_a_small_model(self):
        done = self.script(*self.words())
        self.assertEqual(done.returncode, 0, done)
        self.assertIn("the same weights, bit for bit", done.stdout)
        for part in ("raw write, before and after", "every 5 steps, 2 timed", "% of the raw write",
                     "% of the steps between two"):
            self.assertIn(part, done.stdout)
        self.assertEqual(list((self.folder / "disk").iterdir()), [], "what it wrote to the disk is removed")
        study = self.folder / "results" / "here" / "checkpoints"
        table = [*zpp.VALIDATE, "checkpoint-table", study]
        self.assertEqual(local_script.run(*table).stdout, done.stdout)
        (second,) = (study / "runs").glob("*-second-half.json")
        run = json.loads(second.read_text())
        for wrong, code, part in (({**run, "parameters_hash": "another"}, 1, "OTHER WEIGHTS"),
                                  ({**run, "first_step": 0}, 1, "OTHER WEIGHTS"),
                                  ({}, 2, "is no whole study: it has no first_step: run it again")):
            second.write_text(json.dumps(wrong))
            judged = local_script.run(*table)
            self.assertEqual(judged.returncode, code, judged)
            self.assertIn(part, judged.stdout + judged.stderr)

    def test_a_disk_that_cannot_be_written(self):
        (self.folder / "disk").write_text("no folder")
        self.assertNotEqual(self.script(*self.words()).returncode, 0)


if __name__ == "__main__":
    zpp.main()
