# ctest: name=trace_contents labels=cli,nightly timeout=300 processors=4
"""The output and the files of a run: attributes, environment, the JSON summary, progress lines, --help."""

import datetime
import hashlib
import json
import math
import pathlib
import re
import subprocess

import numpy

import token_file_writer
import programs
import zpp
from zpp_validate.forms.transformer import Shape

SECRETS = {"NCCL_API_TOKEN": "swordfish-1", "UCX_secret_path": "swordfish-2", "OMPI_MCA_mpi_password": "swordfish-3",
           "ZPP_UNLISTED": "swordfish-4", "AWS_SESSION": "swordfish-5"}
LISTED = {"NCCL_DEBUG": "WARN", "SLURM_NNODES": "2"}
PLACED = {"NCCL_TOPO_FILE": "/nowhere/of/mine/topology.xml",
          "HDF5_PLUGIN_PATH": "/nowhere/of/mine/one:/nowhere/of/mine/two"}


def without_nan(values):
    """The values as in JSON: null instead of NaN."""
    if isinstance(values, list):
        return [without_nan(value) for value in values]
    return None if isinstance(values, float) and math.isnan(values) else values


class Trace(zpp.TestCase):
    def test_attributes_and_environment(self):
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        self.check_ok(self.train(4, *zpp.ALL_FEATURES, "--seed", "5", "--deterministic",
                                 env={**SECRETS, **LISTED, **PLACED, "SLURM_JOB_ID": "4711"}))
        root, groups = self.trace()
        expected = {"app": "train", "schema": "zeropp-trace", "complete": 1, "world_size": 4, "node_count": 2,
                    "ranks_per_node": 2, "emulated": 1, "seed": 5, "deterministic": 1, "verdict": "VALID",
                    "backend": "host", "SLURM_JOB_ID": "4711"}
        self.assertEqual({name: root[name] for name in expected}, expected)
        started = datetime.datetime.strptime(root["started_at"], "%Y-%m-%dT%H:%M:%S%z")
        self.assertLess(abs(started - now), datetime.timedelta(minutes=2))
        self.assertRegex(root["parameters_hash"], "^[0-9a-f]{64}$")
        self.assertRegex(root["config_hash"], "^[0-9a-f]{64}$")
        self.assertEqual(hashlib.sha256(root["config_json"].encode()).hexdigest(), root["config_hash"])
        self.assertIn("--deterministic", root["command_line"])
        self.assertIn(root["version"], subprocess.run([zpp.TRAIN, "--version"], capture_output=True, text=True,
                                                      check=True).stdout)
        for library in ("mpi_library", "hdf5_version", "kokkos_version", "blas_library", "cxx_compiler"):
            self.assertTrue(root[library], library)

        env = groups["env"]
        for name, value in LISTED.items():
            self.assertEqual(env[name], value)
        for name in ("NCCL_API_TOKEN", "UCX_secret_path", "OMPI_MCA_mpi_password"):
            self.assertEqual(env[name], "<redacted>")
        self.assertNotIn("ZPP_UNLISTED", env)
        self.assertNotIn("PATH", env)
        self.assertNotIn(b"swordfish", (self.out / "train.h5").read_bytes())

        # No path is kept, neither of the user's variables nor of variables that the launcher sets for itself.
        self.assertEqual({env[name] for name in PLACED}, {"<path>", "<path>:<path>"})
        self.assertEqual([(name, value) for name, value in env.items() if "/" in value], [])
        self.assertNotIn("OMPI_MCA_initial_wdir", env)

        config = json.loads(root["config_json"])
        self.assertEqual(config["zeropp"]["all_gather_algorithm"], "two-level")  # `auto` resolved
        self.assertEqual(config["zeropp"]["reduce_scatter_algorithm"], "2-hop")
        self.assertEqual((config["train_batch_size"], config["train_micro_batch_size_per_gpu"],
                          config["gradient_accumulation_steps"]), (8, 2, 1))
        self.assertEqual(groups["ranks"]["node"], [0, 0, 1, 1])
        self.assertEqual(len(set(groups["ranks"]["pid"])), 4)
        self.assertEqual([r for r, c in zip(groups["timers"]["rank"], groups["timers"]["category"])
                          if c == "matmul"], [0, 1, 2, 3])

    def test_tensors_of_the_models(self):
        grouped = ["--num-key-value-heads", "1", "--head-dim", "24", "--ffn-hidden-size", "80"]
        for words in ([], ["--no-tied-head", *grouped], ["--model", "llama"],
                      ["--model", "llama", *grouped, "--add-qkv-bias", "--no-tied-head"]):
            with self.subTest(words=words):
                self.check_ok(self.train(1, *words, "--train-iters", 1))
                root, groups = self.trace()
                shape = Shape.of(json.loads(root["config_json"])["zeropp"]["model"], groups["data"]["vocab_size"])
                found, units = groups["tensors"], groups["units"]["name"]
                self.assertEqual([(units[unit], name, elements) for unit, name, elements in
                                  zip(found["unit"], found["name"], found["elements"])],
                                 [(tensor.unit, tensor.name, tensor.elements) for tensor in shape.tensors()])

    def test_same_configuration_by_file_and_flags(self):
        self.check_ok(self.train(2, "--zero-stage", "2", "--bf16", "--lr", "0.002"))
        flags = self.trace()[0]
        path = self.write_json("run.json", {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True},
                                            "optimizer": {"type": "AdamW", "params": {"lr": 2e-3}}})
        self.check_ok(self.train(2, "--config", path))
        file = self.trace()[0]
        self.assertEqual(flags["config_hash"], file["config_hash"])
        self.assertEqual(flags["parameters_hash"], file["parameters_hash"])
        self.assertNotEqual(flags["run_id"], file["run_id"])

    def test_bits_per_byte_of_text_alone(self):
        """Ids and the tokens of the built-in source are no bytes: NaN, and no such number is printed."""
        text = b"".join(b"%d and %d. " % (i, i * i) for i in range(500))
        (self.folder / "text").write_bytes(text)
        (self.folder / "ids").write_bytes(token_file_writer.llmc(list(text)))
        token_file_writer.write_megatron(self.folder / "pair", [[list(text)]], numpy.uint16)
        sources = {"markov": [], "text": ["--data-path", "text"],
                   "llmc": ["--data-path", "ids", "--data-vocab-size", 256],
                   "megatron": ["--data-path", "pair", "--data-vocab-size", 256]}
        for source, words in sources.items():
            with self.subTest(source=source):
                result = self.check_ok(self.train(1, "--data-source", source, *words, "--eval-interval", 3,
                                                  "--eval-iters", 1))
                rows = self.trace()[1]["evaluations"]
                of_text = [loss / math.log(2) for loss in rows["loss"]] if source == "text" else [math.nan] * 2
                numpy.testing.assert_allclose(rows["bits_per_byte"], of_text, rtol=1e-12)
                self.assertEqual(result.stdout.count("bits a byte"), 2 if source == "text" else 0, result)
                self.check_accepted(self.out / "train.h5")

    def test_no_hash_when_it_was_not_asked_for(self):
        self.check_ok(self.train(2, "--no-hash-parameters"))
        self.assertEqual(self.trace()[0]["parameters_hash"], "")

    def test_json_equals_hdf5(self):
        self.check_ok(self.train(2, "--eval-interval", "1", "--json", self.folder / "summary.json"))
        summary = json.loads((self.folder / "summary.json").read_text())
        root, groups = self.trace()
        self.assertEqual(summary["config"], json.loads(root["config_json"]))
        for name, value in root.items():
            if name not in ("complete", "sha256"):  # of the file, not of the run
                self.assertEqual(summary[name], value, name)
        for group, columns in groups.items():
            written = summary["parameter_units" if group == "units" else group]
            self.assertEqual(set(written), set(columns), group)
            for name, values in columns.items():
                self.assertEqual(written[name], without_nan(values), f"{group}/{name}")
        self.assertEqual(summary["units"]["steps"]["time"], "s")


