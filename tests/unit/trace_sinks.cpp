// ctest: name=trace_sinks timeout=60 labels=sanitize
// HDF5 and JSON sinks: what is written reads back, what cannot be written leaves nothing under the
// final name, and nobody else's file is touched.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "lib/base/atomic_file.hpp"
#include "lib/base/error.hpp"
#include "lib/base/sha256.hpp"
#include "lib/trace/document.hpp"
#include "lib/trace/provenance.hpp"
#include "lib/trace/sinks/hdf5_sink.hpp"
#include "lib/trace/sinks/json_sink.hpp"
#include "lib/trace/sinks/table.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::trace {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TraceData example(std::size_t steps = 3) {
  TraceData t;
  t.app = "train";
  t.provenance = collect_provenance("zpp_train --seed 1");
  t.provenance.environment["NCCL_X"] = "";
  t.config_json = R"({"zeropp":{"seed":1}})";
  t.seed = std::numeric_limits<std::uint64_t>::max();
  t.ranks = {{"host-a", 0, 0, 11, "", "", ""}, {"a-longer-host-name", 0, 1, 12, "", "", ""}};
  t.units = {{"embedding", 100, 128, 128, 64, 1, 1}, {"h.0", 7, 64, 64, 32, 1, 1}};
  t.tensors = {{0, "wte", 100, 0}, {1, "h.0.w", 7, 0}};
  t.layers = {{"embedding", {0}}, {"head", {1, 0}}};
  for (std::size_t i = 0; i < steps; ++i) {
    StepRow row;
    row.loss = 1.0 / static_cast<double>(i + 3);
    row.grad_norm = i == 1 ? std::nan("") : 0.1;
    row.bytes_inter_node = std::uint64_t{1} << 60U;
    row.skipped = i == 1 ? 1 : 0;
    t.steps.push_back(row);
  }
  CollectiveRow row;
  row.operation = "all_gather";
  row.modelled = true;
  t.collectives = {row};
  t.counters = {{"nonfinite_steps", 1}, {"secondary_gathers", 4}};
  t.data.source_entropy_bits = std::nan("");
  return t;
}

std::string refusal(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io) << error.what();
    EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(Hdf5Sink, WritesVerifiesAndRenames) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "train.h5";
  for (const std::size_t steps : {std::size_t{3}, std::size_t{0}, std::size_t{10000}}) {
    const Document document = describe(example(steps));
    preflight_hdf5(path);
    write_hdf5(document, path);  // replaces the trace of the round before
    EXPECT_NO_THROW(verify_hdf5(document, path));
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"train.h5"});
  }
}

TEST(Hdf5Sink, LongTextIsKept) {
  const test::TemporaryFolder folder;
  TraceData trace = example();
  trace.provenance.command_line = std::string(200'000, 'x');
  trace.ranks[0].host = std::string(5000, 'h');
  EXPECT_NO_THROW(write_hdf5(describe(trace), folder.path() / "train.h5"));
}

TEST(Hdf5Sink, VerificationSeesEveryChange) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "train.h5";
  const TraceData original = example();
  write_hdf5(describe(original), path);
  const auto differs = [&](auto change) {
    TraceData other = original;
    change(other);
    return refusal([&] { verify_hdf5(describe(other), path); });
  };
  EXPECT_THAT(differs([](TraceData& t) { t.steps[2].loss += 1e-16; }), HasSubstr("loss"));
  EXPECT_THAT(differs([](TraceData& t) { t.steps.pop_back(); }), HasSubstr("loss"));
  EXPECT_THAT(differs([](TraceData& t) { t.ranks[1].host[0] = 'A'; }), HasSubstr("host"));
  EXPECT_THAT(differs([](TraceData& t) { t.verdict = "INVALID: x"; }), HasSubstr("verdict"));
  EXPECT_THAT(differs([](TraceData& t) { t.provenance.environment["NCCL_Y"] = "1"; }),
              HasSubstr("NCCL_Y"));
}

