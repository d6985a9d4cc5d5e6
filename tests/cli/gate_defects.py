# ctest: name=gate_defects timeout=240 labels=cli,nightly processors=2
"""The regression gate (zpp-validate gate) through the real programs: each planted defect is flagged, and says what
moved; twenty honest reruns with other seeds are not. The shipped program has none of the defects in it."""

import json
import pathlib
import tempfile

import validate
import zpp

DEFECTIVE = str(zpp.TEST_BIN / "defective_train")
SEEDS, RERUNS = range(1, 13), range(101, 121)
FLAGS = ["--train-iters", "12", "--deterministic", "--node-size", "2", "--zero-hpz-partition-size", "2",
         "--eval-interval", "12"]
BF16 = ["--bf16"]
# Times of a busy machine say nothing: test_slower_step has steps of a known length. Most runs have other seeds than the
# baseline.
UNTIMED = ["--partial", "--only", "bytes,hash,convergence,norm"]
EXACT = ["--partial", "--only", "bytes,hash"]  # of two seeds

BLUNT = 4  # seeds of so short a run spread more than the margins that are asked for


def command(program, *words):
    return [program, *zpp.train_command(*words)[1:]]


def gate(*words, codes=(0,)):
    """The output of zpp-validate gate, run in this process; it ends with one of `codes`."""
    done = validate.run("gate", *words)
    assert done.returncode in codes, done
    return done.stdout + done.stderr


