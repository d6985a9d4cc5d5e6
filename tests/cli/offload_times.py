# ctest: name=offload_times timeout=240 labels=cli processors=2
"""jobscripts/local/offload_times.sh: its flags exist; on small models on the host it finds the largest ones that a limit leaves, shows that one
layer more is refused, and its table has every row; a run that failed leaves the others' rows and is the exit code."""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(os.environ["ZEROPP_SOURCE"]) / "tests" / "support"))
import local_script
import zpp


class OffloadTimes(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "offload_times.sh"

    def words(self, *more):
        return ["--backend", "host", "--memory", "12M", "--hidden", "64", "--seq", "16", "--shape", "tiny", "--accumulation", "1,2", "--steps", "1",
                "--values", "64K", *more]

    def test_flags_exist(self):
        program = local_script.run(zpp.BIN / "zpp_train", "--help").stdout
        known = set(re.findall("--(?:no-)?[a-z][a-z0-9-]*", program))
        runs = [run for run in self.dry_run(*self.words()) if str(zpp.BIN / "zpp_train") in run]
        self.assertEqual(len(runs), 3 * 2 + 3 * 2)
        for run in runs:
            flags = {word for word in run[run.index(str(zpp.BIN / "zpp_train")):] if re.match("--[a-z]", word)}
            self.assertEqual({flag for flag in flags if flag not in known and flag.replace("--no-", "--") not in known}, set(), run)
        self.assertEqual(self.script("--dry-run", *self.words("--devices", "disk")).returncode, 2)
        self.assertEqual(self.script("--dry-run", *self.words("--devices", "nvme")).returncode, 2, "no folder")

    def test_small_models(self):
        done = self.script(*self.words())
        self.assertEqual(done.returncode, 0, done)
        rows = dict([cell.strip() for cell in line.strip("|").split("|")][:2] for line in done.stdout.splitlines()[2:])
        layers = {device: int(rows[f"largest model, offload {device}"].split()[0]) for device in ("none", "cpu", "cpu-weights")}
        self.assertLess(0, layers["none"])
        self.assertLess(layers["none"], layers["cpu"])
        self.assertLess(layers["cpu"], layers["cpu-weights"])
        for device in layers:
            self.assertIn("one layer more is refused", rows[f"largest model, offload {device}"])
        for device, micro_steps in (("cpu", 1), ("cpu-weights", 2)):
            self.assertRegex(rows[f"step, offload {device}, {micro_steps} micro-steps"], "the larger of link and that")
        study = self.folder / "results" / "here" / "offload"
        table = [sys.executable, zpp.SOURCE / "validation" / "offload_table.py", study]
        self.assertEqual(local_script.run(*table).stdout, done.stdout)
        listed = study / "runs.tsv"
        text = listed.read_text()
        lines = text.splitlines()
        listed.write_text(text.replace("\tlargest-cpu\t0\t0\t", "\tlargest-cpu\t0\t9\t"))
        judged = local_script.run(*table)
        self.assertEqual(judged.returncode, 1, judged)
        self.assertIn("largest-cpu", judged.stderr)
        self.assertIn("largest model, offload none", judged.stdout)
        listed.write_text("\n".join(line for line in lines if "\thost-memory\t" not in line) + "\n")
        self.assertIn("missing: host-memory", local_script.run(*table).stderr)


if __name__ == "__main__":
    zpp.main()