TEST(Hdf5Sink, EveryFlippedByteOfAColumnIsSeen) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "train.h5";
  const Document document = describe(example());
  write_hdf5(document, path);
  const std::string image = content(path);
  const double loss = 1.0 / 3.0;
  const std::size_t position =
      image.find(std::string(reinterpret_cast<const char*>(&loss), sizeof loss));
  ASSERT_NE(position, std::string::npos);
  for (std::size_t i = 0; i < sizeof loss; ++i) {
    std::string damaged = image;
    damaged[position + i] = static_cast<char>(damaged[position + i] ^ 0x40);
    write(path, damaged);
    EXPECT_THAT(refusal([&] { verify_hdf5(document, path); }), HasSubstr("HDF5")) << i;
  }
  write(path, image.substr(0, image.size() / 2));
  EXPECT_THAT(refusal([&] { verify_hdf5(document, path); }), HasSubstr("train.h5"));
}

TEST(Hdf5Sink, ForeignFilesAreLeftAlone) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "train.h5";
  const Document document = describe(example());
  write(path, "somebody's notes");
  EXPECT_THAT(refusal([&] { preflight_hdf5(path); }),
              AllOf(HasSubstr(path.string()), HasSubstr("--output")));
  EXPECT_THAT(refusal([&] { write_hdf5(document, path); }), HasSubstr("move it away"));
  EXPECT_EQ(content(path), "somebody's notes");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"train.h5"});

  Document other = document;  // HDF5, but of another schema
  other.attributes[0].value = std::string("other-trace!");
  fs::remove(path);
  write_hdf5(other, path);
  EXPECT_THAT(refusal([&] { write_hdf5(document, path); }), HasSubstr("not a trace of ours"));

  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THAT(refusal([&] { preflight_hdf5(path); }), HasSubstr("not a trace of ours"));
  fs::remove(path);
  fs::create_symlink("nowhere", path);
  EXPECT_THAT(refusal([&] { preflight_hdf5(path); }), HasSubstr("not a trace of ours"));
}

TEST(Hdf5Sink, UnwritablePlacesAreNamed) {
  const test::TemporaryFolder folder;
  const fs::path file = folder.path() / "file";
  write(file, "x");
  EXPECT_THAT(refusal([&] { preflight_hdf5(file / "out" / "train.h5"); }),
              HasSubstr((file / "out").string()));
  EXPECT_THAT(refusal([&] { write_hdf5(describe(example()), folder.path() / "no" / "train.h5"); }),
              HasSubstr("No such file"));
  EXPECT_THAT(refusal([&] { preflight_hdf5("/proc/zeropp/train.h5"); }), HasSubstr("/proc/zeropp"));
  preflight_hdf5(folder.path() / "a" / "b" / "train.h5");
  EXPECT_TRUE(fs::is_empty(folder.path() / "a" / "b"));
}

