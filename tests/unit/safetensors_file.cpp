// ctest: name=safetensors_file timeout=60 labels=sanitize
// Files of the safetensors format: tensors come back, in any type; a header that is none, or says
// what the file does not hold, is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>

#include "kernels/core/half.hpp"
#include "kernels/core/view.hpp"
#include "lib/base/error.hpp"
#include "lib/base/sha256.hpp"
#include "lib/checkpoint/safetensors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::checkpoint {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<StoredTensor> sample() {
  std::vector<StoredTensor> tensors(3);
  tensors[0] = {"b", Dtype::fp32, {2, 3}, 0, {}};
  tensors[1] = {"a", Dtype::bf16, {5}, 0, {}};
  tensors[2] = {"none", Dtype::fp16, {0, 7}, 0, {}};
  return tensors;
}

constexpr std::size_t kValues = 6 * 4 + 5 * 2;  // bytes

std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string bytes_of_sample() {
  const test::TemporaryFolder folder;
  SafetensorsWriter file(folder.path() / "f", sample());
  for (const StoredTensor& tensor : sample()) {
    file.write(std::vector<std::byte>(tensor.bytes(), std::byte{0x3F}));
  }
  (void)file.finish();
  return read_all(folder.path() / "f");
}

std::string with_header(const std::string& header, std::size_t values) {
  std::string text(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) text[i] = static_cast<char>(header.size() >> (8 * i));
  return text + header + std::string(values, '?');
}

/// The message of a reader about a file with these bytes; "" if it accepts the file.
std::string refusal(const std::string& bytes) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "f";
  std::ofstream(path, std::ios::binary) << bytes;
  try {
    const SafetensorsReader reader(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::io);
    EXPECT_THAT(error.what(), HasSubstr(path.string() + " is no safetensors file"));
    return error.what();
  }
  return "";
}

/// The sample's header with something changed, before its values.
std::string forged(const std::function<void(json&)>& change) {
  const std::string bytes = bytes_of_sample();
  json header = json::parse(bytes.substr(8, bytes.size() - 8 - kValues));
  change(header);
  return refusal(with_header(header.dump(), kValues));
}

TEST(Safetensors, TensorsComeBackInAnyType) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 30; ++trial) {
    const test::TemporaryFolder folder;
    std::vector<StoredTensor> tensors(1 + random() % 5);
    std::vector<std::vector<float>> wanted(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i] = {"tensor " + std::to_string(random()),
                    static_cast<Dtype>(random() % 3),
                    {random() % 9, 1 + random() % 9},
                    0,
                    {}};
    }
    SafetensorsWriter file(folder.path() / "f", tensors);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      with_type(tensors[i].dtype, [&](auto* element) {
        using T = std::remove_pointer_t<decltype(element)>;
        std::vector<T> values(tensors[i].count());
        for (T& value : values) {
          value = saturating_cast<T>(normal(random));
          wanted[i].push_back(to_float(value));
        }
        file.write(std::as_bytes(std::span(values)));
      });
    }
    (void)file.finish();
    const SafetensorsReader reader(folder.path() / "f");
    ASSERT_EQ(reader.tensors().size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const StoredTensor& found = reader.tensors().at(tensors[i].name);
      EXPECT_EQ(found.shape, tensors[i].shape);
      EXPECT_EQ(reader.read(found, 0, found.count()), wanted[i]);
    }
  }
}

TEST(Safetensors, TheHeaderIsTheFormats) {
  const std::string bytes = bytes_of_sample();
  const json header = json::parse(bytes.substr(8, bytes.size() - 8 - kValues));
  EXPECT_EQ(header["b"],
            json::parse(R"({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]})"));
  EXPECT_EQ(header["a"],
            json::parse(R"({"dtype": "BF16", "shape": [5], "data_offsets": [24, 34]})"));
  EXPECT_EQ((bytes.size() - kValues) % 8, 0U) << "values are aligned";
}

