# ctest: name=sweep cuda=mpi,nccl labels=cli timeout=300 processors=4
"""zpp_sweep's output is nccl-tests': columns at its places, read by the regular expressions that Ramble and
ReFrame's users publish for it; its JSON key names; bytes as the closed form says; flags with their meaning, and
refusals where something is not offered."""

import json
import os
import pathlib
import re
import statistics
import unittest

import zpp
from zpp_validate.forms import sweep_forms, wire
from zpp_validate.readers import sweep_file

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
PROGRAM = str(zpp.BIN / "zpp_sweep")
PLACE = ["--backend", zpp.BACKEND, *(["--transport", zpp.TRANSPORT] if zpp.TRANSPORT else [])]

# Facts of nccl-tests (src/util.cu): the line of names, two characters into it.
NAMES = ("#       size         count      type   redop    root     time   algbw   busbw  #wrong"
         "     time   algbw   busbw  #wrong")

# Facts of Ramble's application nccl-tests: its 13 columns, then the lines of the footer.
NUMBER = r"[0-9]+\.?[0-9]+"
RAMBLE = [("size", "[0-9]+"), ("count", "[0-9]+"), ("type", r"\S+"), ("redop", r"\S+"), ("root", r"\S+"),
          ("ooptime", NUMBER), ("oopalgbw", NUMBER), ("oopbusbw", NUMBER), ("oopnumwrong", r"\S+"),
          ("iptime", NUMBER), ("ipalgbw", NUMBER), ("ipbusbw", NUMBER), ("ipnumwrong", r"\S+")]
RAMBLE_ROW = re.compile("".join(rf"\s+(?P<{name}>{pattern})" for name, pattern in RAMBLE))
RAMBLE_BANDWIDTH = re.compile(r"\s*Avg bus bandwidth\s+:\s+(?P<bw>[0-9]+\.?[0-9]+)")
RAMBLE_BOUNDS = re.compile(r"\s*Out of bounds values\s*:\s+(?P<count>[0-9]+)")
# Facts of ReFrame tests of nccl-tests at CSCS.
REFRAME_SANITY = re.compile(r"Out of bounds values\s*:\s*0\s*OK")
REFRAME_BANDWIDTH = re.compile(r"Avg bus bandwidth\s*:\s*(?P<gbs>\S+)")

COLLECTIVES = "all_gather,reduce_scatter,all_reduce,all_to_all,broadcast"
MODES = ("out_of_place", "in_place")


def closed_form(row, topology):
    """Bytes that one run sends, over all ranks."""
    return sweep_forms.sent(topology,
                            *(row[name] for name in ("collective", "codec", "algorithm", "type", "count", "root")))


class Sweep(zpp.TestCase):
    def sweep(self, ranks, *words, **options):
        place = [] if "--backend" in words else PLACE
        command = [PROGRAM, *words, *place, "--output", self.out]
        return zpp.run(ranks, command, cwd=self.folder, **options)

    def measured(self, ranks, *words):
        """(standard output, JSON), of a run that found nothing wrong."""
        path = self.folder / "sweep.json"
        result = self.check_ok(self.sweep(ranks, "-n", 2, "-w", 1, "--json", path, *words))
        self.assertRegex(result.stdout, REFRAME_SANITY)
        found = json.loads(path.read_text())
        self.assertEqual((found["verdict"], found["errors"]), ("VALID", []))
        return result.stdout, found

    def refused(self, *words, code=zpp.USAGE, ranks=2):
        *words, part = words
        without_gpus = {"env": {"CUDA_VISIBLE_DEVICES": ""}} if "cuda" in (zpp.BACKEND, *words) else {}
        result = self.sweep(ranks, *words, **without_gpus)
        self.check_fails(result, code, *([part] if isinstance(part, str) else part), program="zpp_sweep")


