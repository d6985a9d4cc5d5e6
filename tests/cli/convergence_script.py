# ctest: name=convergence_script timeout=240 labels=cli,nightly processors=2
"""jobscripts/local/convergence.sh: its flags exist; a small matrix is run, judged and kept, and a second call runs
nothing anew; a matrix that is INVALID is the exit code; and what the programs write is what validation/ reads: schema,
units, pairing."""

import re

import h5py

import local_script
import zpp

MATRIX = {
    "base": {
        "train_batch_size": 8, "gradient_accumulation_steps": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
        "zero_optimization": {"stage": 3},
        "zeropp": {"node_size": 2, "train_steps": 20, "evaluation_interval": 10, "evaluation_batches": 2,
                   "model": {"name": "gpt", "num_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
                             "seq_length": 16},
                   "data": {"source": "markov"}}},
    "seeds": [1, 2, 3, 4, 5],
    "settings": [{"name": "zero3", "level": "markov"},
                 {"name": "weights", "level": "markov", "baseline": "zero3", "weight_codecs": ["int4:128"]},
                 {"name": "gradients", "level": "markov", "baseline": "zero3",
                  "gradient_codecs": ["int4:128", "int8:128/int4:128+had32"]}]}


class ConvergenceScript(local_script.TestCase):
    script_path = zpp.SOURCE / "jobscripts" / "local" / "convergence.sh"

    def test_flags_exist(self):
        program = local_script.whole_help(zpp.BIN / "zpp_converge")
        converge = local_script.whole_help(*zpp.VALIDATE, "converge")
        run, judge = self.dry_run("--", "--data-path", "text")
        for words, text in ((run[run.index(str(zpp.BIN / "zpp_converge")):], program), (judge, converge)):
            self.assertEqual({word for word in words if re.match("--[a-z]", word)}
                             - set(re.findall("--[a-z][a-z-]*", text)), set(), words)
        self.assertIn(str(zpp.SOURCE / "inputs/convergence/reduced.json"), [str(zpp.SOURCE / word) for word in run])

    def test_a_matrix(self):
        matrix = self.write_json("small.json", MATRIX)
        done = self.script("--matrix", matrix, "--runs", self.folder / "runs")
        self.assertEqual(done.returncode, 0, done)
        self.assertTrue(done.stdout.endswith("\nVALID\n"), done)
        folder = self.folder / "results" / "here" / "convergence" / "small"
        self.assertLessEqual({"converge.h5", "table.md", "judged.h5", "chapter.md", "report.txt", "markov-curves.png",
                              "markov-ladder.svg"}, {path.name for path in folder.iterdir()})
        for rung in ("zero3 <= gradients int8:128/int4:128+had32",
                     "gradients int8:128/int4:128+had32 < gradients int4:128",
                     "gradients int4:128 < weights int4:128"):
            self.assertIn(rung, done.stdout)
        self.assertIn("jobscripts/local/convergence.sh", (folder / "chapter.md").read_text())
        with h5py.File(folder / "judged.h5") as file:
            self.assertEqual(len(file["judged/setting"]), 3)
        self.assertEqual(zpp.check_trace(folder / "converge.h5").stdout, "VALID\n")
        before = (folder / "table.md").read_text()
        again = self.script("--matrix", matrix, "--runs", self.folder / "runs", "--margin", "0.5")
        self.assertEqual(again.returncode, 0, again)
        log = sorted((folder.parent / "runs").glob("*.log"))[-1].read_text()
        self.assertIn("20 runs, 0 to be done", log)
        self.assertNotEqual((folder / "table.md").read_text(), before)

    def test_few_seeds_are_invalid(self):
        matrix = self.write_json("few.json", MATRIX | {"seeds": [1, 2]})
        done = self.script("--matrix", matrix, "--runs", self.folder / "runs")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("INVALID: setting zero3 has 2 seeds, 5 are needed", done.stdout)

    def test_bad_usage(self):
        for words in (["--matrix", "nowhere.json"], ["--backend", "tpu"], ["--ranks", "0"], ["--frob", "1"],
                      ["--margin"]):
            with self.subTest(words=words):
                done = self.script(*words)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done)
                self.assertTrue(done.stderr.startswith("convergence: error: "), done)


if __name__ == "__main__":
    zpp.main()
