// ctest: name=sweep_command_lines timeout=60 labels=sanitize link=zeropp_app_sweep
// Command lines of nccl-tests and rccl-tests, as READMEs, guides, job scripts and issues have them,
// on 2 nodes of 8 GPUs: each is taken, or refused with the reason and the remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "apps/sweep/nccl_flags.hpp"
#include "apps/sweep/sweep.hpp"
#include "lib/app/command_line.hpp"
#include "lib/base/text.hpp"
#include "tests/support/resolving.hpp"
#include "tests/support/usage_refusal.hpp"

namespace zeropp::sweep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// The result of reading a command line.
struct Taken {
  Options options;
  Settings settings;
  app::CommandLine line;
};

/// Takes "all_reduce_perf -b 8 ...", whose program is a collective by the vendor's algorithm.
Taken take(const std::string& text) {
  std::vector<std::string> words = split(text, ' ');
  std::string program = words.front();
  if (program.ends_with("_mpi")) program.erase(program.size() - 4);
  const bool all_to_all = program == "alltoall_perf";
  words.front() = "zpp_sweep";
  words.insert(words.end(),
               {"--collective",
                all_to_all ? "all_to_all" : program.substr(0, program.size() - sizeof("perf")),
                "--algorithm", "native"});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Taken taken;
  app::App app = description(taken.options, taken.settings, collectives());
  taken.line = app::parse_command_line(app, static_cast<int>(words.size()), arguments.data());
  config::Machine machine = config::machine(2, 8);
  machine.gpus = machine.own_gpus = machine.copy_engines = true;
  app.resolve(app.options, machine);
  return taken;
}

struct Line {
  const char* text;
  const char* refusal = "";  ///< a part of it; empty: taken
};