class Gate(zpp.TestCase):
    folder_of_all = None

    @classmethod
    def setUpClass(cls):
        """A baseline of twelve seeds; one of them with a step that a NaN has to skip."""
        temporary = tempfile.TemporaryDirectory(prefix="zpp-gate-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder_of_all = pathlib.Path(temporary.name)
        cls.runs_of("honest", SEEDS)
        cls.runs_of("skips", SEEDS[:5], "nan_planted")
        for name in ("honest", "skips"):
            gate(cls.folder_of_all / name, "--record", cls.folder_of_all / f"{name}.json")

    @classmethod
    def runs_of(cls, name, seeds, defect=None, words=BF16):
        """Traces in a folder a seed, of the shipped program or of the one with `defect`."""
        def one(seed):
            out = cls.folder_of_all / name / f"seed={seed}"
            run = command(DEFECTIVE if defect else zpp.TRAIN, *FLAGS, *words, "--seed", seed, "--output", out)
            result = zpp.launch([(2, run)], env={"ZEROPP_DEFECT": defect} if defect else {}).end()
            assert result.code == zpp.OK, result
        zpp.side_by_side(one, seeds)
        return cls.folder_of_all / name

    def flagged(self, name, seeds, defect, *parts, baseline="honest", words=BF16, only=UNTIMED):
        """The gate fails, and its text has all `parts`; returns the kinds that moved, of --json."""
        report = self.folder / "report.json"
        done = gate(self.runs_of(name, seeds, defect, words), "--baseline", self.folder_of_all / f"{baseline}.json",
                    *only, "--json", report,
                    codes=(1,))
        for part in parts:
            self.assertIn(part, done)
        return {each["kind"] for each in json.loads(report.read_text())["findings"] if each["verdict"] == "moved"}

    def test_honest_reruns_pass(self):
        """Each alone, as a gate meets it; and the baseline's own seeds again, to the last bit."""
        runs = self.runs_of("reruns", RERUNS)
        for seed in RERUNS:
            done = gate(runs / f"seed={seed}", "--baseline", self.folder_of_all / "honest.json", *UNTIMED,
                        codes=(BLUNT,))
            self.assertIn(": 0 moved\n", done)
        gate(self.runs_of("again", SEEDS[:2]), "--baseline", self.folder_of_all / "honest.json", *UNTIMED,
             codes=(BLUNT,))

    def test_no_defect_in_what_is_shipped(self):
        """Neither the variable nor the function is in it; and the variable changes nothing."""
        self.assertIn(b"ZEROPP_DEFECT", pathlib.Path(DEFECTIVE).read_bytes())
        for word in (b"ZEROPP_DEFECT", b"7planted", b"gradient_scaled"):
            self.assertNotIn(word, pathlib.Path(zpp.TRAIN).read_bytes())
        for name, program, variable in (("shipped", zpp.TRAIN, "gradient_scaled,bf16_as_fp16"),
                                        ("none", DEFECTIVE, "")):
            result = zpp.launch([(2, command(program, *FLAGS, *BF16, "--seed", 1, "--output", self.folder / name))],
                                env={"ZEROPP_DEFECT": variable}).end()
            self.check_ok(result)
            gate(self.folder / name, "--baseline", self.folder_of_all / "honest.json", *UNTIMED, codes=(BLUNT,))
        result = zpp.launch([(2, command(DEFECTIVE, *FLAGS, "--output", self.out))],
                            env={"ZEROPP_DEFECT": "nothing"}).end()
        self.assertEqual(result.code, zpp.USAGE, result)

    def test_gradient_scaled(self):
        """Gradients are scaled by the ranks of a node. Adam hides the defect from the loss."""
        kinds = self.flagged("scaled", [201], "gradient_scaled", "gradient norm was", ", x ")
        self.assertEqual(kinds, {"norm"})

    def test_secondary_shard_one_version_stale(self):
        kinds = self.flagged("stale", SEEDS[:1], "secondary_stale", "parameters, seed 1 was ")
        self.assertIn("hash", kinds)

    def test_an_escape_of_exact_differences_is_lost(self):
        """The gate finds other parameters, and copy-drift names the steps and the number of weights."""
        flags = ["--train-iters", "12", "--deterministic", "--node-size", "1", *BF16, "--weight-differences",
                 "--exact-differences", "--save-interval", "1", "--save-keep", "20"]
        for name, program, defect in (("exact", zpp.TRAIN, ""), ("escape", DEFECTIVE, "escape_lost")):
            (self.folder / name).mkdir()
            words = [*flags, "--save", "kept", "--output", self.folder / name]
            self.check_ok(zpp.launch([(2, command(program, *words))], env={"ZEROPP_DEFECT": defect},
                                     cwd=self.folder / name).end())
        gate(self.folder / "exact", "--record", self.folder / "exact.json")
        told = gate(self.folder / "escape", "--baseline", self.folder / "exact.json", *EXACT, codes=(1,))
        self.assertIn("parameters, seed 1 was ", told)
        for name, code in (("exact", 0), ("escape", 1)):
            trace = self.folder / name / "train.h5"
            done = validate.run("copy-drift", self.folder / name / "kept", "--trace", trace, "--rows", "20")
            self.assertEqual(done.returncode, code, done)
            others = [int(line.split()[-1]) for line in done.stdout.splitlines() if "differences" in line]
            self.assertGreater(len(others), 5, done)
            self.assertEqual(any(others), bool(code), done)

    def test_secondary_shard_breaks_a_contract(self):
        """Through zpp_converge: runs with and without hpZ have other parameters, whatever any baseline says."""
        config = {"train_batch_size": 4, "gradient_accumulation_steps": 2,
                  "optimizer": {"type": "AdamW", "params": {"lr": 0.003}},
                  "zero_optimization": {"stage": 3},
                  "zeropp": {"deterministic": True, "backend": "host", "node_size": 2, "train_steps": 10,
                             "data": {"source": "markov"},
                             "model": {"name": "gpt", "num_layers": 1, "hidden_size": 32, "num_attention_heads": 2,
                                       "seq_length": 16}}}
        matrix = self.write_json("matrix.json", {
            "base": config, "seeds": [1], "settings": [{"name": "off", "level": "contract"}, {
                "name": "on", "level": "contract", "config": {"zero_optimization": {"zero_hpz_partition_size": 2}}}, {
                "name": "on the host", "level": "contract",
                "config": {"zero_optimization": {"zero_hpz_partition_size": 2}, "zeropp": {"hpz_device": "cpu"}}}],
            "checks": [{"name": "hpz", "first": "off", "second": "on"},
                       {"name": "copy", "first": "off", "second": "on the host"}]})
        for defect, code in (("", zpp.OK), ("secondary_stale", zpp.INVALID)):
            out = self.folder / f"contract {defect}"
            words = [str(zpp.TEST_BIN / "defective_converge"), "--config", matrix, "--output", out]
            result = zpp.launch([(2, words)], env={"ZEROPP_DEFECT": defect}).end()
            self.assertEqual(result.code, code, result)
            found = zpp.check_trace(out / "converge.h5")
            self.assertEqual(found.code, code, found)
        for check in ("hpz of off / on", "copy of off / on the host"):
            self.assertIn(f"INVALID: check {check}: differs by ", found.stdout)

    def test_bf16_read_as_fp16(self):
        kinds = self.flagged("bits", [202], "bf16_as_fp16", "held-out loss was")
        self.assertLessEqual({"convergence", "norm"}, kinds)

    def test_feedback_reset_before_every_reduction(self):
        """By the bits of a seed that the baseline has: errors that are never fed back train as well, for twelve
        steps."""
        feedback = [*BF16, "--zero-quantized-gradients", "--error-feedback", "both"]
        self.runs_of("fed back", SEEDS[:2], words=feedback)
        gate(self.folder_of_all / "fed back", "--record", self.folder_of_all / "fed back.json")
        gate(self.runs_of("fed back again", SEEDS[:1], words=feedback),
             "--baseline", self.folder_of_all / "fed back.json", *EXACT)
        kinds = self.flagged("reset", SEEDS[:1], "feedback_reset", "parameters, seed 1 was ", baseline="fed back",
                             words=feedback,
                             only=EXACT)
        self.assertIn("hash", kinds)

    def test_loss_scale_off_by_one_step(self):
        """The runs are in fp16, with a scale that doubles after every step: gradients divided by the scale of the next
        step are half as long."""
        scaled = ["--fp16", "--initial-scale-power", "0", "--loss-scale-window", "1"]
        self.runs_of("scaled losses", SEEDS[:5], words=scaled)
        gate(self.folder_of_all / "scaled losses", "--record", self.folder_of_all / "scaled losses.json")
        gate(self.runs_of("scaled losses again", [205], words=scaled),
             "--baseline", self.folder_of_all / "scaled losses.json", *UNTIMED,
             codes=(BLUNT,))
        kinds = self.flagged("late", SEEDS[:1], "loss_scale_late", "gradient norm was", ", x 0.",
                             "parameters, seed 1 was ",
                             baseline="scaled losses", words=scaled)
        self.assertLessEqual({"hash", "norm"}, kinds)

    def test_nan_dropped(self):
        """The same NaN that the baseline skipped a step for."""
        kinds = self.flagged("dropped", [203], "nan_planted,nan_dropped", "skipped steps, seed 203 was 1, is 0",
                             baseline="skips")
        self.assertIn("bytes", kinds)
        gate(self.runs_of("skipped again", [204], "nan_planted"), "--baseline", self.folder_of_all / "skips.json",
             *UNTIMED,
             codes=(BLUNT,))

    def test_slower_step(self):
        """Steps that last 0.2 s whatever else the machine does: again 0.2 s is no finding, 10 % more is one, on a busy
        machine too."""
        padded = {name: self.runs_of(name, SEEDS[:5], defect) for name, defect in (
            ("padded", "step_padded"), ("padded again", "step_padded"), ("slower", "step_padded,step_slower"))}
        path = self.folder / "times.json"
        gate(padded["padded"], "--record", path)
        self.assertIn(": 0 moved\n", gate(padded["padded again"], "--baseline", path, codes=(0, BLUNT)))
        done = gate(padded["slower"], "--baseline", path, codes=(1,))
        self.assertRegex(done, r"moved: gpt, .*: time was .* us, is .* us, x 1\.(0[89]|1[0-2])\d\d "
                               r"\(1\.\d+ to 1\.\d+\); allowed: x 1\.\d+\n")
        self.assertIn(": 1 moved\n", done)


if __name__ == "__main__":
    zpp.main()