class Output(zpp.TestCase):
    def test_one_line_a_report(self):
        result = self.check_ok(self.train(2, "--train-iters", "7", "--log-interval", "3", "--eval-interval", "5"))
        self.assertNotIn("\r", result.stdout)
        lines = result.stdout.splitlines()
        self.assertRegex(lines[0], "^zpp_train on 1 node x 2 ranks, host over mpi: ZeRO stage 3, gpt, ")
        self.assertEqual([re.match(r"step (\S+)", line).group(1) for line in lines[1:-1]],
                         ["0", "3/7", "5", "6/7", "7/7", "7"])
        self.assertEqual(lines[-1].split(), ["VALID", str(self.out / "train.h5")])

    def test_bytes_have_three_digits(self):
        for flags in (["--micro-batch-size", "1"], ["--hidden-size", "256"],
                      ["--hidden-size", "1024", "--num-attention-heads", "16"]):
            result = self.check_ok(self.train(2, "--node-size", "1", "--train-iters", "1", *flags))
            shown = re.search(r"  ([0-9.]+) MB across nodes$", result.stdout, re.MULTILINE).group(1)
            sent = self.trace()[1]["steps"]["bytes_inter_node"][0] / 1e6
            self.assertLess(abs(float(shown) - sent), 0.0051 * sent, shown)
            self.assertLessEqual(len(shown.strip("0.").replace(".", "")), max(3, len(str(int(sent)))), shown)

    def test_emulated_nodes_say_so(self):
        result = self.check_ok(self.train(2, "--node-size", "1"))
        self.assertIn("2 nodes x 1 rank (emulated)", result.stdout)

    def test_help_and_version_without_launcher(self):
        for program in (zpp.TRAIN, zpp.INFO):
            for words, text in ((["--help"], "--zero-stage"), (["-h"], "--output"), (["--version"], "git")):
                result = zpp.Process([program, *words]).end()
                self.check_ok(result)
                self.assertIn(text, result.stdout)
                self.assertIn(pathlib.Path(program).name, result.stdout)

    def test_help_with_launcher_comes_once(self):
        result = self.check_ok(zpp.launch([(3, [zpp.TRAIN, "--version"])]).end())
        self.assertEqual(result.stdout.count("zpp_train"), 1)

    def test_without_launcher(self):
        result = self.check_ok(zpp.Process(zpp.train_command(), cwd=self.folder).end())
        self.assertIn("1 node x 1 rank", result.stdout)

    def test_files_appear_where_flags_name_them(self):
        """Without --output no program leaves a file; zpp_converge, whose results are files, asks for it."""
        programs.write_inputs(self)
        jobs = {**programs.TRACED, **{f"plan {name}": [name, *words] for name, words in programs.PLANNED.items()}}
        for name, words in jobs.items():
            with self.subTest(name):
                result = zpp.Process(programs.command(name.split()[0], *words), cwd=self.folder).end()
                if name == "converge":
                    self.check_fails(result, zpp.USAGE, "give --output DIR", program="zpp_converge")
                else:
                    self.check_ok(result)
                if name in ("train", "sweep", "fabric", "kernels"):
                    self.assertIn("no trace: --output DIR writes one\n", result.stdout)
                self.assertEqual([path.name for path in self.folder.iterdir()], ["matrix.json"])
                if name != "converge":
                    result = zpp.Process([*programs.command(name.split()[0], *words), "--json", "made.json"],
                                         cwd=self.folder).end()
                    self.check_ok(result)
                    self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["made.json", "matrix.json"])
                    (self.folder / "made.json").unlink()


if __name__ == "__main__":
    zpp.main()
