# ctest: name=guide_claims timeout=240 labels=cli,nightly processors=2
"""jobscripts/local/guide_claims.sh: its flags exist; on a small model on the host its table has the memory of each
stage as the closed form has it, and a row for each comparison; a run that failed is told."""

import re

import local_script
import zpp

RANKS = 4
WHOLE = 18  # bytes a parameter of stage 0 in bf16: master 4, moments 8, gradients 4, weights 2
SHARDED = 16  # from stage 1 on: all but the weights, which are gathered from the master
REPEATED = {1: 6, 2: 2, 3: 0}  # on every rank beside its shard


class GuideClaims(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "guide_claims.sh"

    def words(self, *more):
        return ["--gpus", RANKS, "--backend", "host", "--layers", "2", "--hidden", "64", "--steps", "1",
                "--warmup", "1", *more]

    def test_flags_exist(self):
        program = local_script.whole_help(zpp.TRAIN)
        known = set(re.findall("--[a-z][a-z0-9-]*", program))
        runs = self.dry_run(*self.words("--nvme", "/tmp"))
        self.assertEqual(len(runs), 13)
        for run in runs:
            flags = {word for word in run[run.index(str(zpp.BIN / "zpp_train")):] if re.match("--[a-z]", word)}
            self.assertEqual({flag for flag in flags if flag not in known and flag.replace("--no-", "--") not in known},
                             set(), run)

    def test_a_small_model(self):
        done = self.script(*self.words())
        self.assertEqual(done.returncode, 0, done)
        rows = dict([cell.strip() for cell in line.strip("|").split("|")][:2] for line in done.stdout.splitlines()[2:])
        for stage in (1, 2, 3):
            ratio = float(rows[f"stage {stage}: state smaller by"].split("x")[0])
            # Tensors begin at multiples of 64 elements, which a small model notices.
            self.assertAlmostEqual(ratio, WHOLE / (REPEATED[stage] + SHARDED / RANKS), delta=0.03, msg=stage)
        for name in ("offload cpu: step longer by", "offload cpu-weights: step longer by",
                     "stage 2: overlap_comm makes a step shorter by"):
            self.assertIn(name, rows)
        study = self.folder / "results" / "here" / "guide_claims"
        table = [*zpp.VALIDATE, "guide-table", study]
        self.assertEqual(local_script.run(*table).stdout, done.stdout)
        listed = study / "runs.tsv"
        text = listed.read_text()
        listed.write_text(text.replace("\toffload-cpu\t1\t0\t", "\toffload-cpu\t1\t9\t"))
        judged = local_script.run(*table)
        self.assertEqual((judged.returncode, "offload cpu:" in judged.stdout), (1, False), judged)
        self.assertIn("offload-cpu", judged.stderr)
        listed.write_text(text.replace("\tstage-2\t1\t0\t", "\tstage-2\t1\t9\t"))
        self.assertEqual(local_script.run(*table).stdout, "")


if __name__ == "__main__":
    zpp.main()