class Output(Sweep):
    def test_each_iteration_is_timed(self):
        """-I makes a sample of every iteration; p99 is between p95 and the largest, in the text and in the JSON."""
        out, found = self.measured(2, "-b", "1K", "-e", "1K", "-I", 1, "-N", 20, "--collective", "all_gather")
        head = next(line for line in out.splitlines() if line.startswith("#       size"))
        self.assertRegex(head, r" p50 +p95 +p99 +cv ")
        self.assertEqual(head[:len(NAMES)], NAMES)
        rows = [line for line in out.splitlines() if line and not line.startswith("#")]
        place = head.split().index("p99") - 1  # after the # of the comment
        for row, line in zip(found["results"], rows, strict=True):
            measured = row["out_of_place"]
            self.assertEqual((len(measured["samples"]), measured["iterations"]), (40, 1))  # -n 2 -N 20
            self.assertAlmostEqual(measured["p99"], statistics.quantiles(measured["samples"], n=100,
                                                                         method="inclusive")[98],
                                   delta=1e-6 * measured["p99"])
            self.assertAlmostEqual(float(line.split()[place]), measured["p99"], delta=0.01 * measured["p99"] + 0.01)

    def test_columns_and_footer_are_read_by_the_tools_of_nccl_tests(self):
        out, found = self.measured(4, "-b", "1K", "-e", "64K", "-f", 4, "--node-size", 2, "--codec", "none,int4:128",
                                   "--collective", "all_gather,all_reduce")
        lines = out.splitlines()
        names = [line for line in lines if line.startswith("#       size")]
        self.assertEqual([line[:len(NAMES)] for line in names], [NAMES])
        rows = [line for line in lines if line and not line.startswith("#")]
        self.assertEqual(len(rows), len(found["results"]))
        self.assertEqual(len(rows), 4 * 2 * 3)  # sizes, collectives, ways
        # A value ends where its name does.
        ends = [match.end() for match in re.finditer(r"\S+", NAMES[1:])]
        for line, row in zip(rows, found["results"]):
            self.assertEqual([match.end() for match in re.finditer(r"\S+", line)][:13], [end + 1 for end in ends])
            read = RAMBLE_ROW.match(line).groupdict()
            self.assertEqual((int(read["size"]), int(read["count"]), read["type"], read["redop"], int(read["root"])),
                             (row["size"], row["count"], row["type"], row["redop"], row["root"]))
            for mode, prefix in zip(MODES, ("oop", "ip")):
                m = row[mode]
                self.assertEqual(int(read[f"{prefix}numwrong"]), m["nwrong"])
                self.assertAlmostEqual(float(read[f"{prefix}time"]), m["time"], delta=0.01 + 1e-3 * m["time"])
                self.assertAlmostEqual(float(read[f"{prefix}algbw"]), m["alg_bw"], delta=0.01 + 1e-3 * m["alg_bw"])
                self.assertAlmostEqual(float(read[f"{prefix}busbw"]), m["bus_bw"], delta=0.01 + 1e-3 * m["bus_bw"])
            self.assertIn(f" {row['collective']} ", line)
            self.assertIn(f" {row['codec']} ", line)
        self.assertEqual([line for line in lines if line.startswith("#") and RAMBLE_ROW.match(line)], [])
        self.assertEqual(RAMBLE_BOUNDS.search(out)["count"], "0")
        self.assertIn("# rows to come: 24 (all_gather 12, all_reduce 12)\n", out)

    def test_the_average_is_of_one_way(self):
        """nccl-tests' line is of one collective by one codec and algorithm. Where several ran, no parser of that line
        finds one, and there is a line for each collective."""
        out, found = self.measured(2, "-b", "1K", "-e", "4K", "-f", 2, "--collective", "all_reduce", "--algorithm",
                                   "native", "-d", "all")
        average, bandwidth = found["average_bus_bandwidth"]["bandwidth"], RAMBLE_BANDWIDTH.search(out)["bw"]
        self.assertAlmostEqual(float(bandwidth), average, delta=1e-4)
        self.assertEqual(REFRAME_BANDWIDTH.search(out)["gbs"], bandwidth)
        self.assertEqual(re.search(r"(?m)^# Avg bus bandwidth.*", out)[0].split()[-1], bandwidth)  # awk, $NF
        every = [row[mode]["bus_bw"] for row in found["results"] for mode in MODES]
        self.assertAlmostEqual(average, sum(every) / len(every), delta=1e-9 * average)
        self.assertIn("# rows to come: 9 (all_reduce 9)\n#\n", out)

        for words in (["--collective", "all_gather,all_reduce", "--codec", "none,int8:256"],
                      ["--collective", "all_gather", "--algorithm", "all"],
                      ["--collective", "all_gather", "--group", "world,node", "--algorithm", "native"], []):
            with self.subTest(words):
                out, found = self.measured(2, "-b", "1K", "-e", "2K", "-f", 2, *words)
                self.assertIsNone(found["average_bus_bandwidth"]["bandwidth"])
                self.assertNotIn("Avg bus bandwidth", out)
                ways = {}
                for row in found["results"]:
                    group = "" if row["group"] == "world" else f" ({row['group']})"
                    way = row["collective"], f"{row['codec']} {row['algorithm']}{group}"
                    ways.setdefault(way, []).extend(row[mode]["bus_bw"] for mode in MODES)
                wanted = {}
                for (collective, way), each in ways.items():
                    wanted.setdefault(f"busbw {collective}", []).append((way, sum(each) / len(each)))
                printed = dict(re.findall(r"(?m)^# (busbw \w+) +: (.+)$", out))
                self.assertEqual(list(printed), list(wanted))
                for name, line in printed.items():
                    means = [part.rpartition(" ") for part in line.split(", ")]
                    self.assertEqual([way for way, _, _ in means], [way for way, _ in wanted[name]])
                    for (_, _, mean), (_, exact) in zip(means, wanted[name]):
                        self.assertAlmostEqual(float(mean), exact, delta=1e-4)

    def test_json(self):
        _, found = self.measured(2, "-b", 4096, "-e", 4096, "-N", 7, "--codec", "int8:256,none")
        for key in ("version", "start_time", "end_time", "config", "devices", "results", "out_of_bounds",
                    "average_bus_bandwidth", "errors", "schema", "schema_version", "units", "verdict"):
            self.assertIn(key, found)
        self.assertEqual((found["schema"], found["schema_version"]), ("zeropp-sweep", "1.0"))
        self.assertEqual(found["out_of_bounds"], {"count": 0, "okay": True})
        for key, value in {"minimum_bytes": 4096, "maximum_bytes": 4096, "iterations": 2, "warmup_iters": 1,
                           "aggregated_iterations": 1, "validation": 1, "graph": 0, "ngpus": 1, "nthreads": 1}.items():
            self.assertEqual(found["config"][key], value)
        self.assertEqual([device["rank"] for device in found["devices"]], [0, 1])
        for key in ("group", "pid", "hostname", "device", "device_hex", "device_info"):
            self.assertIn(key, found["devices"][0])
        for row in found["results"]:
            ranks = 2
            for mode in MODES:
                m = row[mode]
                factor = {"broadcast": 1, "all_reduce": 2 * (ranks - 1) / ranks}.get(row["collective"],
                                                                                     (ranks - 1) / ranks)
                self.assertAlmostEqual(m["alg_bw"], row["size"] / m["time"] * 1e-3, delta=1e-9 * m["alg_bw"])
                self.assertAlmostEqual(m["bus_bw"], m["alg_bw"] * factor, delta=1e-9 * m["alg_bw"])
                self.assertEqual((len(m["samples"]), m["iterations"]), (7, 2))
                self.assertEqual(sorted(m["samples"])[3], m["p50"])
                self.assertEqual([min(m["samples"]), max(m["samples"])], m["ci95"])
                self.assertEqual(m["nwrong"], 0)
                self.assertEqual(m["wire_bytes"], m["wire_bytes_intra"] + m["wire_bytes_inter"])
                if row["codec"] != "none":
                    self.assertTrue(0 < m["max_error"] <= 1, m["max_error"])
                peers = [r[mode]["time"] for r in found["results"]
                         if (r["collective"], r["codec"]) == (row["collective"], "none")]
                self.assertAlmostEqual(m["ratio"], min(peers) / m["time"], delta=1e-9 * m["ratio"])

    def test_ratio_needs_an_uncompressed_row(self):
        out, found = self.measured(2, "-b", 4096, "-e", 4096, "--codec", "int8", "--collective", "all_gather")
        self.assertIsNone(found["results"][0]["out_of_place"]["ratio"])
        self.assertRegex(out, r"int8:256 .* - +0\.\d+ |int8:256 .* - +1\.000 ")

    def test_emulated_nodes_are_named_so(self):
        for words, layout in ((["--node-size", 2], "4 ranks on 2 nodes, emulated"), ([], "4 ranks on 1 node")):
            _, found = self.measured(4, "-b", 1024, "-e", 1024, "--collective", "all_gather", *words)
            self.assertEqual(sweep_file.read_sweep(found).layout, layout)

    def test_trace_holds_the_same_digits(self):
        _, found = self.measured(2, "-b", 1024, "-e", 4096, "-f", 2, "-N", 3, "--collective", "all_reduce")
        attributes, groups = zpp.read_trace(self.out / "sweep.h5")
        self.assertEqual((attributes["app"], attributes["verdict"], attributes["complete"]), ("sweep", "VALID", 1))
        for name in ("git_commit", "config_json", "config_hash", "seed", "world_size", "command_line"):
            self.assertIn(name, attributes)
        results, samples = groups["results"], groups["samples"]
        measurements = [(row, row[mode]) for row in found["results"] for mode in MODES]
        self.assertEqual(results["time"], [m["time"] for _, m in measurements])
        self.assertEqual(results["wire_bytes_intra"], [m["wire_bytes_intra"] for _, m in measurements])
        self.assertEqual(results["algorithm"], [row["algorithm"] for row, _ in measurements])
        self.assertEqual(results["in_place"], [0, 1] * len(found["results"]))
        by_place = {}
        for result, cycle, rank, time in zip(*(samples[key] for key in ("result", "cycle", "rank", "time"))):
            by_place.setdefault((result, cycle), {})[rank] = time
        for index, (_, m) in enumerate(measurements):
            slowest = [max(by_place[index, cycle].values()) / 1e-6 for cycle in range(3)]
            self.assertEqual(slowest, m["samples"])
            self.assertEqual(set(by_place[index, 0]), {0, 1})