// In the order in which they were found. Lines with sizes that no host has are only resolved here.
const std::vector<Line> kLines{
    {"all_reduce_perf -b 8 -e 128M -f 2 -g 8", "(-g) 8"},  // nccl-tests, README
    {"all_reduce_perf -b 8 -e 8G -f 2 -g 1"},
    {"all_reduce_perf_mpi -b 512M -e 8G -f 2 -g 1"},  // Nebius soperator
    {"all_reduce_perf_mpi -b 8G -e 8G -f 2 -g 1 -N 100"},
    {"all_reduce_perf_mpi -b 16G -e 16G -f 2 -g 1 -N 10"},       // Azure AKS
    {"all_reduce_perf -b1K -f2 -g1 -e 4G"},                      // Azure ND series
    {"all_reduce_perf -b 1K -e 8G -f 2 -g 1 -c 0 -n 50"},        // Azure ND series
    {"all_reduce_perf -b 8 -e 16G -f 2 -g 1 -c 0 -n 100"},       // Azure container
    {"all_reduce_perf -b 8 -e 2G -f 2 -g 1 -c 1 -n 100"},        // AWS EFA guide
    {"all_reduce_perf -b 8 -e 8G -f 2 -g 1 -w 5 -n 50"},         // AWS p5en
    {"all_gather_perf -b 8M -e 8G -f 2 -g 1 -w 5 --iters 200"},  // Google Cloud
    {"all_gather_perf -b 8M -e 8G -f 2 -g 1 -w 5 --iters 25 -c 1"},
    {"all_reduce_perf -b 1M -e 16G -f 2 -w 5 -n 20"},
    {"alltoall_perf -f 2 -g 1 -c 0 -n 50"},                    // Oracle Cloud
    {"all_reduce_perf_mpi -b 21M -e 672M -d half -G 1 -f 2"},  // MLPerf
    {"all_reduce_perf_mpi -b 98.1M -e 98.1M -d half"},         // MLPerf
    {"all_reduce_perf --minbytes 128 --maxbytes 32MB --stepfactor 2 --ngpus 1 --check 1 --iters "
     "100 "
     "--warmup_iters 100 --cudagraph 100 --blocking 0"},  // CINECA Leonardo
    {"all_reduce_perf --minbytes=262144000 --maxbytes=262144000 --parallel_init=0 "
     "--warmup_iters=1 --stepfactor=2 --iters=10"},
    {"all_reduce_perf --minbytes 1G --maxbytes 2G -g4 -n40 -c1 -w10", "start 4 ranks"},
    {"all_reduce_perf_mpi -b 32G -e 32G -f 2 -i 0 -g 1 -w 2 -n 5 -c 1 -T 60 -R 0"},
    {"all_reduce_perf -b 32G -e 32G -f 0 -i 0 -g 1", "give -N for the number of cycles"},
    {"all_reduce_perf -b 512KB -e 4G -f 2 -t 1 -g 1 -w 50 -n 100 -c 0"},  // COCCL
    {"all_reduce_perf -b 1K -e 512MB -f 2 -g 1 -n 100"},
    {"broadcast_perf -b 1MB -e 128MB -f 2 -g 2", "(-g) 2"},
    {"all_reduce_perf -b 8 -e 32G -f 2 -t 4", "(-t) 4"},
    {"all_gather_perf -b 1G -e 1G -g 2 -t 2 -n 50 -w 10 -c 0", "start 4 ranks"},
    {"all_reduce_perf -b 1M -e 16384M -f 2 -g 1 -R 1", "(-R) 1: buffers are not registered"},
    {"all_reduce_perf -b 128M -e 1G -f 2 -g 1 -c 0 -n 50 -d int32 -w 10", "-d) int32"},
    {"all_reduce_perf -b 1K -e 1G -f 2 -g 1 -c 0 -n 1 -w 1 -G 0 -z 0"},
    {"all_reduce_perf -b 4 -e 64M -w 30 -f 2 -c 0 -g 1 -n 100"},
    {"reduce_scatter_perf -b 8 -e 16G -f 2 -g 1 -G 1"},
    {"reduce_scatter_perf -d half -b 84058112 -e 84058112 -o sum -g 1"},
    {"broadcast_perf -b 8 -e 256M -f 2 -d bfloat16 -c 1 -n 20 -w 5"},
    {"broadcast_perf -b 1M -e 4G -n 100 -f 4 -g 1 -r all"},
    {"all_reduce_perf -b 8 -e 256M -f 2 -g 1 -r 0"},
    {"sendrecv_perf -b 8 -e 8G -f 2 -g 1 -c 1 -n 100", "zpp_fabric"},
    {"reduce_perf -b 1M -e 1G -n 100 -f 4 -g 1", "is not measured"},
    {"alltoallv_perf -b 1M -e 1G", "is not measured"},
    {"all_reduce_perf -b 64M -e 512M -f 2 -n 20 -w 5 -c 1 -A 1", "of rccl-tests"},  // ROCm
    {"alltoall_perf -b 1K -e 1M -f 2 -g 1 -R 0 -D 0 -V 1 -w 5 -n 20"},              // ROCm
    {"broadcast_perf -b 64M -e 64M -f 2 -g 1 -R 2 -D 1 -c 1 -w 1 -n 3", "(-R) 2"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -p 1 -M 1 -S 1 -z 2 -a 1 -m 20"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -I 1 -K 10 -n 200"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -D 1", "(-D) 1"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -x 2", "(-x) 2"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -y 1", "(-y) 1"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -u 1", "(-u) 1"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -C 1", "(-C) 1"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -o max", "are sums"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -Y host", "--backend host"},
    {"all_reduce_perf -b 8 -e 1M -f 2 -s 3", "give -N"},
    {"all_reduce_perf -b 8 -e 1M -f 2 --out_of_place 1", "each row has both"},
    {"all_reduce_perf -b 4 -e 1073741824 -f 2 -g 1"},                   // Cornelis
    {"all_gather_perf -b 4 -e 1073741824 -f 2 -g 1"},                   // ALCF Polaris
    {"all_reduce_perf -b 32 -f 2 -e 8G"},                               // an issue of NCCL
    {"all_reduce_perf -b 512M -e 16G -f 2 -g 1"},                       // an issue of nccl-tests
    {"all_reduce_perf -t 1 -g 1 -b 2M -e 32M -d float -o sum"},         // FlagPerf
    {"all_gather_perf -b 16G -e 16G -f 2"},                             // DGX Spark
    {"all_gather_perf -b 1G -e 4G -f 2 -n 50 -w 10 -g 1"},              // DGX Spark
    {"alltoall_perf -b 1024M -e 4G -f 2 -g 1 -n 100"},                  // DGX Spark
    {"reduce_scatter_perf -b 1024M -e 4G -f 2 -g 1 -n 100"},            // DGX Spark
    {"alltoall_perf -b 1K -e 1G -d bfloat16 -f 2 -g 1 -n 10"},          // MetaX
    {"alltoall_perf -b 65536 -e 65536 -n 1"},                           // Strix
    {"all_reduce_perf -b 1M -e 256M -f 4 -g 1 -c 1 -n 5 -w 1"},         // UCCL
    {"reduce_scatter_perf -b 4K -e 4096M -f 4 -g 4", "start 4 ranks"},  // two nodes
    {"reduce_scatter_perf -b 213909504 -e 213909504 -g 8 -d half", "start 8 ranks"},  // ROCm
    {"all_reduce_perf -n 10 -b 1M -e 8G -f 2 -g 8 -w 2 -d bfloat16", "start 8 ranks"},
    {"all_reduce_perf --minbytes 8 --maxbytes 128M --stepfactor 2 --ngpus 8", "start 8 ranks"},
    {"sendrecv_perf -n 1 -b 1M -e 8G -f 2 -g 1 -t 1 -d bfloat16", "zpp_fabric"},
    {"all_reduce_perf -b 8 -e 1M -f 1 -i 0", "give -N for the number of cycles"},
    {"all_reduce_perf -b 8 -e 1M -f 8 -i 1M"},
};

TEST(CommandLines, AreTakenOrRefusedWithTheReason) {
  for (const Line& line : kLines) {
    SCOPED_TRACE(line.text);
    if (*line.refusal == '\0') {
      EXPECT_NO_THROW((void)take(line.text));
    } else {
      const std::string said = test::refusal([&] { (void)take(line.text); });
      EXPECT_THAT(said, HasSubstr(line.refusal));
      EXPECT_THAT(said, HasSubstr(": "));
    }
  }
}

TEST(CommandLines, SayWhatNcclTestsUnderstands) {
  const Taken factor = take("all_reduce_perf -b 1K -e 16K -f 4 -i 2K");
  EXPECT_THAT(factor.settings.sizes, ElementsAre(1024, 4096, 16384));
  const Taken step = take("all_reduce_perf -b 1KB -e 3KiB -f 0 -i 1k");
  EXPECT_THAT(step.settings.sizes, ElementsAre(1024, 2048, 3072));
  const bench::Repetition repetition =
      take("all_reduce_perf -I 1 -n 50 -K 10 -w 3").settings.bench.repetition.times;
  EXPECT_EQ(repetition.cycles, 40U);
  EXPECT_EQ(repetition.iterations, 1U);
  EXPECT_EQ(repetition.warmups, 13U);
  EXPECT_EQ(take("all_reduce_perf -z 3").settings.bench.repetition.blocking, Blocking::line_up);
}

TEST(CommandLines, WarnOfWhatIsNotDone) {
  EXPECT_THAT(take("all_reduce_perf -p 1 -V 4 -M 0 -S 0 -R 0 -x 0").line.warnings, IsEmpty());
  EXPECT_THAT(take("all_reduce_perf -M 1 -S 1").line.warnings,
              ElementsAre(HasSubstr("--memory (-M) 1: "), HasSubstr("--report_timestamps (-S) 1")));
}

TEST(CommandLines, HaveNoEffectUnseen) {
  for (const char* const line :
       {"all_reduce_perf -K 3", "all_reduce_perf -I 1 -n 5 -K 5", "all_reduce_perf -z 3 -G 1",
        "all_gather_perf -r 1", "all_reduce_perf -R x", "all_reduce_perf -i 0",
        "all_reduce_perf -z 4"}) {
    SCOPED_TRACE(line);
    EXPECT_THAT(test::refusal([&] { (void)take(line); }), Not(HasSubstr("unknown flag")));
  }
}

TEST(Collectives, HaveOtherNamesElsewhere) {
  const std::vector<std::string> known{"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                       "broadcast"};
  for (const auto& [name, here] : {std::pair{"allreduce", "all_reduce"},
                                   {"AllReduce", "all_reduce"},
                                   {"all_reduce_perf", "all_reduce"},
                                   {"alltoall", "all_to_all"},
                                   {"osu_bcast", "broadcast"},
                                   {"reduce-scatter", "reduce_scatter"},
                                   {"osu_allgather", "all_gather"}}) {
    EXPECT_EQ(about_collective(name, known), std::string("give ") + here) << name;
  }
  EXPECT_THAT(about_collective("sendrecv_perf", known), HasSubstr("zpp_fabric"));
  EXPECT_THAT(about_collective("gather", known), HasSubstr("not measured"));
  EXPECT_EQ(about_collective("al_reduce", known), "");
}

TEST(Split, IsToldWhereItWouldMakeGroups) {
  for (const auto& [value, warns] :
       {std::pair{"0x0", false}, {"0", false}, {"0x7", true}, {"8", true}}) {
    ASSERT_EQ(setenv("NCCL_TESTS_SPLIT_MASK", value, 1), 0);
    EXPECT_EQ(!about_split().empty(), warns) << value;
  }
  ASSERT_EQ(unsetenv("NCCL_TESTS_SPLIT_MASK"), 0);
  EXPECT_EQ(about_split(), "");
  ASSERT_EQ(setenv("NCCL_TESTS_SPLIT", "DIV 8", 1), 0);
  EXPECT_THAT(about_split(), HasSubstr("NCCL_TESTS_SPLIT=DIV 8"));
  ASSERT_EQ(unsetenv("NCCL_TESTS_SPLIT"), 0);
}

}  // namespace
}  // namespace zeropp::sweep
