// ctest: name=kernels_app timeout=120 labels=sanitize link=zeropp_app_kernels
// zpp_kernels without its program: what every kernel declares against closed forms, written here a
// second time; every check finds its kernel right, and one that does nothing wrong; the ceiling
// that binds; operands that no cache holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "apps/kernels/ceilings.hpp"
#include "apps/kernels/entries.hpp"
#include "apps/kernels/program.hpp"
#include "apps/kernels/verdict.hpp"

namespace zeropp::kernels {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kBlock8 = 256;
constexpr std::size_t kBlock4 = 128;

std::size_t ceil_to(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// lib/trace/README.md, "Byte counts in closed form".
std::size_t wire(const std::string& codec, std::size_t n) {
  const bool eight = codec.starts_with("int8");
  const std::size_t block = eight ? kBlock8 : kBlock4;
  const std::size_t blocks = ceil_to(n, block) / block;
  return ceil_to(blocks * block * (eight ? 8 : 4) / 8, 16) + ceil_to(2 * blocks, 16);
}

/// One of each, of random sizes.
Choice random_choice(std::mt19937& engine) {
  const auto some = [&](std::size_t least, std::size_t most) {
    return least + engine() % (most - least + 1);
  };
  Choice choice;
  choice.codecs = {codec::parse_codec("int8:256"), codec::parse_codec("int4:128")};
  choice.dtypes = {Dtype::fp32, Dtype::bf16, Dtype::fp16};
  choice.images = {some(1, 5)};
  choice.values = some(10'000, 40'000);
  const std::size_t heads = some(1, 3);
  choice.shapes = {{some(1, 3), some(2, 20), heads * 4 * some(1, 4), heads}};
  choice.vocab = some(2, 99);
  choice.source = Source(engine());
  return choice;
}

/// Bytes that a case must read and write on the host, whose activations are fp32.
std::pair<std::size_t, std::size_t> bytes_of(const Case& of, const Choice& choice) {
  const std::size_t n = choice.values;
  const std::size_t e = of.dtype == "fp32" ? 4 : 2;
  const std::size_t images = choice.images.front();
  const std::size_t part = n / images;
  const BlockShape& s = choice.shapes.front();
  const std::size_t c = s.hidden;
  const std::size_t r = s.rows();
  const std::size_t v = choice.vocab;
  std::set<std::int32_t> tokens;
  for (std::size_t i = 0; i < r; ++i) tokens.insert(choice.source.token(i, v));
  const std::size_t table = (tokens.size() + s.length) * c;
  const std::string from = of.variant.substr(0, of.variant.find('>'));
  const std::string to = of.variant.substr(of.variant.find('>') + 1);
  // "two-kernels:int8:256", or ",moments=bf16" (or int8) after it; `kept` is then "bf16".
  const std::string image =
      of.variant.substr(of.variant.find(':') + 1, of.variant.find(',') - of.variant.find(':') - 1);
  const std::size_t equals = of.variant.find('=');
  const std::string kept = equals == std::string::npos ? "fp32" : of.variant.substr(equals + 1);
  const std::size_t block = from == "int8:256" ? kBlock8 : kBlock4;
  const std::size_t slice = std::max<std::size_t>(n / 32 / block, 1) * block;
  const std::size_t blocks = (n + 1023) / 1024;  // of exact differences, of 3 or 5 bits
  const auto padded = [](std::size_t bytes) { return (bytes + 15) / 16 * 16; };
  const std::size_t exact =
      blocks * 128 * (of.variant == "3-bits" ? 3 : 5) + padded(4 * blocks) + padded(n / 32 * 2);
  const bool adds = of.variant == "add";
  const std::size_t narrow = e == 2 ? 2 * n : 0;
  // Both moments; in 8 bits codes and scales.
  const std::map<std::string, std::size_t> moments{
      {"fp32", 8 * n}, {"bf16", 4 * n}, {"int8", 2 * (n + 4 * ((n + 63) / 64))}};
  const std::map<std::string, std::pair<std::size_t, std::size_t>> forms{
      {"copy/-", {n * e, n * e}},
      {"clear/-", {0, n * e}},
      {"convert/from-fp32", {4 * n, n * e}},
      {"encode/" + of.variant, {n * e, wire(from, n)}},
      {"decode/" + of.variant, {wire(from, n), n * e}},
      {"decode_add/" + of.variant, {wire(from, n) + 4 * n, 4 * n}},
      {"decode_reduce/" + of.variant, {images * wire(from, part), 4 * part}},
      {"decode_reduce_encode/" + of.variant, {images * wire(from, part), wire(to, part)}},
      {"reorder_encode/" + of.variant, {32 * slice * e, 8 * wire(from, 4 * slice)}},
      {"exact_count/" + of.variant, {4 * n, 16 * blocks}},
      {"exact_encode/" + of.variant, {4 * n + 2 * blocks, exact}},
      {"exact_decode/" + of.variant, {exact + 2 * n, 2 * n}},
      {"adamw/" + of.variant, {8 * n + moments.at(kept), 4 * n + moments.at(kept) + narrow}},
      {"adamw_encode/" + of.variant,
       {8 * n + moments.at(kept), 4 * n + moments.at(kept) + wire(image, n)}},
      {"gradient_norm/-", {4 * n, 8 * ((n + 1023) / 1024)}},
      {"add/-", {8 * n, 4 * n}},
      {"embedding_forward/-", {table * e + 4 * r, r * c * 4}},
      {"embedding_backward/-", {r * c * 4 + table * 4 + 4 * r, table * 4}},
      {"layernorm_forward/-", {4 * r * c + 2 * c * e, 4 * r * c + 8 * r}},
      {"layernorm_backward/" + of.variant,
       {4 * (adds ? 3 : 2) * r * c + c * e + 8 * r, 4 * r * c + 8 * c}},
      {"rmsnorm_forward/-", {4 * r * c + c * e, 4 * r * c + 4 * r}},
      {"rmsnorm_backward/" + of.variant,
       {4 * (adds ? 3 : 2) * r * c + c * e + 4 * r, 4 * r * c + 4 * c}},
      {"swiglu_forward/-", {4 * r * 8 * c, 4 * r * 4 * c}},
      {"swiglu_backward/-", {4 * r * 12 * c, 4 * r * 8 * c}},
      {"rotary/-", {4 * r * 2 * c + 4 * s.length * c / s.heads, 4 * r * 2 * c}},
      {"linear_forward/bias", {4 * r * c + (3 * c * c + 3 * c) * e, 4 * r * 3 * c}},
      {"linear_forward/bias+residual",
       {4 * r * 4 * c + (4 * c * c + c) * e + 4 * r * c, 4 * r * c}},
      {"linear_forward/head", {4 * r * c + c * v * e, 4 * r * v}},
      {"linear_gelu_forward/bias+gelu", {4 * r * c + (4 * c * c + 4 * c) * e, 2 * 4 * r * 4 * c}},
      {"linear_backward/bias",
       {4 * r * 3 * c + 4 * r * c + 3 * c * c * e, 4 * r * c + 4 * (3 * c * c + 3 * c)}},
      {"linear_backward/bias+gelu",
       {4 * r * c + 2 * 4 * r * 4 * c + 4 * c * c * e, 4 * r * 4 * c + 4 * (4 * c * c + c)}},
      {"linear_backward/head", {4 * r * v + 4 * r * c + c * v * e, 4 * r * c + 4 * c * v}},
      {"attention_forward/-", {4 * r * 3 * c, 4 * r * c}},
      {"attention_backward/-", {4 * r * 5 * c, 4 * r * 3 * c}},
      {"cross_entropy/-", {4 * r * v + 4 * r, 4 * r * v + 4 * r}}};
  return forms.at(of.kernel + '/' + of.variant);
}

/// Operations of the products, whose number is no matter of counting.
double products_of(const Case& of, const Choice& choice) {
  const BlockShape& s = choice.shapes.front();
  const auto r = static_cast<double>(s.rows());
  const auto c = static_cast<double>(s.hidden);
  const auto v = static_cast<double>(choice.vocab);
  const double triangle = c * r * (static_cast<double>(s.length) + 1);
  const std::map<std::string, double> forms{
      {"linear_forward/bias", 6 * r * c * c},   {"linear_forward/bias+residual", 8 * r * c * c},
      {"linear_forward/head", 2 * r * c * v},   {"linear_gelu_forward/bias+gelu", 8 * r * c * c},
      {"linear_backward/bias", 12 * r * c * c}, {"linear_backward/bias+gelu", 16 * r * c * c},
      {"linear_backward/head", 4 * r * c * v},  {"attention_forward/-", 2 * triangle},
      {"attention_backward/-", 5 * triangle}};
  const auto found = forms.find(of.kernel + '/' + of.variant);
  return found == forms.end() ? NAN : found->second;
}

Bench quick_bench() { return {Device::host(), 1, repetition_of(1, 1)}; }

template <class Body>
void for_each_case(const Body& body) {
  std::mt19937 engine(7);
  for (int round = 0; round < 3; ++round) {
    const Choice choice = random_choice(engine);
    for (const Kernel* kernel : kernels()) {
      const auto cases = kernel->cases(choice);
      EXPECT_FALSE(cases.empty()) << kernel->name;
      for (const Case& each : cases) {
        SCOPED_TRACE(each.name());
        EXPECT_EQ(each.kernel, kernel->name);
        body(each, choice);
      }
    }
  }
}

TEST(Kernels, DeclareTheirBytesAndProducts) {
  for_each_case([](const Case& each, const Choice& choice) {
    const Work work = each.make(Device::host()).work;
    const auto [read, written] = bytes_of(each, choice);
    EXPECT_EQ(work.read, static_cast<double>(read));
    EXPECT_EQ(work.written, static_cast<double>(written));
    const double products = products_of(each, choice);
    if (!std::isnan(products)) {
      EXPECT_DOUBLE_EQ(work.operations, products);
    }
    EXPECT_EQ(work.arithmetic, Arithmetic::fp32);  // the host has no units for bf16
  });
}

TEST(Kernels, AreRight) {
  const Bench bench = quick_bench();
  for_each_case([&](const Case& each, const Choice&) {
    const Measured measured = bench.measure(each.make(bench.device()));
    EXPECT_THAT(measured.wrong, IsEmpty());
    EXPECT_EQ(measured.samples.seconds.size(), 1U);
  });
}

/// With options an error may be larger than the format alone promises, and the bounds of formats
/// that clip fall where their scale doubles.
TEST(Kernels, OfEveryKindOfCodecAreRight) {
  const Bench bench = quick_bench();
  std::mt19937 engine(13);
  Choice choice = random_choice(engine);
  choice.codecs.clear();
  for (const char* const name : {"int8:256", "mxfp8", "mxfp4", "fp8e5m2", "int4:64+wide",
                                 "int4:128+had32", "int6:64+asym+s32"}) {
    choice.codecs.push_back(codec::parse_codec(name));
  }
  for (const Kernel* kernel :
       {&encode, &decode, &decode_add, &decode_reduce, &decode_reduce_encode, &reorder_encode}) {
    for (const Case& each : kernel->cases(choice)) {
      EXPECT_THAT(bench.measure(each.make(bench.device())).wrong, IsEmpty()) << each.name();
    }
  }
}

TEST(Kernels, ThatDoNothingAreFound) {
  const Bench bench = quick_bench();
  for_each_case([&](const Case& each, const Choice&) {
    Problem problem = each.make(bench.device());
    problem.bind = [](const Set&, const Device&, StreamHandle) -> Call {
      return [](StreamHandle) {};
    };
    const Measured measured = bench.measure(problem);
    EXPECT_FALSE(measured.wrong.empty());
    EXPECT_TRUE(measured.samples.seconds.empty());
  });
}

TEST(Limit, IsTheCeilingUnderWhichTheWorkTakesLongest) {
  const Ceilings c{.reference = 5, .copy = 10, .read = 8, .write = 20, .fp32 = 100, .bf16 = 1000};
  const auto limit = [&](const Work& work) { return limit_of(work, c); };
  EXPECT_EQ(limit({.read = 50, .written = 50}).name, "copy");
  EXPECT_DOUBLE_EQ(limit({.read = 50, .written = 50}).seconds, 10);
  EXPECT_EQ(limit({.read = 79, .written = 10}).name, "copy");
  EXPECT_EQ(limit({.read = 90, .written = 10}).name, "read");
  EXPECT_DOUBLE_EQ(limit({.read = 90, .written = 10}).seconds, 12.5);
  EXPECT_EQ(limit({.read = 10, .written = 90}).name, "write");
  EXPECT_DOUBLE_EQ(limit({.written = 100}).seconds, 5);
  EXPECT_EQ(limit({.read = 5, .written = 5, .operations = 99}).name, "copy");
  EXPECT_EQ(limit({.read = 5, .written = 5, .operations = 200}).name, "fp32");
  const Work product{.read = 5, .written = 5, .operations = 2000, .arithmetic = Arithmetic::bf16};
  EXPECT_EQ(limit(product).name, "bf16");
  EXPECT_DOUBLE_EQ(limit(product).seconds, 2);
}

TEST(Bench, TakesAsManySetsAsTheCachesNeed) {
  std::mt19937 engine(11);
  const Choice choice = random_choice(engine);
  for (const Case& each : add.cases(choice)) {
    const Problem problem = each.make(Device::host());
    const auto moved = static_cast<std::size_t>(problem.work.moved());
    for (const auto& [least, sets] : {std::pair{moved, 1U}, {moved + 1, 2U}, {5 * moved, 5U}}) {
      const Bench bench(Device::host(), least, repetition_of(1, 1));
      EXPECT_EQ(bench.measure(problem).sets, sets);
    }
  }
}

TEST(Operands, HaveSetsOfTheirOwnButForWhatIsShared) {
  const Device device = Device::host();
  const Stream stream = device.make_stream("test");
  const Values values = Source(3).normals(1, Dtype::bf16);
  const std::vector<Array> arrays{{"in", 128, Dtype::bf16, filled_with(values)},
                                  {"out", 64},
                                  {.name = "scratch", .count = 1000, .shared = true}};
  const Operands operands(arrays, 2, device, stream);
  ASSERT_EQ(operands.sets().size(), 2U);
  EXPECT_NE(operands.sets()[0][0].data, operands.sets()[1][0].data);
  EXPECT_EQ(operands.sets()[0][2].data, operands.sets()[1][2].data);
  for (const Set& set : operands.sets()) {
    for (std::size_t i = 0; i < 128; ++i) EXPECT_EQ(to_float(set[0].as<Bf16>()[i]), values(i));
    for (std::size_t i = 0; i < 64; ++i) EXPECT_TRUE(std::isnan(set[1].as<float>()[i]));
  }
}

TEST(Values, AreThoseOfTheirPlace) {
  const Source source(5);
  std::mt19937 engine(5);
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const Values values = source.normals(2, dtype, 0.5F);
    const std::size_t first = engine() % 3'000'000;
    std::vector<float> memory(1000);
    const View view(memory.data(), memory.size(), dtype);
    values.fill(view, first);
    with_type(dtype, [&]<class T>(T*) {
      for (std::size_t i = 0; i < memory.size(); ++i) {
        EXPECT_EQ(to_float(view.as<T>()[i]), values(first + i));
      }
    });
    EXPECT_GE(source.magnitudes(2, dtype)(first), 0.0F);
  }
  double squares = 0;
  for (std::size_t i = 0; i < 100'000; ++i)
    squares += std::pow(source.normals(1, Dtype::fp32)(i), 2);
  EXPECT_NEAR(squares / 100'000, 1.0, 0.02);
  EXPECT_NE(source.normals(1, Dtype::fp32)(0), source.normals(2, Dtype::fp32)(0));
}

TEST(Verdict, NamesTheFirstFinding) {
  const Device device = Device::host();
  const Stream stream = device.make_stream("test");
  const auto ones = [](View memory, std::size_t) {
    std::fill_n(memory.as<float>(), memory.count, 1.0F);
  };
  const std::vector<Array> arrays{{"y", 6, Dtype::fp32, ones}, {"z", 6}};
  const Operands operands(arrays, 1, device, stream);
  const Result y = operands.download(0);
  const Result z = operands.download(1);
  Verdict verdict;
  verdict.written(y);
  verdict.close(y, 2, 1.1, 0.2);
  EXPECT_TRUE(verdict.good());
  verdict.close(y, 3, 1.1, 0.05);
  verdict.close(y, 4, 9, 0.05);
  EXPECT_EQ(verdict.text(), "y[3] is 1, wanted 1.1 +- 0.05");
  Verdict poisoned;
  poisoned.close(z, 1, 0, 1e30);
  EXPECT_THAT(poisoned.text(), HasSubstr("z[1] is "));
  Verdict unwritten;
  unwritten.written(z, 2, 2, 3);
  EXPECT_EQ(unwritten.text(), "z[0] was not written, or is nan");
  Verdict bytes;
  const std::vector<std::byte> wanted(6 * sizeof(float));
  bytes.same_bytes(y, wanted);
  EXPECT_EQ(bytes.text(), "y differs from the host's from byte 2 of 24 on");
}

}  // namespace
}  // namespace zeropp::kernels
