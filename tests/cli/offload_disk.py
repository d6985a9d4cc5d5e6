# ctest: name=offload_disk timeout=180 labels=cli,nightly processors=2
"""jobscripts/local/offload_disk.sh: its flags exist; on a small model on the host its table has bytes, rates and the
disk's own, smaller sub-groups are more transfers through less memory, and other weights and failed runs are refused."""

import json
import re

import local_script
import zpp


class OffloadDisk(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "offload_disk.sh"

    def words(self, *more):
        return ["--gpus", "2", "--backend", "host", "--layers", "2", "--hidden", "256", "--steps", "2", "--warmup", "1",
                "--folder", str(self.folder), *more]

    def test_flags_exist(self):
        program = local_script.whole_help(zpp.TRAIN)
        known = set(re.findall("--[a-z][a-z0-9-]*", program))
        runs = [run for run in self.dry_run(*self.words()) if str(zpp.BIN / "zpp_train") in run]
        self.assertEqual(len(runs), 6)
        for run in runs:
            flags = {word for word in run[run.index(str(zpp.BIN / "zpp_train")):] if re.match("--[a-z]", word)}
            self.assertEqual({flag for flag in flags if flag not in known and flag.replace("--no-", "--") not in known},
                             set(), run)

    def test_a_small_model(self):
        done = self.script(*self.words())
        self.assertEqual(done.returncode, 0, done)
        lines = done.stdout.splitlines()
        rows = {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line.strip("|").split("|")]
                                                  for line in lines[2:] if line.startswith("|"))}
        self.assertEqual(set(rows), {"nvme", "no-overlap", "sub_group_size=256K", "sub_group_size=1M",
                                     "queue_depth=32"})
        moved, transfers, update, rate, share, waiting, host = range(7)
        for row in rows.values():
            self.assertGreater(float(row[moved]), 0.02)  # 1.6 million parameters, 12 bytes each, both ways
            self.assertGreater(float(row[share]), 0)
            self.assertEqual(row[-1], "the same")
            # Shown with three digits, or a millisecond.
            self.assertAlmostEqual(float(row[moved]) / float(row[rate]) * 1e3, float(row[update]),
                                   delta=1 + 0.05 * float(row[update]))
        small, large = rows["sub_group_size=256K"], rows["sub_group_size=1M"]
        self.assertGreater(float(small[transfers]), float(large[transfers]))
        self.assertLess(float(small[host]), float(large[host]))
        self.assertEqual(sum(line.startswith("raw-") for line in lines), 2)

        study = self.folder / "results" / "here" / "offload_disk"
        table = [*zpp.VALIDATE, "disk-table", study]
        self.assertEqual(local_script.run(*table).stdout, done.stdout)
        (again,) = (study / "runs").glob("*-queue_depth=32.json")
        run = json.loads(again.read_text())
        for wrong, code, part in (({**run, "parameters_hash": "another"}, 1, "OTHER"), ({}, 2, "error: ")):
            again.write_text(json.dumps(wrong))
            judged = local_script.run(*table)
            self.assertEqual(judged.returncode, code, judged)
            self.assertIn(part, judged.stdout + judged.stderr)

    def test_a_disk_that_is_not_there(self):
        raw = local_script.run(*zpp.VALIDATE, "raw-disk", "--folder", self.folder / "nowhere",
                               "--processes", "2", "--bytes", "1", "--json", self.folder / "raw.json")
        self.assertEqual(raw.returncode, zpp.IO, raw)
        self.assertIn("raw-disk: error: ", raw.stderr)


if __name__ == "__main__":
    zpp.main()
