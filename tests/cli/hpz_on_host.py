# ctest: name=hpz_on_host cuda=mpi,nccl labels=cli timeout=300 processors=4
"""hpZ's secondary copy in the memory of the host (--hpz-device cpu). The parameters equal the parameters of runs with
the copy on the device; the independent checker accepts the traces and finds changes in them; memory follows its closed
forms; a run with the copy in either place resumes from a checkpoint of the other; wrong flags are refused with one
line."""

import json
import shutil

import h5py

import zpp

zpp.skip_without_gpus(4)
FLAGS = ["--node-size", "2", "--zero-hpz-partition-size", "2", "--bf16", "--deterministic", "--train-iters", "4"]
DIFFERENCES = ["--zero-quantized-weights", "--weight-differences"]
HOST = ["--hpz-device", "cpu"]
# Name: flags.
RUNS = {
    "plain": [],
    "all of ZeRO++": ["--zero-quantized-weights", "--zero-quantized-gradients", "--gradient-accumulation-steps", "2"],
    "evaluations": ["--eval-interval", "2", "--eval-iters", "1", "--update-in-backward"],
    "units that stay": ["--param-persistence-threshold", "5000"],
    "offload": ["--offload-optimizer", "cpu", "--offload-param", "cpu", "--offload-optimizer-ratio", "1"],
    "differences": [*DIFFERENCES, "--gradient-accumulation-steps", "2"],
    "differences in fp32": [*DIFFERENCES, "--weight-copy-dtype", "fp32", "--weight-refresh-interval", "3",
                            "--weight-codec", "none"],
}
# Changes of "plain": row of /memory, its column, the bytes, and what the reason names.
CHANGES = [
    ("offloaded_secondary", "bytes_actual", 0, "offloaded_secondary takes 0"),
    ("offloaded_secondary", "bytes_predicted", 64, "offloaded_secondary is 64"),
    ("secondary", "bytes_predicted", 64, "secondary is 64, should be 0"),
]


class HpzOnHost(zpp.TestCase):
    def run_of(self, name, *words):
        out = self.folder / name.replace(" ", "_").replace("+", "p")
        self.check_ok(self.train(4, *FLAGS, *words, out=out))
        root, groups = self.trace(out)
        return out / "train.h5", root, groups, dict(zip(groups["memory"]["name"], groups["memory"]["bytes_actual"]))

    def test_same_bits_and_valid_traces(self):
        paths = {}
        for name, words in RUNS.items():
            with self.subTest(name):
                _, root, groups, memory = self.run_of(f"{name} there", *words)
                paths[name], own_root, own, own_memory = self.run_of(name, *words, *HOST)
                self.assertEqual(own_root["parameters_hash"], root["parameters_hash"])
                for group, column in (("steps", "loss"), ("steps", "bytes_inter_node"),
                                      ("collectives", "wire_bytes_intra")):
                    self.assertEqual(own[group][column], groups[group][column])
                self.assertEqual(own.get("weight_copies"), groups.get("weight_copies"))
                self.assertEqual(json.loads(own_root["config_json"])["zeropp"]["hpz_device"], "cpu")
                self.assertEqual((own_memory["secondary"], own_memory["offloaded_secondary"]), (0, memory["secondary"]))
                self.assertGreater(memory["secondary"], 0)
                self.assertNotIn("offloaded_secondary", memory)
        self.check_accepted(*paths.values())
        self.check_tampering(paths["plain"])

    def check_tampering(self, path):
        copies = []
        for index, (name, column, value, _) in enumerate(CHANGES):
            copies.append(self.folder / f"{index}.h5")
            shutil.copyfile(path, copies[-1])
            with h5py.File(copies[-1], "r+") as file:
                row = [text.decode() for text in file["memory/name"]].index(name)
                file[f"memory/{column}"][row] = value
        copies.append(self.folder / "place.h5")
        shutil.copyfile(path, copies[-1])
        with h5py.File(copies[-1], "r+") as file:
            config = json.loads(file.attrs["config_json"])
            config["zeropp"]["hpz_device"] = "device"
            file.attrs["config_json"] = json.dumps(config)
        judged = zpp.check_trace(*copies)
        parts = [part for _, _, _, part in CHANGES] + ["/memory does not name exactly"]
        for copy, part in zip(copies, parts):
            with self.subTest(part):
                lines = [line for line in judged.stdout.splitlines() if line.startswith(f"{copy}: INVALID: ")]
                self.assertIn(part, "\n".join(lines), judged)

    def test_a_run_goes_on_from_a_checkpoint_of_either_place(self):
        kept = self.folder / "kept"
        for first, then in (([], HOST), (HOST, []), (HOST, HOST)):
            with self.subTest(first=first, then=then):
                whole = self.run_of("whole", *DIFFERENCES, *first, "--save", kept, "--save-interval", "2")
                shutil.rmtree(kept / "step-000000004")
                path, root, groups, _ = self.run_of("rest", *DIFFERENCES, *then, "--load", kept)
                self.assertEqual(root["parameters_hash"], whole[1]["parameters_hash"])
                self.assertEqual(groups["weight_copies"]["hash"], whole[2]["weight_copies"]["hash"])
                self.check_accepted(path)
                shutil.rmtree(kept)

    def test_refusals(self):
        needs = "zero_optimization.zero_hpz_partition_size above 1 or zeropp.weight_differences"
        automatic = self.write_json("auto.json", {"zero_optimization": {"zero_hpz_partition_size": "auto"}})
        for words, parts in (([*HOST, "--zero-stage", "2"], ("zeropp.hpz_device", "no effect", needs)),
                             ([*HOST, "--zero-hpz-partition-size", "1"], ("zeropp.hpz_device", "no effect", needs)),
                             ([*HOST, "--config", automatic, "--node-size", "1"],
                              ("zeropp.hpz_device", "no effect", needs)),
                             (["--zero-hpz-partition-size", "2", "--hpz-device", "nvme"],
                              ("--hpz-device", "device", "cpu"))):
            with self.subTest(words):
                self.check_fails(self.train(2, *words), zpp.USAGE, *parts)


if __name__ == "__main__":
    zpp.main()