TEST(Safetensors, AFileThatWasCutIsRefused) {
  const std::string bytes = bytes_of_sample();
  EXPECT_EQ(refusal(bytes), "");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(refusal(bytes.substr(0, size)), "") << size;
  }
  EXPECT_THAT(refusal(bytes + "x"), HasSubstr("its tensors have 34 bytes, and it has 35"));
}

TEST(Safetensors, APipeIsRefusedAtOnce) {
  const test::TemporaryFolder place;
  const std::filesystem::path path = place.path() / "pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THROW(SafetensorsReader{path}, Error) << "nobody writes to it";
}

TEST(Safetensors, AFlippedBitOfAValueIsFound) {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "f";
  const std::string bytes = bytes_of_sample();
  for (std::size_t bit = 0; bit < 8 * kValues; ++bit) {
    std::string changed = bytes;
    char& byte = changed[bytes.size() - kValues + bit / 8];
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
    std::ofstream(path, std::ios::binary) << changed;
    const SafetensorsReader reader(path);
    for (const auto& [name, tensor] : reader.tensors()) {
      const bool holds_it = tensor.begin <= bit / 8 && bit / 8 < tensor.begin + tensor.bytes();
      std::string said;
      try {
        (void)reader.read(tensor, 0, tensor.count());
      } catch (const Error& error) {
        said = error.what();
      }
      EXPECT_EQ(said.find("was damaged") != std::string::npos, holds_it) << name << ", " << bit;
    }
  }
}