class Meaning(Sweep):
    def check_bytes(self, found, topology, group="world"):
        for row in found["results"]:
            self.assertEqual((row["group"], row["transport"]), (group, zpp.TRANSPORT or "mpi"))
            bytes_ = closed_form(row, topology)
            for mode in MODES:
                self.assertEqual((row[mode]["wire_bytes_intra"], row[mode]["wire_bytes_inter"]),
                                 (bytes_.intra, bytes_.inter), row)

    def test_every_algorithm_with_every_codec_sends_the_closed_form(self):
        _, found = self.measured(4, "-b", 8, "-e", "40008", "-i", "20000", "--node-size", 2, "--algorithm", "all",
                                 "--codec", "none,bf16,int8:256,int4:128", "--datatype", "all")
        self.check_bytes(found, wire.Topology.uniform(2, 2))
        ran = {(row["collective"], row["algorithm"]) for row in found["results"]}
        self.assertLessEqual({("all_gather", "two-level"), ("reduce_scatter", "2-hop"), ("all_reduce", "2-hop"),
                              ("all_to_all", "direct"), ("broadcast", "native")}, ran)
        self.assertEqual({row["type"] for row in found["results"]}, {"float", "half", "bfloat16"})

    def test_codecs_that_clip_or_rotate_are_not_taken_for_wrong(self):
        for collective in ("reduce_scatter", "all_reduce"):
            _, found = self.measured(4, "-b", "4M", "-e", "4M", "--node-size", 2, "--collective", collective,
                                     "--algorithm",
                                     "2-hop", "--codec",
                                     "int4:32+wide,int4:128+had32,int6:64+asym+s32,fp8e5m2,mxfp8,mxfp4")
            self.check_bytes(found, wire.Topology.uniform(2, 2))

    def test_three_ranks_on_one_node(self):
        _, found = self.measured(3, "-b", "1K", "-e", "5K", "-i", "1500", "--codec", "none,int8:64", "-d", "bfloat16")
        self.check_bytes(found, wire.Topology.uniform(1, 3))

    def test_one_rank(self):
        _, found = self.measured(1, "-b", "1K", "-e", "1K", "--codec", "none,int4:128")
        self.check_bytes(found, wire.Topology.uniform(1, 1))
        self.assertEqual({row["out_of_place"]["wire_bytes"] for row in found["results"]}, {0})

    def test_groups(self):
        for group, link in (("node", "wire_bytes_intra"), ("rail", "wire_bytes_inter")):
            _, found = self.measured(4, "-b", "4K", "-e", "4K", "--node-size", 2, "--group", group, "--collective",
                                     "all_gather", "--algorithm", "direct", "--codec", "none")
            (row,) = found["results"]
            self.assertEqual(row["group"], group)
            # Two groups of two: each rank sends its half to the other.
            self.assertEqual((row["count"], row["out_of_place"][link], row["out_of_place"]["wire_bytes"]),
                             (512, 4 * 2048, 4 * 2048))

    def test_root(self):
        _, found = self.measured(3, "-b", "4K", "-e", "4K", "--collective", "broadcast", "-r", "all")
        self.assertEqual([row["root"] for row in found["results"]], [0, 1, 2])
        self.check_bytes(found, wire.Topology.uniform(1, 3))
        _, found = self.measured(4, "-b", "4K", "-e", "4K", "--collective", "broadcast", "-r", "all", "--group",
                                 "world,rail", "--node-size", 2)
        self.assertEqual([(row["group"], row["root"]) for row in found["results"]],
                         [("world", 0), ("world", 1), ("world", 2), ("world", 3), ("rail", 0), ("rail", 1)])

    def test_aggregated_and_blocking(self):
        for words in (["-m", 3], ["-z", 1], ["-z", 2], ["-z", 3], ["-m", 2, "-z", 1], ["-m", 2, "-z", 3]):
            with self.subTest(words=words):
                _, found = self.measured(2, "-b", "4K", "-e", "4K", "--codec", "none,int8:256", *words)
                self.check_bytes(found, wire.Topology.uniform(1, 2))

    def test_time_over_ranks(self):
        for average in range(4):
            _, found = self.measured(2, "-b", "4K", "-e", "4K", "-N", 1, "--collective", "all_gather", "-a", average)
            _, groups = zpp.read_trace(self.out / "sweep.h5")
            for index, time in enumerate(groups["results"]["time"]):
                ranks = [1e6 * time for result, time in zip(groups["samples"]["result"], groups["samples"]["time"])
                         if result == index]
                wanted = (ranks[0], sum(ranks) / 2, min(ranks), max(ranks))[average]
                self.assertAlmostEqual(time, wanted, delta=1e-9 * wanted)

    def test_free_number_of_cycles(self):
        path = self.folder / "sweep.json"
        self.check_ok(self.sweep(2, "-b", "4K", "-e", "4K", "--collective", "all_gather", "--max-seconds", "0.05",
                                 "-J", path))
        for row in json.loads(path.read_text())["results"]:
            for mode in MODES:
                m = row[mode]
                self.assertGreaterEqual(len(m["samples"]), 3)
                low, high = m["ci95"]
                precise = len(m["samples"]) > 5 and max(high - m["p50"], m["p50"] - low) <= 0.01 * m["p50"]
                long = sum(m["samples"]) * m["iterations"] >= 0.02 * 1e6
                self.assertTrue(precise or long, m)

    def test_no_checks(self):
        path = self.folder / "sweep.json"
        result = self.check_ok(self.sweep(2, "-b", "4K", "-e", "4K", "-n", 1, "-c", 0, "--json", path))
        self.assertRegex(result.stdout, r"(?m)^ +4096 .* N/A .* N/A ")
        for row in json.loads(path.read_text())["results"]:
            self.assertIsNone(row["out_of_place"]["nwrong"])

    def test_large_sizes_unchecked(self):
        _, found = self.measured(2, "-b", "4K", "-e", "8K", "-f", 2, "--check-maxbytes", "4K", "--codec", "none,int8")
        for row in found["results"]:
            checked = row["size"] <= 4096
            for mode in MODES:
                self.assertEqual(row[mode]["nwrong"], 0 if checked else None, row)
                self.assertEqual(row[mode]["slope"] is None, not checked, row)
        self.check_bytes(found, wire.Topology.uniform(1, 2))

    def test_faster_than_the_link_is_invalid(self):
        path = self.folder / "sweep.json"
        result = self.sweep(2, "-b", "64K", "-e", "64K", "-n", 2, "--collective", "all_gather", "--link-peak", "1e-6",
                            "--json", path)
        self.assertEqual(result.code, zpp.INVALID, result)
        found = json.loads(path.read_text())
        self.assertIn("above the link's peak", found["verdict"])
        self.assertEqual(found["out_of_bounds"]["count"], 0)

    def test_sizes_have_suffixes(self):
        _, found = self.measured(1, "-b1k", "-e", "0.5M", "-f", "512", "--collective", "all_reduce")
        self.assertEqual([row["size"] for row in found["results"] if row["algorithm"] == "native"], [1024, 524288])


