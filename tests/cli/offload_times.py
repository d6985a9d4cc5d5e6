# ctest: name=offload_times timeout=240 labels=cli,nightly processors=2
"""jobscripts/local/offload_times.sh: its flags exist; on small models on the host it finds the largest ones that a
limit leaves, shows that one layer more is refused, and its table has every row, whose ratios follow from the floors; a
run that failed or is missing leaves the others' rows and is the exit code."""

import json
import re

import local_script
import zpp


class OffloadTimes(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "offload_times.sh"

    def words(self, *more):
        return ["--backend", "host", "--memory", "12M", "--hidden", "64", "--seq", "16", "--shape", "tiny",
                "--accumulation", "1,2", "--steps", "1",
                "--copy", "1M", *more]

    def test_flags_exist(self):
        program = local_script.whole_help(zpp.TRAIN)
        known = set(re.findall("--(?:no-)?[a-z][a-z0-9-]*", program))
        runs = [run for run in self.dry_run(*self.words()) if str(zpp.BIN / "zpp_train") in run]
        self.assertEqual(len(runs), 3 * 2 + 3 * 2)
        for run in runs:
            flags = {word for word in run[run.index(str(zpp.BIN / "zpp_train")):] if re.match("--[a-z]", word)}
            self.assertEqual({flag for flag in flags if flag not in known and flag.replace("--no-", "--") not in known},
                             set(), run)
        self.assertEqual(self.script("--dry-run", *self.words("--devices", "disk")).returncode, 2)
        self.assertEqual(self.script("--dry-run", *self.words("--devices", "nvme")).returncode, 2, "no folder")
        self.assertEqual(self.script("--dry-run", *self.words("--parts", "all")).returncode, 2)
        self.assertEqual(self.script("--dry-run", *self.words("--copy", "much")).returncode, 2)

    def test_parts(self):
        both = self.dry_run(*self.words("--devices", "none,nvme", "--nvme", self.folder, "--steps", "3",
                                        "--nvme-steps", "2"))
        steps = [run for run in both if "--gradient-accumulation-steps" in run]
        self.assertEqual([local_script.option(run, "--train-iters") for run in steps], ["4", "3", "4", "3"])
        self.assertIn("--device-memory-limit", both[1], "the largest models come first")
        for part in ("largest", "steps"):
            runs = self.dry_run(*self.words("--parts", part))
            self.assertEqual({"--gradient-accumulation-steps" in run for run in runs if "--zero-stage" in run},
                             {part == "steps"})
            self.assertEqual(any("raw-copy" in run for run in runs), part == "steps")

    def test_copy(self):
        program = (*zpp.VALIDATE, "raw-copy")
        summary = self.folder / "copy.json"
        done = local_script.run(*program, "--bytes", 800004, "--threads", 3, "--repetitions", 5, "--json", summary)
        self.assertEqual(done.returncode, 0, done)
        found = json.loads(summary.read_text())
        self.assertEqual((found["threads"], found["bytes"], len(found["seconds"])), (3, 1600000, 5))
        self.assertEqual((found["best"], found["median"]), (min(found["seconds"]), sorted(found["seconds"])[2]))
        self.assertGreater(found["best"], 0)
        self.assertEqual(local_script.run(*program, "--bytes", 16, "--threads", 3, "--json", summary).returncode, 2)

    def test_no_layer_fits(self):
        done = self.script(*self.words("--parts", "largest", "--memory", "64K", "--devices", "none"))
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("failed or missing: largest-none", done.stderr)

    def test_small_models(self):
        done = self.script(*self.words())
        self.assertEqual(done.returncode, 0, done)
        rows = self.rows(done.stdout)
        layers = {device: int(rows[f"largest model, offload {device}"].split()[0])
                  for device in ("none", "cpu", "cpu-weights")}
        self.assertLess(0, layers["none"])
        self.assertLess(layers["none"], layers["cpu"])
        self.assertLess(layers["cpu"], layers["cpu-weights"])
        for device in layers:
            self.assertIn("one layer more is refused", rows[f"largest model, offload {device}"])
            if device != "none":
                self.assertRegex(done.stdout, rf"\| the same, {device} over none +\| \d+\.\d\dx +\| >= 3x +\| "
                                 rf"(yes|NO ) \|")
        study = self.folder / "results" / "here" / "offload"
        table = [*zpp.VALIDATE, "offload-table", study]
        self.assertEqual(local_script.run(*table).stdout, done.stdout)
        self.assert_floors(study, table)
        listed = study / "runs.tsv"
        text = listed.read_text()
        lines = text.splitlines()
        listed.write_text(text.replace("\tlargest-cpu\t0\t0\t", "\tlargest-cpu\t0\t9\t"))
        judged = local_script.run(*table)
        self.assertEqual(judged.returncode, 1, judged)
        self.assertIn("largest-cpu", judged.stderr)
        self.assertIn("largest model, offload none", judged.stdout)
        listed.write_text("\n".join(line for line in lines if "\traw\tcopy\t" not in line) + "\n")
        judged = local_script.run(*table)
        self.assertEqual(judged.returncode, 1, judged)
        left = self.rows(judged.stdout)
        self.assertEqual(left["copy of the host's memory, read + written"], "not measured")
        self.assertIn("step over the larger of link and step without offload, offload cpu, 1 micro-steps", left)
        self.assertNotIn("% of the copy", judged.stdout)

    def rows(self, text):
        return dict([cell.strip() for cell in line.strip("|").split("|")][:2]
                    for line in text.split("\n\n")[0].splitlines()[2:])

    def assert_floors(self, study, table):
        """At a copy and a link of known rates, the floors in closed form, and what follows from them."""
        copy, link = 0.2e9, 0.1e9
        for name, rate in (("copy", copy), ("link", 2 * link)):
            (path,) = study.glob(f"runs/*-{name}.json")
            found = json.loads(path.read_text())
            path.write_text(json.dumps({**found, "best": found["bytes"] / rate}))
        rows = self.rows(local_script.run(*table).stdout)
        for device, micro_steps in (("cpu", 1), ("cpu-weights", 2)):
            label = f"offload {device}, {micro_steps} micro-steps"
            (path,) = study.glob(f"runs/*-step-{device}-{micro_steps}.json")
            run = json.loads(path.read_text())
            units = run["parameter_units"]
            elements = sum(units["elements"])
            back = elements if device == "cpu" else micro_steps * sum(
                size * (forward + backward) for size, forward, backward in zip(units["elements"],
                                                                               units["gathers_forward"],
                                                                               units["gathers_backward"]))
            # fp32: gradient, master, two states read; three written.
            transfer, update = 4e3 * max(elements, back) / link, 28e3 * elements / copy
            (path,) = study.glob(f"runs/*-step-none-{micro_steps}.json")
            base, step = (1e3 * each["steps"]["time"][1] for each in (json.loads(path.read_text()), run))
            text = rows[f"step, {label}"]
            for value, name in ((transfer, "link {} ms"), (base, "without offload {},"), (update, "copy's rate {}")):
                self.assertIn(name.format(f"{value:.1f}"), text)
            for name, floor in (("step without offload", base),
                                ("(step without offload + host's update)", base + update)):
                self.assertEqual(rows[f"step over the larger of link and {name}, {label}"],
                                 f"{step / max(transfer, floor):.2f}x")
            rate = 28 * elements / run["steps"]["time_offload_wait"][1]
            self.assertRegex(rows[f"AdamW on the host, {label}"],
                             rf"^{rate / 1e9:.1f} GB/s: 28 bytes .*; {100 * rate / copy:.0f} % of the copy$")


if __name__ == "__main__":
    zpp.main()
