# ctest: name=check_trace timeout=300
"""zpp-validate check on synthetic traces: VALID for right ones of many kinds, INVALID for every
corruption."""

import contextlib
import hashlib
import io
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

from synthetic_trace import CASES, DYNAMIC, FEATURES, configure, make, rewrite, write
from zpp_validate.checkers import check_trace
from zpp_validate.forms import weight_images

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
VALIDATE = SOURCE / "validation" / "zpp-validate"

# Offload to files: of the optimizer, of a part of it, and of the weights of some units and of all.
FILES = (dict(stage=1, bf16=True, offload=(1.0, 1000, 4), files=(100, 0, 1)),
         dict(stage=0, offload=(0.25, 100, 3), files=(1 << 40, 0, 1)),
         dict(FEATURES, bf16=True, offload=(1.0, 1000, 4), offload_param=True, files=(300, 1000, 1)),
         dict(offload=(1.0, 200, 2), offload_param=True, files=(1 << 40, 0, 9)))


class CheckTrace(unittest.TestCase):
    whole = {}  # files of cases

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "train.h5"
        self.addCleanup(self.folder.cleanup)

    def run_program(self, *arguments):
        return subprocess.run([sys.executable, VALIDATE, "check", *arguments], capture_output=True, text=True,
                              check=False)

    def judge(self):
        """Exit code and output, in this process: starting Python takes longer than judging."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = check_trace.main([str(self.path)])
        return status, output.getvalue()

    def assert_invalid(self, reason):
        status, output = self.judge()
        self.assertEqual(status, 1, output)
        self.assertTrue(all(line.startswith("INVALID: ") for line in output.splitlines()), output)
        self.assertIn(reason, output)

    def test_right_traces_are_valid(self):
        for name, case in CASES.items():
            with self.subTest(name):
                write(self.path, *make(case))
                self.assertEqual(self.judge(), (0, "VALID\n"))

    def test_a_column_of_more_values_than_memory_is_not_read(self):
        write(self.path, *make({}))
        with h5py.File(self.path, "r+") as file:
            described = dict(file["steps/loss"].attrs)
            del file["steps/loss"]
            file["steps"].create_dataset("loss", shape=(10**12,), dtype="f8", chunks=(4096,),
                                         fletcher32=True).attrs.update(described)
        self.assertLess(self.path.stat().st_size, 10**7)
        self.assert_invalid("/steps/loss is larger")

    def test_cases_send_across_nodes_and_inside(self):
        """The cases would prove nothing if they sent nothing."""
        steps = make(dict(FEATURES))[1]["steps"]
        self.assertTrue(all(steps["bytes_intra_node"]) and all(steps["bytes_inter_node"]))

    def change(self, edit, reason, case=FEATURES):
        """A trace of the case with this change is INVALID for this reason. The unchanged part is written once."""
        if repr(case) not in self.whole:
            write(self.path, *make(case))
            self.whole[repr(case)] = self.path.read_bytes()
        before, after = make(case), make(case)
        edit(*after)
        self.path.write_bytes(self.whole[repr(case)])
        rewrite(self.path, before, after)
        self.assert_invalid(reason)

    def test_bytes_counted_and_predicted_changed_together(self):
        for kind in ("intra", "inter"):
            def edit(_, groups, kind=kind):
                for name in (f"bytes_{kind}_node", f"bytes_predicted_{kind}_node"):
                    groups["steps"][name][1] += 16
                groups["collectives"][f"wire_bytes_{kind}"][0] += 16
            self.change(edit, "bytes of step 1")

    def test_bytes_of_collectives(self):
        def edit(_, groups):
            groups["collectives"]["wire_bytes_inter"][0] += 16
        self.change(edit, "/collectives")

    def test_bytes_moved_between_purposes(self):
        def edit(_, groups):
            bytes_ = groups["collectives"]["wire_bytes_intra"]
            purposes = groups["collectives"]["purpose"]
            bytes_[purposes.index("weights")] += 16
            bytes_[purposes.index("gradients")] -= 16
        self.change(edit, "weights")

    def test_a_removed_unit(self):
        def remove_row(_, groups):
            for column in groups["units"].values():
                column.pop()
        self.change(remove_row, "/units")

        def remove_everywhere(_, groups):
            remove_row(_, groups)
            keep = [i for i, unit in enumerate(groups["tensors"]["unit"]) if unit != 3]
            for name, column in groups["tensors"].items():
                groups["tensors"][name] = [column[i] for i in keep]
            groups["layers"]["units"][3] = "0"
        self.change(remove_everywhere, "bytes of step 0")

    def test_other_settings_than_those_that_ran(self):
        small_buckets = dict(FEATURES, bucket=1, codecs=("int8:256", "int4:32", "int4:32"))
        for key, value, case in (("stage", 2, FEATURES), ("zero_hpz_partition_size", 1, FEATURES),
                                 ("reduce_bucket_size", 10**9, small_buckets),
                                 ("zero_quantized_weights", False, FEATURES),
                                 ("zero_quantized_gradients", False, FEATURES)):
            def edit(attributes, _, key=key, value=value):
                config = json.loads(attributes["config_json"])
                config["zero_optimization"][key] = value
                attributes["config_json"] = json.dumps(config)
                attributes["config_hash"] = hashlib.sha256(
                    attributes["config_json"].encode()).hexdigest()
            with self.subTest(key):
                self.change(edit, "should be", case)

    def test_another_shard_group_than_that_which_ran(self):
        for size in (0, 4):
            def edit(attributes, _, size=size):
                config = json.loads(attributes["config_json"])
                config["zeropp"]["shard_group_size"] = size
                attributes["config_json"] = json.dumps(config)
                attributes["config_hash"] = hashlib.sha256(attributes["config_json"].encode()).hexdigest()
            with self.subTest(size):
                self.change(edit, "should be", dict(nodes=4, shard=2))

    def test_root_attributes(self):
        for name in make({})[0]:
            with self.subTest(name):
                self.change(lambda a, _, name=name: a.pop(name), f"no attribute {name}")
        self.change(lambda a, _: a.update(complete=0), "not complete")
        self.change(lambda a, _: a.update(config_hash="0" * 64), "config_hash")
        self.change(lambda a, _: a.update(verdict="INVALID: x"), "the run itself")
        self.change(lambda a, _: a.update(world_size=5), "world_size")
        self.change(lambda a, _: a.update(config_json="{"), "config_json")
        self.change(lambda a, _: a.update(flops_per_token=28321.0), "flops_per_token is 28321, should be 28320")
        self.change(lambda a, _: a.update(hardware_flops_per_token=28320.0), "hardware_flops_per_token is 28320",
                    dict(recompute=True))

    def test_columns(self):
        for group, columns in make({})[1].items():
            name = random.Random(group).choice(sorted(columns))
            with self.subTest(f"{group}/{name}"):
                self.change(lambda _, g, group=group, name=name: g[group].pop(name),
                            f"no column /{group}/{name}")
        self.change(lambda _, g: g["steps"]["loss"].pop(), "differ in length")

    def test_insane_numbers(self):
        def put(group, column, row, value):
            return lambda _, groups: groups[group][column].__setitem__(row, value)

        def of_ids(attributes, _):
            config = json.loads(attributes["config_json"])
            config["zeropp"]["data"]["source"] = "llmc"
            configure(attributes, config)
        self.change(put("steps", "loss", 0, float("nan")), "loss is not finite")
        self.change(put("steps", "loss", 0, -5.0), "loss < 0")
        self.change(put("steps", "learning_rate", 2, 9.0), "learning_rate")
        self.change(put("steps", "time", 0, 0.0), "time is not positive")
        self.change(put("steps", "tokens_per_second", 2, 1.0), "tokens_per_second")
        self.change(put("steps", "time_forward", 0, 0.6), "time_forward")
        for name in ("time_gather", "time_reduce", "time_optimizer", "time_offload_wait"):
            self.change(put("steps", name, 0, 0.6), f"step 0: {name}")
            self.change(put("steps", name, 0, -0.1), f"step 0: {name}")
        self.change(put("steps", "time_offload_wait", 0, 0.1), "does not fit what is offloaded")
        self.change(put("layers", "flops_per_token", 1, 7999.0), "/layers/flops_per_token does not add up")
        self.change(put("layers", "hardware_flops_per_token", 2, -1.0), "/layers/hardware_flops_per_token")
        self.change(put("counters", "value", 0, 0), "nonfinite_steps")
        self.change(put("evaluations", "step", 2, 4), "/evaluations/step")
        self.change(put("evaluations", "batches", 0, 1), "/evaluations/batches")
        self.change(put("evaluations", "batches", 0, 2**63), "/evaluations/batches")
        self.change(put("evaluations", "loss", 1, float("nan")), "evaluation after step 2: loss")
        self.change(put("evaluations", "bits_per_byte", 1, 0.1), "bits_per_byte is not loss / ln 2")
        self.change(put("evaluations", "bits_per_byte", 1, float("nan")), "bits_per_byte is not loss / ln 2")
        self.change(of_ids, "bits_per_byte is a number, but the loss is not of bytes")
        self.change(put("tensors", "offset", 1, 1), "does not begin")
        self.change(put("units", "padded", 0, 1), "padded")

    def test_rows_of_collectives(self):
        def edit(name, value):
            return lambda _, groups: groups["collectives"][name].__setitem__(0, value)
        for name, value, reason in (
                ("calls", 1, "calls is 1, should be"), ("logical_bytes", 0, "logical_bytes is 0"),
                ("seconds", -1.0, "seconds"), ("codec", "none", "did not run"),
                ("algorithm", "flat", "did not run"), ("phase", "backward", "is missing"),
                ("group", "node", "did not run"), ("path", "fused", "path")):
            with self.subTest(name):
                self.change(edit(name, value), reason)

        def twice(_, groups):
            for column in groups["collectives"].values():
                column.append(column[0])
        self.change(twice, "is twice")

        def never(_, groups):
            for column in groups["collectives"].values():
                column.pop()
        self.change(never, "is missing")

        def nowhere(_, groups):
            for column in groups["collectives"].values():
                column.clear()
        self.change(nowhere, "/collectives is empty")

    def test_codecs_that_ran(self):
        """Two hops name both codecs only where both hops are taken."""
        codecs = ("int8:256", "int4:64", "int8:128")
        for nodes, local, name, others in ((2, 2, "int4:64/int8:128", ("int4:64", "int8:128")),
                                           (1, 4, "int4:64", ("int8:128", "int4:64/int8:128")),
                                           (4, 1, "int8:128", ("int4:64", "int4:64/int8:128"))):
            case = dict(nodes=nodes, local=local, qgz=True, reduce="2-hop", codecs=codecs)
            attributes, groups = make(case)
            row = groups["collectives"]["purpose"].index("gradients")
            self.assertEqual(groups["collectives"]["codec"][row], name)
            write(self.path, attributes, groups)
            self.assertEqual(self.judge(), (0, "VALID\n"))
            for other in others:
                self.change(lambda _, g, row=row, other=other:
                            g["collectives"]["codec"].__setitem__(row, other), "did not run", case)

    def test_skipped_steps(self):
        self.change(lambda *_: None, "the last step was skipped", dict(FEATURES, skipped=(0, 0, 1)))
        self.change(lambda *_: None, "all steps were skipped", dict(FEATURES, skipped=(1, 1, 1)))
        fixed = {"fp16": {"loss_scale": 8.0}, "scales": (8.0,) * 3}
        self.change(lambda *_: None, "the last step was skipped", dict(fixed, skipped=(0, 0, 1)))
        self.change(lambda *_: None, "all steps were skipped",
                    dict(CASES["fp16"], skipped=(1, 1, 1), scales=(65536.0, 65536.0, 32768.0)))

    def test_loss_scale(self):
        """The loss scale of a step follows from the steps skipped before it. Any other scale is wrong, and so is a step
        after an overflow at the minimum."""
        for step in range(3):
            self.change(lambda _, groups, step=step: groups["steps"]["loss_scale"].__setitem__(step, 4.0),
                        f"step {step}: loss_scale is 4.0", CASES["fp16 that halves"])
            self.change(lambda _, groups, step=step: groups["steps"]["loss_scale"].__setitem__(step, 65536.0),
                        f"step {step}: loss_scale is 65536.0, not 1.0", {})
        later = dict(CASES["fp16 that resumes"])
        self.change(lambda _, groups: groups["steps"]["loss_scale"].__setitem__(2, 256.0),
                    "step 2: loss_scale is 256.0, which cannot follow 128.0",
                    later)
        least = dict(DYNAMIC, hysteresis=1, min_loss_scale=65536.0)
        self.change(lambda *_: None, "step 2: loss_scale is 65536.0, not None", dict(fp16=least, scales=(65536.0,) * 3))

    def test_interrupted(self):
        early = dict(FEATURES, evaluations=((0, 2), (2, 2)), interrupted="SIGUSR1", planned=9)
        self.change(lambda a, _: a.update(interrupted=""), "3 steps of 9", early)
        self.change(lambda a, _: a.update(interrupted="SIGINT"), "interrupted by 'SIGINT'", early)
        self.change(lambda *_: None, "3 steps of 3, interrupted by SIGUSR1", dict(early, planned=3))
        # The signal may have cut off the evaluation after the last step, and no other.
        self.change(lambda *_: None, "does not follow the interval", dict(early, evaluations=((2, 2),)))
        self.change(lambda _, groups: groups["evaluations"].update({"@cut_off": 1}), "no evaluation was cut off", early)
        cut_off = dict(FEATURES, first=1, evaluations=((0, 2), (1, 2)), cut_off=1, interrupted="SIGUSR1", planned=9)
        for batches, reason in ((0, "weights evaluation"), (2, "no evaluation was cut off")):
            self.change(lambda _, groups, batches=batches: groups["evaluations"].update({"@cut_off": batches}), reason,
                        cut_off)
        self.change(lambda *_: None, "/evaluations/step", dict(early, evaluations=((0, 2), (2, 2), (3, 2))))

    def test_a_run_that_goes_on(self):
        """The steps before first_step count as steps, also for the steps of evaluations."""
        later = dict(FEATURES, first=1, evaluations=((0, 2), (1, 2), (3, 2)))
        self.change(lambda a, _: a.update(first_step=0), "3 steps of 4", later)
        self.change(lambda a, _: a.update(first_step=2), "5 steps of 4", later)
        self.change(lambda *_: None, "/steps is empty", dict(FEATURES, skipped=(), evaluations=((0, 2),)))
        self.change(lambda *_: None, "/evaluations/step", dict(later, evaluations=((1, 2), (3, 2))))
        self.change(lambda *_: None, "6 steps of 6, interrupted by SIGTERM",
                    dict(later, first=3, interrupted="SIGTERM", planned=6))

    def test_evaluation_steps(self):
        """After 0, 2 and all 3 steps, or never: nothing else is the interval's."""
        for evaluations in (((0, 2), (1, 2), (3, 2)), ((0, 2), (2, 2)), ((2, 2), (3, 2)), ((0, 2), (3, 2)),
                            ((0, 2), (1, 2), (2, 2), (3, 2)), ()):
            self.change(lambda *_: None, "/evaluations/step", dict(FEATURES, evaluations=evaluations))
        self.change(lambda *_: None, "/evaluations/step", dict(FEATURES, interval=0))

    def test_counters(self):
        def zero(_, groups):
            groups["counters"]["value"] = [0, 0]

        def empty(_, groups):
            groups["counters"] = {"name": [], "value": []}

        def unknown(_, groups):
            groups["counters"]["name"][1] = "something"
        for edit in (zero, empty, unknown):
            self.change(edit, "counter secondary_gathers is 0, should be")
        self.change(empty, "counter nonfinite_steps is 0, should be 4")

    def test_timers(self):
        def first_rank(_, groups):
            groups["timers"] = {name: column[:7] for name, column in groups["timers"].items()}

        def twice(_, groups):
            groups["timers"]["category"][1] = "matmul"

        def nothing(_, groups):
            groups["timers"]["seconds"][7:14] = [0.0] * 7
        self.change(first_rank, "/timers has not every category")
        self.change(twice, "/timers has not every category")
        self.change(nothing, "rank 1 took no time")
        self.change(lambda _, g: g["timers"]["seconds"].__setitem__(3, -1.0), "timer optimizer of rank 0")

    def test_memory(self):
        def one_row(_, groups):
            groups["memory"] = {name: column[:1] for name, column in groups["memory"].items()}

        def both(_, groups):
            for name in ("bytes_predicted", "bytes_actual"):
                groups["memory"][name][1] += 4
        self.change(one_row, "/memory does not name exactly")
        self.change(lambda _, g: g["memory"]["bytes_actual"].__setitem__(7, 1), "/memory: arena takes 1 of")
        self.change(both, "/memory: moments is")
        self.change(lambda *_: None, "/memory: moments is", dict(FEATURES, optimizer=("Lion", {}), states=2))
        self.change(both, "/memory: moments is", CASES["moments in 8 bits"])
        self.change(lambda *_: None, "no closed form for the optimizer 'Lamb'", dict(FEATURES, optimizer=("Lamb", {})))

    def test_inputs_of_blocks_on_the_host(self):
        def other(_, groups):
            for column in ("bytes_predicted", "bytes_actual"):
                groups["memory"][column][groups["memory"]["name"].index("offloaded_activations")] += 256

        def lacks(_, groups):
            at = groups["memory"]["name"].index("offloaded_activations")
            for column in groups["memory"].values():
                del column[at]
        for name in ("cpu checkpointing", "cpu checkpointing in 16 bits on GPUs"):
            self.change(other, "/memory: offloaded_activations is", CASES[name])
            self.change(lacks, "/memory does not name exactly", CASES[name])

    def test_hpz_on_the_host(self):
        def moved(_, groups):
            names, bytes_of = groups["memory"]["name"], groups["memory"]
            for column in ("bytes_predicted", "bytes_actual"):
                there, here = names.index("offloaded_secondary"), names.index("secondary")
                bytes_of[column][here], bytes_of[column][there] = bytes_of[column][there], bytes_of[column][here]

        def claimed(attributes, _):
            config = json.loads(attributes["config_json"])
            config["zeropp"]["hpz_device"] = "device"
            attributes["config_json"] = json.dumps(config)
            attributes["config_hash"] = hashlib.sha256(attributes["config_json"].encode()).hexdigest()
        for name in ("hpz on the host", "hpz on the host of GPUs"):
            self.change(moved, "/memory: offloaded_secondary is 0, should be", CASES[name])
            self.change(claimed, "/memory does not name exactly", CASES[name])

    def test_offload(self):
        def row(name):
            def change(_, groups):
                for column in ("bytes_predicted", "bytes_actual"):
                    groups["memory"][column][groups["memory"]["name"].index(name)] += 4
            return change

        def lacks(_, groups):
            at = groups["memory"]["name"].index("offloaded_master")
            for column in groups["memory"].values():
                del column[at]
        for case in (dict(FEATURES, offload=(1.0, 1000, 4)), dict(FEATURES, offload=(0.3, 1 << 22, 99)),
                     dict(stage=1, offload=(0.5, 64, 2)),
                     dict(stage=0, offload=(0.25, 100, 3)), dict(FEATURES, offload=(0.6, 1000, 4), cuda=True),
                     dict(FEATURES, offload=(1.0, 1000, 4), offload_param=True),
                     dict(FEATURES, bf16=True, offload=(1.0, 1000, 4), offload_param=True),
                     *FILES):
            write(self.path, *make(case))
            self.assertEqual(self.judge(), (0, "VALID\n"), case)
            for name in ("master", "moments", "compute_shard", "offloaded_master", "offloaded_moments",
                         "offloaded_staging",
                         *["offloaded_weights"] * case.get("offload_param", False)):
                self.change(row(name), f"/memory: {name} is", case)
            self.change(lacks, "/memory does not name exactly", case)
            self.change(lambda _, groups: groups["steps"]["time_offload_wait"].__setitem__(0, 0.0),
                        "does not fit what is offloaded", case)

    def test_offload_to_files(self):
        """Counters of the reads and writes of steps, in pieces of a sub-group and records of whole pages."""
        for case in FILES:
            counted = ["files", *(f"file_{what}" for what in ("bytes_read", "bytes_written", "reads", "writes"))]
            for name in counted:
                def one_more(_, groups):
                    groups["counters"]["value"][groups["counters"]["name"].index(name)] += 1
                self.change(one_more, f"counter {name} is", case)

            def rings(_, groups):
                groups["counters"]["value"][groups["counters"]["name"].index("files_io_uring")] = 99
            self.change(rings, "counter files_io_uring is 99, should be at most", case)

        def waits(_, groups):
            groups["counters"]["name"][0] = "file_wait_ns"
        self.change(waits, "counter file_wait_ns is", dict(FEATURES, offload=(1.0, 1000, 4)))

    def test_every_row_of_memory(self):
        """Each that the checker derives, predicted and found alike: a byte more is INVALID. Tests of runs of zpp_train
        rely on it."""
        everything = dict(FEATURES, bf16=True, images=True, recompute=True, cpu_checkpointing=True, cuda=True)
        cases = (dict(everything, feedback=("intra", "inter"), hpz_device="cpu"), dict(stage=0),
                 dict(stage=1, bf16=True),
                 dict(everything, offload=(0.6, 1000, 4)), dict(FILES[2], moments="int8"), FILES[3],
                 CASES["shard groups of nodes with error feedback"])
        seen = set()
        for case in cases:
            names = make(case)[1]["memory"]["name"]
            for row, name in enumerate(names):
                if name in ("arena", "activations", "buffers_peak", "gpu_used"):
                    continue

                def one_more(_, groups, row=row):
                    for column in ("bytes_predicted", "bytes_actual"):
                        groups["memory"][column][row] += 1
                with self.subTest(name, case=case):
                    self.change(one_more, f"/memory: {name} is", case)
                seen.add(name)
        self.assertEqual(len(seen), 19, seen)

    def test_memory_of_virtual_ranks(self):
        """One process has the memory of all of them, not of one."""
        def one_process(attributes, _):
            config = json.loads(attributes["config_json"])
            config["zeropp"]["virtual_ranks"] = attributes["world_size"]
            configure(attributes, config)
        self.change(one_process, "/memory: buffers_peak is not predicted as the sum", dict(FEATURES, cuda=True))

    def test_kept_images(self):
        """Wrong bytes of images, and images that no option requests."""
        def larger(_, groups):
            columns = groups["memory"]
            columns["bytes_predicted"][columns["name"].index("weight_images")] += 16
        self.change(larger, "/memory: weight_images is", CASES["kept images"])
        def unasked(attributes, _):
            config = json.loads(attributes["config_json"])
            config["zeropp"]["keep_weight_images"] = False
            configure(attributes, config)
        self.change(unasked, "/memory does not name exactly", CASES["kept images"])

        def tables(_, groups):
            columns = groups["memory"]
            for column in ("bytes_predicted", "bytes_actual"):
                columns[column][columns["name"].index("weight_image_tables")] += 112
        self.change(tables, "/memory: weight_image_tables is", CASES["kept images on GPUs"])

    def test_counters_of_kept_images(self):
        """One more, one row less, and what the configuration does not ask for."""
        for case, *names in (("kept images", "weight_images_encoded", "weight_images_by_updates"),
                             ("kept images that nothing but encoders write", "weight_images_encoded"),
                             ("kept images of one moment on GPUs", "weight_images_encoded"),
                             ("kept images on GPUs", "weight_images_encoded", "weight_images_by_updates")):
            for name in names:
                def more(_, groups, name=name):
                    groups["counters"]["value"][groups["counters"]["name"].index(name)] += 1

                def none(_, groups, name=name):
                    row = groups["counters"]["name"].index(name)
                    for column in groups["counters"].values():
                        del column[row]
                for edit in (more, none):
                    self.change(edit, f"counter {name} is", CASES[case])

    def test_options_of_earlier_versions(self):
        """A run that used one is judged by its own version. One without an effect changed nothing."""
        def given(attributes, name, value):
            config = json.loads(attributes["config_json"])
            config["zeropp"][name] = value
            configure(attributes, config)
        for name, without_effect, used in (("peer_stores", "off", "on"), ("averaged_steps", 0, 3)):
            attributes, groups = make(dict(FEATURES))
            given(attributes, name, without_effect)
            write(self.path, attributes, groups)
            self.assertEqual(self.judge(), (0, "VALID\n"), name)
            self.change(lambda attributes, _, name=name, used=used: given(attributes, name, used),
                        f"the run used zeropp.{name}, which this version does not know")

    def test_models(self):
        """FLOPs of a Llama of 2 heads, 4 wide, that share one of keys and values, and of an MLP 16 wide."""
        def of(name, **sizes):
            def edit(attributes, groups):
                config = json.loads(attributes["config_json"])
                config["zeropp"]["model"].update(name=name, **sizes)
                configure(attributes, config)
                # 6 (3 (10 * 16 + 8 * 10 + 3 * 10 * 16) + 64 * 10) + 12 * 3 * 8 * 8, and again two blocks of
                # 2 (10 * 16 + 8 * 10 + 2 * 10 * 16) + 4 * 8 * 8
                attributes.update(flops_per_token=19104.0, hardware_flops_per_token=21856.0)
                groups["layers"].update(flops_per_token=[0.0, 5088.0, 5088.0, 8928.0],
                                        hardware_flops_per_token=[0.0, 6464.0, 6464.0, 8928.0])
            return edit

        sizes = {"num_key_value_heads": 1, "head_dim": 4, "ffn_hidden_size": 16}
        case = dict(recompute=True)
        attributes, groups = make(case)
        of("llama", **sizes)(attributes, groups)
        write(self.path, attributes, groups)
        self.assertEqual(self.judge(), (0, "VALID\n"))
        for name, value in (("num_key_value_heads", 2), ("head_dim", 6), ("ffn_hidden_size", 17), ("name", "gpt"),
                            ("num_layers", 2), ("hidden_size", 12), ("seq_length", 9), ("vocab_size", 65)):
            with self.subTest(name):
                self.change(of(**{"name": "llama", **sizes, name: value}), "flops_per_token is", case)
        self.change(of("llama", **sizes | {"head_dim": 5}), "cannot be rotated", case)
        self.change(of("llama", **sizes | {"num_key_value_heads": 3}), "do not divide", case)
        self.change(of("encoder"), "zeropp.model.name encoder, which this version does not know", case)

    def test_tables_of_images(self):
        """Tiles, and pieces of tensors in them, counted weight by weight."""
        rng = random.Random(4096)
        for _ in range(30):
            first, length = rng.randrange(20000), rng.randrange(1, 30000)
            tensors, begin = [], 0
            while begin < 60000:
                tensors.append((begin, rng.choice((1, 64, 100, 4096, 9000, 20001))))
                begin = -(-sum(tensors[-1]) // 64) * 64
            expected = 0
            for tile in range(first, first + length, weight_images.TILE):
                covered = range(tile, min(tile + weight_images.TILE, first + length))
                expected += 40 + 72 * sum(max(offset, covered[0]) <= min(offset + elements - 1, covered[-1])
                                          for offset, elements in tensors)
            self.assertEqual(weight_images.table_bytes(tensors, first, length), expected)

    def test_error_feedback(self):
        case = dict(FEATURES, feedback=("intra", "inter"))

        def edit(name, value):
            def change(_, groups):
                columns = groups["memory"]
                for column in ("bytes_predicted", "bytes_actual"):
                    columns[column][columns["name"].index(name)] += value
            return change
        self.change(edit("error_feedback_intra", 16), "/memory: error_feedback_intra is", case)
        self.change(edit("error_feedback_inter", -16), "/memory: error_feedback_inter is", case)

        def path(text):
            def change(_, groups):
                columns = groups["collectives"]
                columns["path"][columns["purpose"].index("gradients")] = text
            return change
        for text in ("composed", "fused+feedback:intra,inter", "composed+feedback:intra"):
            self.change(path(text), f"path '{text}'", case)
        self.change(path("composed+feedback:intra,inter"), "path 'composed+feedback:intra,inter'")

        def without(_, groups):
            for column in groups["memory"].values():
                del column[7]
        self.change(without, "/memory does not name exactly", case)

    def test_measured_errors(self):
        case = dict(FEATURES, measure=1)

        def one(name, value, row=-1):
            return lambda _, groups: groups["errors"][name].__setitem__(row, value)
        rows = "/errors has not exactly a row"
        self.change(one("step", 1), rows, case)
        self.change(one("step", 1, 0), rows, dict(measure=2, first=1, evaluations=(), interval=0))
        self.change(one("kind", "weights"), rows, case)
        self.change(one("unit_kind", "u0"), rows, case)
        self.change(lambda _, groups: [column.pop() for column in groups["errors"].values()], rows, case)
        self.change(lambda _, groups: groups.pop("errors"), "/errors", case)
        self.change(one("cosine", 1.1), "out of its range", case)
        self.change(one("largest", float("inf")), "out of its range", case)
        self.change(one("norm_ratio", 1.0), "does not follow", case)
        self.change(one("relative_l2", 0.3), "does not follow", case)
        self.change(one("largest", 0.0), "do not agree", case)
        for stage in (1, 2, 3):
            self.change(one("relative_l2", 0.1, 0), "without a codec", dict(measure=1, stage=stage))

    def test_verified_steps(self):
        case = dict(verify=2, alarms=1)

        def counter(name, value):
            def edit(_, groups):
                counters = groups["counters"]
                counters["value"][counters["name"].index(name)] = value
            return edit

        def ended(attributes, _):
            config = json.loads(attributes["config_json"])
            config["zeropp"]["verify_action"] = "end"
            attributes["config_json"] = json.dumps(config)
        self.change(counter("verified_steps", 12), "counter verified_steps is 12, should be 8", case)
        self.change(counter("verification_alarms", 3), "other verification_alarms", case)
        self.change(ended, "a step was found damaged", case)
        self.change(counter("verified_steps", 0), "counter verified_steps is 0, should be 12", dict(verify=1))

    def test_gpus(self):
        case = dict(FEATURES, cuda=True)

        def gpus(reason, **changes):
            def edit(_, groups):
                for name, value in changes.items():
                    if name.startswith("at_"):
                        groups["gpus"]["@" + name[3:]] = value
                    else:
                        groups["gpus"][name][1] = value
            self.change(edit, reason, case)
        gpus("/gpus: period", at_period=2.0)
        gpus("/gpus: reading of rank 0 at 1 s: sm_clock", sm_clock=-1.0)
        gpus("power is inf", power=float("inf"))
        gpus("memory_utilization is 101", memory_utilization=101.0)
        gpus("reasons 'tired'", reasons="tired")
        gpus("reasons 'unknown,gpu_idle'", reasons="unknown,gpu_idle")
        gpus("/gpus/time of rank 0 does not go forward", time=-1.0)
        gpus("/gpus/rank is no rank", rank=99)
        gpus("throttled does not fit", reasons="sw_power_cap,sync_boost")
        gpus("throttled does not fit", at_throttled="rank 0 ...")
        self.change(lambda _, g: g.pop("gpus"), "no group /gpus", case)
        self.change(lambda _, g: g["gpus"].pop("power"), "no column /gpus/power", case)
        self.change(lambda _, g: g["gpus"].pop("@absent"), "/gpus has no attribute absent", case)
        self.change(lambda _, g: g["gpus"].update({"@absent": 1.0}), "/gpus: attribute absent has the wrong type", case)

        def one_rank(_, groups):
            groups["gpus"] = {name: value if name.startswith("@") else value[2:]
                              for name, value in groups["gpus"].items()}
        self.change(one_rank, "/gpus has not the readings of every rank", case)
        attributes, groups = make(case)
        one_rank(attributes, groups)
        groups["gpus"]["@absent"] = "rank 0: NVML cannot be opened"
        write(self.path, attributes, groups)
        self.assertEqual(self.judge(), (0, "VALID\n"))
        groups["gpus"].update({"@throttled": "rank 1 ...", "reasons": ["hw_slowdown"] * len(groups["gpus"]["reasons"])})
        write(self.path, attributes, groups)
        self.assertEqual(self.judge(), (0, "VALID\n"))

    def test_processes_and_hashes(self):
        for pids in ([0] * 4, [1, 2, 3, 3], [0, 1, 2, 3]):
            self.change(lambda _, g, pids=pids: g["ranks"].update(pid=pids), "/ranks/pid")
        attributes, groups = make(FEATURES)
        groups["ranks"].update(host=["a", "a", "b", "b"], pid=[7, 8, 7, 8])
        write(self.path, attributes, groups)
        self.assertEqual(self.judge(), (0, "VALID\n"))
        for value in ("x", "", "0A" * 32, "0a" * 32 + "\n", "0a" * 31):
            self.change(lambda a, _, value=value: a.update(parameters_hash=value), "parameters_hash")

    def test_data(self):
        for name, value in (("unigram_entropy_bits", -1.0), ("unigram_entropy_bits", float("nan")),
                            ("unigram_entropy_bits", 6.5), ("source_entropy_bits", -1.0),
                            ("vocab_size", 0), ("train_tokens", 0), ("held_out_tokens", np.bytes_("x"))):
            with self.subTest(name):
                write(self.path, *make(FEATURES))
                with h5py.File(self.path, "r+") as file:
                    file["data"].attrs[name] = value
                self.assert_invalid(name)
        write(self.path, *make(FEATURES))
        with h5py.File(self.path, "r+") as file:
            file["data"].attrs["source_entropy_bits"] = float("nan")
        self.assertEqual(self.judge(), (0, "VALID\n"))

    def test_modelled_rows_carry_the_bytes_of_a_ring(self):
        attributes, groups = make({})
        config = json.loads(attributes["config_json"])
        config["zeropp"]["reduce_scatter_algorithm"] = "native"
        attributes["config_json"] = json.dumps(config)
        attributes["config_hash"] = hashlib.sha256(attributes["config_json"].encode()).hexdigest()
        row = groups["collectives"]["purpose"].index("gradients")
        groups["collectives"]["algorithm"][row] = "native"
        write(self.path, attributes, groups)
        self.assert_invalid("modelled")
        groups["collectives"]["modelled"][row] = 1
        write(self.path, attributes, groups)
        self.assertEqual(self.judge(), (0, "VALID\n"))
        groups["collectives"]["wire_bytes_inter"][row] += 1
        write(self.path, attributes, groups)
        self.assert_invalid("wire_bytes_inter")

    def test_a_truncated_dataset(self):
        write(self.path, *make(FEATURES))
        with h5py.File(self.path, "r+") as file:
            file["steps/loss"].resize((2,))
        self.assert_invalid("differ in length")

    def test_missing_descriptions_and_checksums(self):
        write(self.path, *make(FEATURES))
        with h5py.File(self.path, "r+") as file:
            del file["steps/time"].attrs["units"]
            values = file["steps/loss"][()]
            del file["steps/loss"]
            file["steps/loss"] = values
        self.assert_invalid("no attribute units")
        self.assert_invalid("carries no checksum")

    def test_damaged_files(self):
        write(self.path, *make(FEATURES))
        image_ = self.path.read_bytes()
        position = image_.index(np.float64(1e-3).tobytes())  # a learning rate
        for at in range(position, position + 8):
            damaged = bytearray(image_)
            damaged[at] ^= 0x10
            self.path.write_bytes(damaged)
            self.assert_invalid("copy it again, or repeat the run")
        for size in (0, 10, len(image_) // 2, len(image_) - 1):
            self.path.write_bytes(image_[:size])
            self.assert_invalid("cannot be read: it is no HDF5 file: name the trace" if size == 0 else
                                "copy it again, or repeat the run")

    def test_the_program(self):
        self.assertEqual(self.run_program().returncode, 2)
        done = self.run_program(self.path)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (5, "", 1), done)
        self.assertIn(f"{self.path} cannot be read: No such file", done.stderr)
        write(self.path, *make(FEATURES))
        done = self.run_program(self.path)
        self.assertEqual((done.returncode, done.stdout), (0, "VALID\n"))
        self.assertRegex(done.stderr, f"^zpp-validate check: {self.path} has no digest: .*\n$")
        done = self.run_program(self.path, VALIDATE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{VALIDATE}: INVALID: cannot be read", done.stdout)


if __name__ == "__main__":
    unittest.main()