TEST(Safetensors, WhatAHeaderMayNotSay) {
  EXPECT_EQ(forged([](json&) {}), "");
  const auto tensor = [](const char* key, const json& value) {
    return forged([&](json& header) { header["a"][key] = value; });
  };
  EXPECT_THAT(tensor("dtype", "I64"), HasSubstr("the type of 'a' is none of"));
  EXPECT_THAT(tensor("dtype", 3), HasSubstr("the type of 'a' is none of"));
  EXPECT_THAT(tensor("shape", {4}), HasSubstr("'a' has other bytes than its shape"));
  EXPECT_THAT(tensor("shape", {-5}), HasSubstr("no whole number"));
  EXPECT_THAT(tensor("shape", "5"), HasSubstr("is no list"));
  EXPECT_THAT(tensor("shape", std::vector<int>(9, 1)), HasSubstr("is no list of up to 8 sizes"));
  EXPECT_THAT(tensor("shape", {1UL << 40U, 1UL << 40U}), HasSubstr("more than"));
  EXPECT_THAT(tensor("shape", {1UL << 62U}), HasSubstr("no whole number"));
  EXPECT_THAT(tensor("data_offsets", {20, 30}), HasSubstr("does not begin where another ends"));
  EXPECT_THAT(tensor("data_offsets", {26, 36}), HasSubstr("does not begin where another ends"));
  EXPECT_THAT(tensor("data_offsets", {24}), HasSubstr("no begin and end"));
  EXPECT_THAT(forged([](json& header) { header["a"].erase("shape"); }), HasSubstr("no 'shape'"));
  EXPECT_THAT(forged([](json& header) { header["a"] = 1; }), HasSubstr("is no object"));
  EXPECT_THAT(forged([](json& header) {
                for (const char* name : {"a", "none"}) header.erase(name);
              }),
              HasSubstr("have 24 bytes"));
  EXPECT_THAT(refusal(with_header("[]", 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(with_header(std::string(100'000, '['), 0)), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(std::string(8, '\xFF') + "{}"), HasSubstr("longer than the file"));
}

/// Bytes that this process has read.
std::uint64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string word;
  std::uint64_t bytes = 0;
  while (file >> word && word != "rchar:") file >> bytes;
  file >> bytes;
  return bytes;
}

/// A file of one tensor of 3.5 pieces, whose values count from 0.
class Ranges : public testing::Test {
 protected:
  static constexpr std::uint64_t kElements = 7 * kPiece / 8;

  Ranges() {
    SafetensorsWriter file(path_, {{"t", Dtype::fp32, {kElements}, 0, {}}});
    std::vector<float> values(kElements);
    std::iota(values.begin(), values.end(), 0.0F);
    file.write(std::as_bytes(std::span(values)));
    (void)file.finish();
  }

  /// The file with its header changed, and the byte at `place` of its values.
  void forge(const std::function<void(json&)>& change, std::optional<std::uint64_t> place = {}) {
    const std::string bytes = read_all(path_);
    std::string values = bytes.substr(bytes.size() - 4 * kElements);
    json header = json::parse(bytes.substr(8, bytes.size() - 8 - values.size()));
    change(header);
    if (place) values[*place] = static_cast<char>(values[*place] ^ 1);
    std::ofstream(path_, std::ios::binary) << with_header(header.dump(), 0) << values;
  }

  /// Reads and compares them; returns the bytes that were read for it.
  [[nodiscard]] std::uint64_t read(std::uint64_t begin, std::uint64_t end) const {
    const SafetensorsReader reader(path_);
    const std::uint64_t before = bytes_read();
    const std::vector<float> values = reader.read(reader.tensors().at("t"), begin, end);
    const std::uint64_t after = bytes_read();
    EXPECT_EQ(values.size(), end - begin);
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>(begin + i));
      if (values[i] != static_cast<float>(begin + i)) break;
    }
    return after - before;
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "f";
};

constexpr std::uint64_t kInPiece = kPiece / 4;  // elements
constexpr std::uint64_t kAround = 1 << 12U;     // bytes of /proc/self/io itself

TEST_F(Ranges, AreReadWithTheirPiecesAlone) {
  EXPECT_LT(read(5, 7), kPiece + kAround);
  EXPECT_LT(read(kInPiece, 2 * kInPiece), kPiece + kAround);
  EXPECT_LT(read(kInPiece - 1, kInPiece + 1), 2 * kPiece + kAround);
  EXPECT_LT(read(kElements - 1, kElements), kPiece / 2 + kAround);
  EXPECT_LT(read(kElements, kElements), kAround);
  EXPECT_GE(read(0, kElements), 4 * kElements);
}

TEST_F(Ranges, OfAFileWithoutDigestsAreReadAlone) {
  forge([](json& header) { header.erase("__metadata__"); });
  EXPECT_LT(read(5, 7), 8 + kAround);
  EXPECT_LT(read(kInPiece - 1, 3 * kInPiece + 1), 2 * kPiece + 8 + kAround);
}

TEST_F(Ranges, AreCheckedByTheDigestsOfTheirPieces) {
  forge([](json&) {}, kPiece + 17);
  (void)read(0, kInPiece);
  (void)read(2 * kInPiece, kElements);
  EXPECT_THROW((void)read(kInPiece, kInPiece + 1), Error);
  EXPECT_THROW((void)read(2 * kInPiece - 1, 2 * kInPiece + 1), Error);
}

TEST_F(Ranges, OfAFileWithOneDigestAreCheckedByIt) {
  const auto with_one = [](json& header) {
    Sha256 digest;
    std::vector<float> values(kElements);
    std::iota(values.begin(), values.end(), 0.0F);
    digest.update(std::as_bytes(std::span(values)));
    header["__metadata__"]["sha256 of t"] = digest.hex();
  };
  forge(with_one);
  EXPECT_GE(read(5, 7), 4 * kElements);
  forge(with_one, 4 * kElements - 1);
  EXPECT_THROW((void)read(5, 7), Error);
}

TEST_F(Ranges, NeedTheDigestsOfAllPieces) {
  forge([](json& header) {
    const std::string all = header["__metadata__"]["sha256 of t"];
    header["__metadata__"]["sha256 of t"] = all.substr(0, 2 * 64);
  });
  EXPECT_THROW((void)read(5, 7), Error);
}

}  // namespace
}  // namespace zeropp::checkpoint
