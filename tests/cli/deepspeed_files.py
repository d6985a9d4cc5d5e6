# ctest: name=deepspeed_files timeout=300 labels=cli processors=2
"""Configurations as Transformers, Accelerate, DeepSpeed and others write them (tests/deepspeed) train as they are: two
steps on one rank each. One line names the ignored keys, and one line a learning rate that the scheduler overrides. The
named keys equal the table there, and none of them is in the effective configuration."""

import json
import re

import zpp

FILES = zpp.SOURCE / "tests" / "deepspeed"
MODEL = ["--num-layers", 2, "--hidden-size", 32, "--num-attention-heads", 2, "--seq-length", 16, "--train-iters", 2,
         "--backend", "host"]
UNUSED = re.compile(r": ([a-z_.]+) \S+ is not used: ")


def keys_by_file():
    """The table's first and third column."""
    rows = re.findall(r"^\| `(.*?)` \|.*?\| ?(.*?) ?\|$", (FILES / "README.md").read_text(), re.MULTILINE)
    return {name: re.findall("`(.*?)`", keys) for name, keys in rows}


def is_in(configuration, key):
    at = configuration
    for part in key.split("."):
        if not isinstance(at, dict) or part not in at:
            return False
        at = at[part]
    return True


class Files(zpp.TestCase):
    def words(self, content):
        """Flags that a file cannot contain: the folder of the test, and a loss scale for a model this small."""
        zero = content.get("zero_optimization", {})
        words = []
        for section, flag in (("offload_optimizer", "--offload-optimizer-nvme-path"),
                              ("offload_param", "--offload-param-nvme-path")):
            if (zero.get(section) or {}).get("device") == "nvme":
                words += [flag, self.folder]
        fp16 = content.get("fp16") or {}
        if fp16.get("enabled") is True and not fp16.get("loss_scale"):
            words += ["--initial-scale-power", 4]
        return words

    def train_file(self, path, *more):
        out = self.folder / f"{path.stem}{len(more)}"
        words = [*self.words(json.loads(path.read_text())), *more]
        return zpp.run(1, [zpp.TRAIN, *MODEL, "--deepspeed_config", path, *words, "--output", out]), out

    def test_every_file_trains(self):
        table = keys_by_file()
        paths = sorted(FILES.glob("*.json"))
        self.assertEqual([path.name for path in paths], sorted(table))
        self.assertGreaterEqual(len(paths), 40)
        for path, (result, out) in zip(paths, zpp.side_by_side(self.train_file, paths)):
            with self.subTest(path.name):
                self.assertEqual(result.code, zpp.OK, result)
                lines = [line for line in result.stderr.splitlines() if ": ignored: " in line]
                self.assertLessEqual(len(lines), 1, result)
                named = [*(zpp.ignored_keys(lines[0]) if lines else []), *UNUSED.findall(result.stderr)]
                self.assertCountEqual(named, table[path.name])
                root, groups = self.trace(out)
                self.assertEqual(len(groups["steps"]["loss"]), 2)
                stays = [key for key in named if is_in(json.loads(root["config_json"]), key)]
                # Some are always part of it, and are there with the value that they have where no file says one.
                self.assertLessEqual(set(stays), {"optimizer.params.lr", "zero_optimization.zero_hpz_partition_size",
                                                  "zero_optimization.zero_quantized_weights",
                                                  "zero_optimization.offload_param.device"})

    def test_precision_that_is_auto_is_a_flags(self):
        for flag, idle in (("--bf16", True), ("--fp16", False)):
            result, out = self.train_file(FILES / "hf_zero3.json", flag,
                                          *([] if idle else ["--initial-scale-power", 4]))
            self.assertEqual((result.code, "fp16.loss_scale " in result.stderr), (zpp.OK, idle), result)
            self.assertTrue(json.loads(self.trace(out)[0]["config_json"])[flag[2:]]["enabled"])

    def test_precision_that_is_left_open_is_said(self):
        for words, said in (([], True), (["--bf16"], False)):
            result, _ = self.train_file(FILES / "hf_zero3.json", *words)
            self.assertEqual((result.code, "everything is computed in fp32" in result.stderr), (zpp.OK, said), result)
            command = [zpp.INFO, "--deepspeed_config", FILES / "hf_zero3.json", *words]
            self.assertEqual("everything is computed in fp32" in zpp.Process(command).end().stderr, said)

    def test_what_is_typed_is_refused_all_the_same(self):
        path = FILES / "hf_zero1.json"
        for flag, value, key in (("--loss-scale", 64, "fp16.loss_scale"),
                                 ("--max-live-parameters", 9, "stage3_max_live_parameters"),
                                 ("--sub-group-size", 9, "sub_group_size"),
                                 ("--zero-hpz-partition-size", 2, "zero_hpz_partition_size")):
            with self.subTest(flag):
                result, _ = self.train_file(path, flag, value)
                self.check_fails(result, zpp.USAGE, key, "no effect")


if __name__ == "__main__":
    zpp.main()