@unittest.skipUnless(zpp.DEVICE == "host", "the same everywhere")
class Refusals(Sweep):
    def test_what_is_not_offered_says_why(self):
        self.refused("-G", 1, ("-G", "CUDA graph"))
        self.refused("-C", 1, ("-C", "complete"))
        self.refused("-g", 2, ("-g", "start 2 ranks instead of each"))
        self.refused("-t", 2, ("-t", "one thread"))
        self.refused("-o", "max", ("-o", "sums"))
        self.refused("-d", "int8", ("-d", "float, half, bfloat16"))
        self.refused("-d", "flot", ("flot", "nearest: float"))

    def test_what_would_have_no_effect(self):
        self.refused("-i", 0, ("-i", "-N"))
        self.refused("--collective", "all_gather", "-r", 1, ("-r", "root"))
        self.refused("-n", 5, "--max-seconds", 1, ("--max-seconds", "-n"))
        self.refused("-c", 0, "--check-maxbytes", "1M", ("--check-maxbytes", "-c"))
        self.refused("--rail-lanes", 4, ("--rail-lanes", "NCCL"))
        self.refused("--copy-engines", "on", ("--copy-engines on", "needs the transport nccl"))

    def test_what_does_not_exist(self):
        self.refused("-b", "2M", "-e", "1M", ("-b", "-e"))
        self.refused("-b", "1X", ("--minbytes", "1X", "K, M, G"))
        self.refused("-z", 4, "0 to 3")
        self.refused("-r", 2, ("-r", "0 to 1"))
        self.refused("-r", 1, "--group", "world,node", "--node-size", 1, ("-r", "0 to 0"))
        self.refused("-x", 2, ("-x", "default policy"))
        self.refused("-Y", "host", ("-Y is a flag of rccl-tests", "--backend host"))
        self.refused("--frob", 2, "unknown flag --frob: see --help")
        self.refused("--collective", "allgather", ("allgather", "(give all_gather)"))
        self.refused("--collective", "all_gather,sendrecv_perf", ("sendrecv_perf", "zpp_fabric measures pairs"))
        self.refused("--collective", "al_gather", "(nearest: all_gather)")
        self.refused("--collective", "all_gather,all_gather", "twice")
        self.refused("--codec", "none,,int8", "empty")
        self.refused("--codec", "int9", "int9")
        self.refused("--algorithm", "two-levels", ("two-levels", "two-level"))
        self.refused("--algorithm", "auto,flat", "alone")
        self.refused("--group", "world,secondary", ("secondary", "rail"))
        self.refused("--transport", "nccl", "--backend", "host", "GPU memory only")
        self.refused("--backend", "cuda", "GPU", code=zpp.ENVIRONMENT)
        self.refused("--node-size", 2, "node", code=zpp.ENVIRONMENT, ranks=3)

    def test_what_would_not_run(self):
        self.refused("--collective", "broadcast", "--codec", "int8", ("--codec", "int8:256", "none of"))
        self.refused("--algorithm", "native", "--codec", "none,int8", ("--codec", "int8:256"))
        self.refused("--algorithm", "two-level,direct", "--group", "node", ("--algorithm", "two-level", "world"))

    def test_summary_over_the_trace(self):
        self.refused("--json", self.out / "sweep.h5", ("--json", "file of the trace"))

    def test_foreign_file_under_the_traces_name(self):
        self.out.mkdir()
        (self.out / "sweep.h5").write_text("mine")
        result = self.sweep(1, "-b", 1024, "-e", 1024)
        self.assertEqual((result.code, (self.out / "sweep.h5").read_text()), (zpp.IO, "mine"), result)

    def test_flag_and_letter_are_one(self):
        self.refused("-b", "1K", "--minbytes", "2K", "--minbytes")


if __name__ == "__main__":
    zpp.skip_without_gpus(4)
    zpp.main()