TEST(Hdf5Sink, AFullDiskLeavesWhatWasThere) {
  const test::TemporaryFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1536k") != 0) {
    GTEST_SKIP() << "a small tmpfs cannot be mounted here";
  }
  const fs::path path = folder.path() / "train.h5";
  const Document first = describe(example());
  preflight_hdf5(path);
  write_hdf5(first, path);
  EXPECT_THAT(refusal([&] { write_hdf5(describe(example(30'000)), path); }),
              AllOf(HasSubstr("No space"), HasSubstr("free space")));
  EXPECT_NO_THROW(verify_hdf5(first, path));
  write(folder.path() / "ballast", std::string(1'000'000, 'x'));
  EXPECT_THAT(refusal([&] { preflight_hdf5(path); }), HasSubstr("No space"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2);
  ::umount(folder.path().c_str());
}

TEST(Document, ColumnsHaveEqualLengthsAndDescriptions) {
  const Document document = describe(example());
  for (const auto& group : document.groups) {
    for (const auto& column : group.columns) {
      EXPECT_EQ(column.size(), group.columns.front().size()) << group.name << "/" << column.name;
      EXPECT_FALSE(column.description.empty()) << group.name << "/" << column.name;
    }
  }
}

TEST(JsonSink, HoldsTheSameValues) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "summary.json";
  TraceData trace = example();
  trace.provenance.command_line = "a \xff b";  // not UTF-8
  write_json(to_json(describe(trace)), path);
  EXPECT_EQ(std::ranges::count(content(path), '\n'), 1);
  const auto json = nlohmann::json::parse(content(path));
  EXPECT_EQ(json["config"]["zeropp"]["seed"], 1);
  EXPECT_EQ(json["config_hash"], sha256_hex(trace.config_json));
  EXPECT_EQ(json["seed"], trace.seed);
  ASSERT_EQ(json["steps"]["loss"].size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(json["steps"]["loss"][i].get<double>(), trace.steps[i].loss);
  }
  EXPECT_TRUE(json["steps"]["grad_norm"][1].is_null());
  EXPECT_EQ(json["steps"]["bytes_inter_node"][0], std::uint64_t{1} << 60U);
  EXPECT_EQ(json["units"]["steps"]["loss"], "nats per token");
  EXPECT_EQ(json["layers"]["units"], (std::vector<std::string>{"0", "1,0"}));
  EXPECT_EQ(json["counters"]["name"][1], "secondary_gathers");
}

TEST(AtomicFile, AFailedCheckKeepsTheOldFile) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.json";
  write(path, "old");
  const std::string text = "new";
  EXPECT_THAT(refusal([&] {
                write_atomically(path, std::as_bytes(std::span(text)), [](const fs::path& partial) {
                  EXPECT_EQ(content(partial), "new");
                  throw Error(ExitCode::io, "not good");
                });
              }),
              HasSubstr("not good"));
  EXPECT_EQ(content(path), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.json"});
}

TEST(AtomicFile, TwoWritersOfOneFileDoNotMeet) {
  const test::TemporaryFolder folder;
  const fs::path path = folder.path() / "x.json";
  const std::string outer = "the longer text of the outer run";
  const std::string inner = "inner";
  write_atomically(path, std::as_bytes(std::span(outer)), [&](const fs::path& partial) {
    preflight_write(path, 100);
    write_atomically(path, std::as_bytes(std::span(inner)));
    EXPECT_EQ(content(path), inner);
    EXPECT_EQ(content(partial), outer);
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.json"})
        << "no name before the end";
  });
  EXPECT_EQ(content(path), outer);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"x.json"});
}

TEST(AtomicFile, OnlyRegularFilesAreReplaced) {
  const test::TemporaryFolder folder;
  const std::string text = "new";
  const auto bytes = std::as_bytes(std::span(text));
  const auto refused = [&](const fs::path& path) {
    EXPECT_THAT(refusal([&] { preflight_write(path, 10); }),
                AllOf(HasSubstr(path.string()), HasSubstr("choose another place")));
    EXPECT_THAT(refusal([&] { write_atomically(path, bytes); }), HasSubstr(path.string()));
  };
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  refused(pipe);
  EXPECT_TRUE(fs::is_fifo(pipe));
  const fs::path device = folder.path() / "device";
  const bool made = ::mknod(device.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;  // needs root
  if (made) {
    refused(device);
    EXPECT_TRUE(fs::is_character_file(device));
  }
  const fs::path to_pipe = folder.path() / "to_pipe";
  fs::create_symlink("pipe", to_pipe);
  refused(to_pipe);
  const fs::path dangling = folder.path() / "dangling";
  fs::create_symlink("nowhere", dangling);
  refused(dangling);
  const fs::path loop = folder.path() / "loop";
  fs::create_symlink("loop", loop);
  refused(loop);
  EXPECT_EQ(names_in(folder.path()).size(), made ? 5U : 4U);
}

TEST(AtomicFile, ALinkIsFollowedAndStays) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder.path() / "results");
  write(folder.path() / "results" / "target.json", "old");
  const fs::path link = folder.path() / "x.json";
  fs::create_symlink("results/target.json", link);
  const std::string text = "new";
  preflight_write(link, 10);
  write_atomically(link, std::as_bytes(std::span(text)));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(content(folder.path() / "results" / "target.json"), "new");
  EXPECT_EQ(names_in(folder.path() / "results"), std::vector<std::string>{"target.json"});
}

TEST(Provenance, EnvironmentGoesByAllowList) {
  const char* const variables[] = {"HOME=/root",
                                   "NCCL_DEBUG=INFO",
                                   "NCCL_API_KEY=abc",
                                   "OMPI_MCA_btl_secret=1",
                                   "UCX_PassWord=x",
                                   "MY_NCCL_X=1",
                                   "OMP_NUM_THREADS=",
                                   "SLURM_NTASKS=4",
                                   "SLURM_JOB_USER=me",
                                   "HDF5_TOKEN_PATH=/x",
                                   "CUDA_A=b=c",
                                   "noequals",
                                   nullptr};
  const std::map<std::string, std::string> expected{{"NCCL_DEBUG", "INFO"},
                                                    {"NCCL_API_KEY", "<redacted>"},
                                                    {"OMPI_MCA_btl_secret", "<redacted>"},
                                                    {"UCX_PassWord", "<redacted>"},
                                                    {"OMP_NUM_THREADS", ""},
                                                    {"SLURM_NTASKS", "4"},
                                                    {"HDF5_TOKEN_PATH", "<redacted>"},
                                                    {"CUDA_A", "b=c"}};
  EXPECT_EQ(allowed_environment(variables, "/run"), expected);
}

TEST(Provenance, EnvironmentKeepsWhatConfiguresMpi) {
  const char* const variables[] = {"OMPI_MCA_btl=self,vader",
                                   "OMPI_MCA_btl_tcp_if_include=eth0",
                                   "OMPI_MCA_mpi_yield_when_idle=1",
                                   "OMPI_MCA_initial_wdir=/users/me/run",
                                   "OMPI_MCA_orte_top_session_dir=/users/me/session",
                                   "OMPI_MCA_ess_base_jobid=1",
                                   "OMPI_MCA_pmix=^s1",
                                   "OMPI_MCA_plm=isolated",
                                   "OMPI_MCA_shmem_RUNTIME_QUERY_hint=mmap",
                                   nullptr};
  const std::map<std::string, std::string> expected{{"OMPI_MCA_btl", "self,vader"},
                                                    {"OMPI_MCA_btl_tcp_if_include", "eth0"},
                                                    {"OMPI_MCA_mpi_yield_when_idle", "1"}};
  EXPECT_EQ(allowed_environment(variables, "/run"), expected);
}

TEST(Provenance, PathsAreHidden) {
  const auto hidden = [](const std::string& text) { return hide_paths(text, "/users/me/run"); };
  EXPECT_EQ(hidden("/users/me/run"), ".");
  EXPECT_EQ(hidden("/users/me/run/../run/a b/c"), "a b/c");
  EXPECT_EQ(hidden("/users/me/running"), "<path>");
  EXPECT_EQ(hidden("/users/me"), "<path>");
  EXPECT_EQ(hidden("/users/me/run/x:/usr/lib,--file=/etc/y;'/z' -I /q"),
            "x:<path>,--file=<path>;'<path>' -I <path>");
  for (const char* const text : {"", "1/2", "a/b", "tcp://host/x", "self,vader"}) {
    EXPECT_EQ(hidden(text), text);
  }
  EXPECT_EQ(hide_paths("/users/me/run", ""), "<path>");
  EXPECT_EQ(hide_paths("/users/me/run", "/"), "<path>");
  const char* const variables[] = {"NCCL_TOPO_FILE=/users/me/topology.xml", nullptr};
  EXPECT_EQ(allowed_environment(variables, "/run").at("NCCL_TOPO_FILE"), "<path>");
}

TEST(Provenance, CommandsAreQuotedForAShell) {
  const char* const words[] = {"zpp_train", "--output", "a b", "it's", "", "--lr=1e-3"};
  EXPECT_EQ(quote_command(6, words), R"(zpp_train --output 'a b' 'it'\''s' '' --lr=1e-3)");
}

TEST(Provenance, IdentifiersAndTimes) {
  const auto a = collect_provenance("x");
  const auto b = collect_provenance("x");
  EXPECT_EQ(a.run_id.size(), 32U);
  EXPECT_NE(a.run_id, b.run_id);
  EXPECT_THAT(a.started_at, testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_FALSE(a.git_commit.empty());
}

TEST(TextTable, AlignsNumbersRightAndTextLeft) {
  TextTable table({"name", "bytes"});
  table.add({"a", "10"});
  table.add({"longer", "9"});
  EXPECT_EQ(table.str(), "name    bytes\n-------------\na          10\nlonger      9\n");
  EXPECT_THROW(table.add({"x"}), std::logic_error);
}

}  // namespace
}  // namespace zeropp::trace
