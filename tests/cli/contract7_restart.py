# ctest: name=contract7_restart cuda=mpi,nccl labels=cli timeout=450 processors=4
"""Training that stops and resumes at the same number of ranks gives the bits of training that does not stop. At another
number of ranks or stage it gives the same losses, to tolerance. No run resumes from a damaged checkpoint."""

import hashlib
import json
import pathlib
import shutil
import signal

import zpp

zpp.skip_without_gpus(4)
BITS = ["--deterministic", *zpp.ALL_FEATURES, "--bf16", "--clip-grad", "0.5", "--eval-interval", "2",
        "--eval-iters", "2"]


def names(folder):
    return sorted(entry.name for entry in pathlib.Path(folder).iterdir())


def flip(path, byte):
    data = bytearray(path.read_bytes())
    data[byte] ^= 0x10
    path.write_bytes(data)


class Restart(zpp.TestCase):
    def setUp(self):
        super().setUp()
        self.kept = self.out / "checkpoints"

    def run_to(self, steps, *words, ranks=4, code=zpp.OK, apart=False):
        result = self.train(ranks, "--train-iters", steps, *words, apart=apart)
        self.assertEqual(result.code, code, result)
        return result

    def save(self, *words):
        return ["--save", self.kept, *words]

    def both(self, *words):
        return ["--save", self.kept, "--load", self.kept, *words]

    def bits(self):
        root, groups = self.trace()
        steps, evaluations = groups["steps"], groups["evaluations"]
        return root["parameters_hash"], steps["loss"], steps["grad_norm"], evaluations["loss"]

    def check_restart(self, *words, apart=False):
        """`--no-async-save` has an effect only where something is saved. `apart`: in new processes, as after a job."""
        saving = [word for word in words if word == "--no-async-save"]
        words = [word for word in words if word not in saving]
        self.run_to(6, *words)
        whole = self.bits()
        self.run_to(4, *words, *self.save("--save-interval", "2", *saving))
        begin = self.bits()
        self.assertEqual(names(self.kept), ["step-000000002", "step-000000004"])
        result = self.run_to(6, *words, *self.both(), apart=apart)
        self.assertIn("resuming after step 4 of 6", result.stdout)
        root, _ = self.trace()
        self.assertEqual(root["first_step"], 4)
        end = self.bits()
        self.assertEqual(end[0], whole[0], "the parameters are others")
        self.assertEqual(begin[1] + end[1], whole[1], "a loss is another")
        self.assertEqual(begin[2] + end[2], whole[2])
        self.assertEqual(begin[3][:-1] + end[3], whole[3], "an evaluation is another")
        self.assertEqual(names(self.kept), ["step-000000004", "step-000000006"])
        checked = zpp.check_trace(self.out / "train.before-000000004.h5", self.out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)

    def test_several_runs_from_one_checkpoint_keep_their_traces(self):
        self.run_to(2, *self.save())
        for steps in (3, 4):
            self.run_to(steps, "--load", self.kept)
        firsts = [(name, zpp.read_trace(self.out / name)[0]["first_step"],
                   len(zpp.read_trace(self.out / name)[1]["steps"]["loss"]))
                  for name in ("train.before-000000002.h5", "train.before-000000002-1.h5", "train.h5")]
        self.assertEqual([entry[1:] for entry in firsts], [(0, 2), (2, 1), (2, 2)], firsts)

    def test_with_shard_groups_whose_errors_are_fed_back(self):
        groups = ["--deterministic", "--bf16", "--node-size", "2", "--zero-quantized-gradients",
                  "--error-feedback", "both"]
        self.check_restart(*groups, "--shard-group-size", "2")
        # Each element was kept once, whichever replica wrote it: others read it.
        self.run_to(8, "--deterministic", "--bf16", "--load", self.kept, ranks=2)
        self.assertEqual(self.trace()[0]["first_step"], 6)

    def test_with_all_features(self):
        self.check_restart(*BITS, apart=True)

    def test_at_stage_1_with_micro_steps_written_before_training_goes_on(self):
        self.check_restart("--no-async-save", "--deterministic", "--zero-stage", "1",
                           "--gradient-accumulation-steps", "2", apart=True)

    def test_with_offload(self):
        """Offload of the optimizer changes no byte of the checkpoint: a run without offload resumes from it too."""
        offload = ["--offload-optimizer", "cpu", "--offload-optimizer-ratio", 0.6, "--offload-piece-size", 1000]
        self.check_restart(*BITS, *offload)
        self.run_to(8, *BITS)
        whole = self.bits()[0]
        for index, words in enumerate(([], offload)):
            self.run_to(7 + index, *BITS, *words, *self.both())
        self.assertEqual(self.bits()[0], whole, "the parameters are others")

    def test_with_offload_to_files(self):
        """Master, states and weights are read from a checkpoint into files, and saved from the files into a checkpoint
        from which a run without offload resumes."""
        offload = ["--sub-group-size", 1000]
        for of in ("optimizer", "param"):
            offload += [f"--offload-{of}", "nvme", f"--offload-{of}-nvme-path", self.folder]
        self.check_restart(*BITS, *offload, "--offload-param-max-in-cpu", 2000, apart=True)
        self.run_to(8, *BITS)
        whole = self.bits()[0]
        for index, words in enumerate(([], offload)):
            self.run_to(7 + index, *BITS, *words, *self.both())
        self.assertEqual(self.bits()[0], whole, "the parameters are others")

    def test_with_moments_in_less_than_fp32(self):
        """Moments are saved in the type in which they are kept. At the same number of ranks the resumed run has equal
        bits, offloaded or not. Another number of ranks reads them too."""
        offload = ["--offload-optimizer-ratio", 0.6, "--offload-piece-size", 1024, "--offload-optimizer"]
        in_files = [*offload, "nvme", "--offload-optimizer-nvme-path", self.folder]
        for moments in ("bf16", "int8"):
            with self.subTest(moments):
                self.kept = self.out / moments
                words = [*BITS, "--moments", moments]
                self.check_restart(*words)
                self.run_to(10, *words)
                whole = self.bits()[0]
                for index, more in enumerate(([], [*offload, "cpu"], in_files, [])):
                    result = self.run_to(7 + index, *words, *more, *self.both())
                    self.assertNotIn("rounded to the nearest", result.stdout + result.stderr)
                self.assertEqual(self.bits()[0], whole, "the parameters are others")
                self.assertEqual(zpp.check_trace(self.out / "train.h5").code, zpp.OK)
                result = self.run_to(12, "--deterministic", "--bf16", "--moments", moments, "--load", self.kept,
                                     ranks=3)
                self.assertNotIn("rounded to the nearest", result.stdout + result.stderr)
                self.assertEqual(self.trace()[0]["first_step"], 10)

    def test_between_moments_of_every_kind(self):
        """Moments of another type are rounded to the type of this run, which a warning says; losses stay close to the
        losses of training that does not stop."""
        self.run_to(6, "--deterministic")
        expected = self.bits()[1][4:]
        for saved, moments in (("fp32", "bf16"), ("fp32", "int8"), ("bf16", "int8"), ("int8", "fp32"),
                               ("int8", "bf16")):
            with self.subTest(saved=saved, moments=moments):
                self.kept = self.out / f"{saved}-{moments}"
                self.run_to(4, "--deterministic", "--moments", saved, *self.save())
                result = self.run_to(6, "--deterministic", "--moments", moments, "--load", self.kept)
                self.assertIn(f"rounded to the nearest that zeropp.moments {moments} can keep",
                              result.stdout + result.stderr)
                for loss, wanted in zip(self.bits()[1], expected):
                    self.assertLess(abs(loss - wanted), 0.02)

    def test_with_error_feedback_and_stochastic_rounding(self):
        self.check_restart(*BITS, "--error-feedback", "both", "--error-feedback-dtype", "int8",
                           "--weight-codec", "int8:128+sr",
                           "--gradient-codec-intra", "int4:128+sr")

    def test_in_the_middle_of_a_schedule(self):
        """The checkpoint lies where the learning rate rises, and where it falls."""
        for begin, words in ((2, ["--lr-warmup-iters", "5"]), (4, ["--lr-warmup-iters", "2"])):
            with self.subTest(begin=begin):
                self.kept = self.out / f"checkpoints-{begin}"
                words = ["--deterministic", "--scheduler", "WarmupCosineLR", "--lr-decay-iters", "7", *words]
                self.run_to(6, *words)
                whole, rates = self.bits()[0], self.trace()[1]["steps"]["learning_rate"]
                self.assertEqual(len(set(rates)), 5, rates)  # the first two are alike
                self.run_to(begin, *words, *self.save())
                early = self.trace()[1]["steps"]["learning_rate"]
                self.run_to(6, *words, *self.both())
                self.assertEqual(self.bits()[0], whole, "the parameters are others")
                self.assertEqual(early + self.trace()[1]["steps"]["learning_rate"], rates)
                checked = zpp.check_trace(self.out / "train.h5")
                self.assertEqual(checked.code, zpp.OK, checked)

    def test_in_fp16_where_the_loss_scale_moves(self):
        """The state of the loss scale is resumed, its windows included, and so are the errors of error feedback."""
        words = ["--deterministic", *zpp.ALL_FEATURES, "--fp16", "--error-feedback", "both",
                 "--initial-scale-power", "14", "--hysteresis", "1",
                 "--loss-scale-window", "3"]
        self.run_to(12, *words)
        whole = self.bits_in_fp16()
        self.assertGreater(len(set(whole[1])), 1, "the scale stays")
        self.run_to(5, *words, *self.save())
        begin = self.bits_in_fp16()
        self.run_to(12, *words, *self.both())
        end = self.bits_in_fp16()
        self.assertEqual(end[0], whole[0], "the parameters are others")
        self.assertEqual((begin[1] + end[1], begin[2] + end[2]), whole[1:])
        checked = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)

    def bits_in_fp16(self):
        root, groups = self.trace()
        return root["parameters_hash"], groups["steps"]["loss_scale"], groups["steps"]["loss"]

    def test_with_codecs_that_change(self):
        """Codecs of gradients change by a schedule that counts the steps of both runs. Codecs of weights are chosen by
        the losses of widths after steps 0 and 3: step 4 begins with the choice that the checkpoint kept."""
        schedule = ('[{"gradient_codec_intra": "int8:128"}, {"from_step": 3, "units": ["block"], '
                    '"gradient_codec_intra": "int4:128"}]')
        self.check_restart(*BITS, "--error-feedback", "both", "--codec-schedule", schedule,
                           "--adaptive-bits", "weights",
                           "--adaptive-bits-budget-codec", "int5:32", "--adaptive-bits-interval", "3")
        result = self.run_to(7, *BITS, "--codec-schedule", schedule, "--adaptive-bits", "weights",
                             "--adaptive-bits-maximum", "3",
                             "--load", self.kept)
        self.assertIn("adaptive bits begin anew", result.stderr)

    def test_with_errors_that_are_measured(self):
        """In the steps in which a run that does not stop measures them, with its values."""
        words = [*BITS, "--measure-quantization-error", 2]
        self.run_to(6, *words)
        whole = self.trace()[1]["errors"]
        self.run_to(3, *words, *self.save())
        parts = [self.trace()[1]["errors"]]
        self.run_to(6, *words, *self.both())
        parts.append(self.trace()[1]["errors"])
        for column, values in whole.items():
            if column != "interval":
                self.assertEqual(parts[0][column] + parts[1][column], values, column)
        checked = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)

    def test_error_feedback_of_other_ranks_begins_anew(self):
        """The errors of other ranks have the same number of bytes each, in another order. Errors of another type have
        other bytes."""
        feedback = ["--zero-quantized-gradients", "--error-feedback", "both"]
        self.run_to(2, *feedback, "--micro-batch-size", 2, *self.save())
        for words, ranks in ((["--micro-batch-size", 4], 2), (["--micro-batch-size", 2, "--node-size", 2], 4),
                             (["--micro-batch-size", 2, "--error-feedback-dtype", "int8"], 4)):
            with self.subTest(words=words):
                result = self.run_to(3, *feedback, *words, "--load", self.kept, ranks=ranks)
                self.assertIn("error feedback begins anew", result.stderr)

    def test_another_number_of_ranks_and_another_stage(self):
        def at(ranks, stage):
            return ["--micro-batch-size", 12 // ranks, "--zero-stage", stage]
        self.run_to(8, *at(4, 3))
        _, wanted, _, _ = self.bits()
        losses = []
        for steps, ranks, stage in ((2, 4, 3), (4, 2, 1), (6, 3, 0), (8, 4, 3)):
            self.run_to(steps, *at(ranks, stage), *self.both(), ranks=ranks)
            losses += self.bits()[1]
        self.assertEqual(len(losses), 8)
        for one, other in zip(losses, wanted):
            self.assertAlmostEqual(one, other, delta=1e-5 * abs(other))

    def test_other_nodes_and_codecs(self):
        """The weights are there: the loss on held-out data is that at the end of the run before, to what the codecs
        lose."""
        words = ["--lr", "0.02", "--eval-interval", "8", "--eval-iters", "2"]
        self.run_to(8, *words, *self.save())
        _, _, _, (begun, ended) = self.bits()
        self.assertGreater(begun - ended, 0.01 * begun, "too little training to tell weights from initial ones")
        for others, lost in ((["--node-size", 2, "--zero-hpz-partition-size", 2], 1e-5), (zpp.ALL_FEATURES, 1e-3),
                             (["--zero-quantized-weights", "--weight-codec", "int8:64", "--bf16"], 1e-3)):
            with self.subTest(others=others):
                self.run_to(9, *words, *others, "--load", self.kept)
                _, losses, _, (first, _) = self.bits()
                self.assertEqual(len(losses), 1)
                self.assertAlmostEqual(first, ended, delta=lost * ended)

    def test_a_signal_saves_and_the_next_run_goes_on(self):
        for steps in (200, 2000):  # more where a busy machine lets the first end before the signal comes
            process = zpp.launch([(4, zpp.train_command("--train-iters", steps, "--log-interval", 1, *BITS,
                                                        *self.both(), out=self.out))])
            process.wait_for_line(f"step 3/{steps}")
            process.process.send_signal(signal.SIGUSR1)
            result = process.end()
            if result.code != zpp.OK:
                break
            shutil.rmtree(self.kept)
        self.assertEqual(result.code, zpp.REQUEUE, result)
        self.assertIn("resume with --load", result.stderr)
        self.run_to(steps, *BITS, *self.both())
        root, groups = self.trace()
        self.assertEqual(root["first_step"] + len(groups["steps"]["loss"]), steps)
        self.run_to(steps, *BITS)
        self.assertEqual(root["parameters_hash"], self.bits()[0])

    def test_one_that_is_damaged_is_set_aside_and_the_one_before_it_taken(self):
        self.run_to(6, *BITS)
        whole = self.bits()[0]
        self.run_to(4, *BITS, *self.save("--save-interval", "2"))
        flip(self.kept / "step-000000004" / "rank-00002.bin", 100)
        result = self.run_to(6, *BITS, *self.both())
        self.assertIn("was damaged after it was written", result.stderr)
        self.assertIn("resuming after step 2 of 6", result.stdout)
        self.assertEqual(self.bits()[0], whole)
        self.assertEqual(names(self.kept), ["damaged-000000004", "step-000000002", "step-000000006"])

    def test_where_all_are_damaged_nothing_is_begun(self):
        self.run_to(2, *self.save(), ranks=1)
        flip(self.kept / "step-000000002" / "manifest.json", 100)
        result = self.run_to(4, "--load", self.kept, ranks=1, code=zpp.IO)
        self.assertEqual(len(result.errors()), 1, result)
        self.assertIn("is not a checkpoint's manifest", result.errors()[0])
        self.assertEqual(result.stderr.count("is not a checkpoint's manifest"), 1, result)
        self.assertEqual(names(self.kept), ["step-000000002"])

    def test_of_several_that_are_damaged_each_is_named_once(self):
        self.run_to(4, *self.save("--save-interval", "2"), ranks=1)
        for step in (2, 4):
            flip(self.kept / f"step-{step:09}" / "manifest.json", 100)
        for words in (["--load", self.kept], self.both()):
            result = self.run_to(6, *words, ranks=1, code=zpp.IO)
            for step in (2, 4):
                self.assertEqual(result.stderr.count(f"step-{step:09}/manifest.json is not"), 1, result)
            self.assertEqual(names(self.kept), ["step-000000002", "step-000000004"])

    def test_one_of_several_is_chosen_by_its_own_folder(self):
        """By a path with a slash at its end and by a link too; the folder of all stays as it is."""
        self.run_to(6, "--deterministic")
        whole = self.bits()[0]
        self.run_to(4, "--deterministic", *self.save("--save-interval", "2"))
        (self.folder / "link").symlink_to(self.kept / "step-000000002")
        for path in (self.kept / "step-000000002", f"{self.kept}/step-000000002/", self.folder / "link"):
            with self.subTest(path=path):
                result = self.run_to(6, "--deterministic", "--load", path)
                self.assertIn("resuming after step 2 of 6", result.stdout)
                self.assertEqual(self.bits()[0], whole)
        result = self.run_to(6, "--save", self.kept, "--load", self.kept / "step-000000002", ranks=1, code=zpp.USAGE)
        self.assertIn("holds a checkpoint after 4 steps", result.errors()[0])
        self.assertEqual(names(self.kept), ["step-000000002", "step-000000004"])

    def test_a_folder_without_a_checkpoint_is_refused(self):
        """Mistyped, empty, or of another kind; unless the run saves there, nothing is begun."""
        self.run_to(2, *self.save(), ranks=1)
        (self.out / "train.h5").unlink()
        (self.folder / "empty").mkdir()
        for path, why in ((self.folder / "checkpoint", "is not there"), (self.folder / "empty", "has no checkpoint"),
                          (self.kept / "step-000000007", "is not there"), (self.folder, "has no checkpoint")):
            for saving in ([], ["--save", self.folder / "elsewhere"]):
                with self.subTest(path=path, saving=saving):
                    result = self.train(2, "--load", path, *saving)
                    self.check_fails(result, zpp.IO, f"--load {path} {why}", "leave --load out", f"--save {path} too")
                    self.assertFalse((self.folder / "elsewhere").exists())

    def test_a_folder_of_another_run_is_not_written_to(self):
        self.run_to(2, *self.save(), ranks=1)
        result = self.run_to(2, *self.save(), ranks=1, code=zpp.USAGE)
        self.assertIn("give --load", result.errors()[0])

    def test_another_model_or_optimizer_is_refused(self):
        """By a mistake in the options nothing is lost: the folder stays as it is, and without the mistake the run goes
        on."""
        self.run_to(2, *self.save(), ranks=1)
        for option, value, message in (("--hidden-size", 64, "with --hidden-size 32, and this one has 64"),
                                       ("--num-layers", 1, "with --num-layers 2, and this one has 1"),
                                       ("--num-attention-heads", 4, "with --num-attention-heads 2"),
                                       ("--model", "llama", 'with --model "gpt"'),
                                       ("--seq-length", 15, "with --seq-length 16, and this one has 15"),
                                       ("--optimizer", "Lion", 'with --optimizer "AdamW"')):
            with self.subTest(option=option):
                result = self.run_to(4, option, value, *self.both(), ranks=1, code=zpp.USAGE)
                self.assertIn(message, result.errors()[0])
                self.assertEqual(names(self.kept), ["step-000000002"])
        result = self.run_to(4, *self.both(), ranks=1)
        self.assertIn("resuming after step 2 of 4", result.stdout)

    def test_sizes_that_trade_places_are_another_model(self):
        """Their unit has as many elements, and rows of the token embedding would become positions."""
        self.run_to(2, "--vocab-size", 272, "--seq-length", 16, *self.save(), ranks=1)
        result = self.run_to(4, "--vocab-size", 256, "--seq-length", 32, *self.both(), ranks=1, code=zpp.USAGE)
        self.assertIn("with --seq-length 16, and this one has 32", result.errors()[0])
        self.assertEqual(names(self.kept), ["step-000000002"])

    def test_a_momentum_is_not_dropped(self):
        self.run_to(2, "--optimizer", "SGD", "--sgd-momentum", 0.9, *self.save(), ranks=1)
        result = self.run_to(4, "--optimizer", "SGD", *self.both(), ranks=1, code=zpp.USAGE)
        self.assertIn('with --sgd-momentum "above 0", and this one has "0"', result.errors()[0])
        result = self.run_to(4, "--optimizer", "SGD", "--sgd-momentum", 0.8, *self.both(), ranks=1)
        self.assertIn("resuming after step 2 of 4", result.stdout)

    def test_parameters_that_decay_from_here_on_are_warned_of(self):
        self.run_to(2, "--weight-decay", 0.1, *self.save(), ranks=1)
        result = self.run_to(4, "--weight-decay", 0.1, "--decayed-parameters", "all", *self.both(), ranks=1)
        self.assertIn("weight decay shrank matrices before the checkpoint, and shrinks all from here on", result.stderr)
        result = self.run_to(6, "--weight-decay", 0.1, "--decayed-parameters", "all", *self.both(), ranks=1)
        self.assertNotIn("weight decay", result.stderr)

    def forget(self, step, keys):
        """Removes keys from the identity of the run in a checkpoint, as if an earlier version had saved it."""
        path = self.kept / f"step-{step:09}" / "manifest.json"
        manifest = json.loads(path.read_text())
        state = json.loads(manifest["state"])
        for key in keys:
            del state["run"][key]
        manifest["state"] = json.dumps(state, separators=(",", ":"), sort_keys=True)
        del manifest["sha256"]
        text = json.dumps(manifest, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
        path.write_text(json.dumps(manifest))

    def test_one_of_an_earlier_version_is_judged_by_what_it_has(self):
        """That kept the model, the layers, the heads and the optimizer."""
        self.run_to(2, *self.save(), ranks=1)
        self.forget(2, ("hidden-size", "seq-length", "sgd-momentum", "tensors", "tied-head", "vocab-size"))
        result = self.run_to(4, "--num-layers", 1, *self.both(), ranks=1, code=zpp.USAGE)
        self.assertIn("with --num-layers 2, and this one has 1", result.errors()[0])
        result = self.run_to(4, *self.both(), ranks=1)
        self.assertIn("resuming after step 2 of 4", result.stdout)
        self.assertIn("did not keep hidden-size, seq-length, sgd-momentum, tensors, tied-head, vocab-size",
                      result.stderr)

    def test_one_under_another_name_is_not_gone_on_from(self):
        self.run_to(2, *self.save(), ranks=1)
        (self.kept / "step-000000002").rename(self.kept / "step-000000003")
        result = self.run_to(4, *self.both(), ranks=1, code=zpp.IO)
        self.assertIn("is of the checkpoint after 2 steps", result.errors()[0])
        self.assertEqual(names(self.kept), ["step-000000003"])

    def test_where_nothing_is_left_to_do(self):
        """The job ended between its last checkpoint and its trace; with fewer steps than are done there is no such
        run."""
        self.run_to(3, *self.save(), ranks=1)
        whole = self.bits()
        (self.out / "train.h5").unlink()
        self.run_to(3, *self.both(), ranks=1)
        self.assertEqual(self.bits(), (whole[0], [], [], []))
        checked = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)
        result = self.run_to(2, *self.both(), ranks=1, code=zpp.USAGE)
        self.assertIn("is after 3 steps, and the run ends after 2", result.errors()[0])

    def test_without_a_checkpoint_the_run_begins(self):
        result = self.run_to(2, *self.both(), ranks=1)
        self.assertIn("there is no checkpoint in", result.stderr)
        self.assertEqual(names(self.kept), ["step-000000002"])

    def test_no_folder_no_interval(self):
        result = self.run_to(2, "--save-interval", "2", ranks=1, code=zpp.USAGE)
        self.assertIn("zeropp.checkpoint.save", result.errors()[0])


if __name__ == "__main__":
    zpp.main()
