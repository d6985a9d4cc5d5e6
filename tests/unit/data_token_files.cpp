// ctest: name=data_token_files labels=sanitize
// Token files of llm.c and Megatron-LM that are damaged anywhere: they are read whole, with tokens
// of the vocabulary, or refused in one line. tests/oracle compares the content of whole files with
// NumPy's.
#include <gmock/gmock.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "lib/base/error.hpp"
#include "lib/data/token_file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zeropp::data {
namespace {

using testing::HasSubstr;

constexpr std::size_t kVocab = 1000;
const std::vector<std::int32_t> kIds{7, 0, 999, 256, 300, 12};

template <class T>
std::string bytes(const std::vector<T>& values) {
  std::string text(values.size() * sizeof(T), '\0');
  std::memcpy(text.data(), values.data(), text.size());
  return text;
}

std::string ids_as_uint16() { return bytes(std::vector<std::uint16_t>(kIds.begin(), kIds.end())); }

std::string llmc_file() {
  std::vector<std::int32_t> header(256, 0);
  header[0] = 20240520;
  header[1] = 1;
  header[2] = static_cast<std::int32_t>(kIds.size());
  return bytes(header) + ids_as_uint16();
}

/// Two documents, of two sequences and of one.
std::string megatron_index() {
  return std::string("MMIDIDX\0\0", 9) + bytes<std::uint64_t>({1}) + bytes<std::uint8_t>({8}) +
         bytes<std::uint64_t>({3, 3}) + bytes<std::int32_t>({1, 3, 2}) +
         bytes<std::int64_t>({0, 2, 8}) + bytes<std::int64_t>({0, 2, 3});
}

class TokenFiles : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (scratch_.path() / name).string();
  }
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  [[nodiscard]] std::unique_ptr<TokenSource> open(const std::string& source) const {
    return make_source(
        {.source = source, .path = path("data"), .vocab_size = kVocab, .held_out_fraction = 0.3});
  }
  /// All tokens, those that are held out last.
  [[nodiscard]] std::vector<std::int32_t> read(const std::string& source) const {
    const auto opened = open(source);
    std::vector<std::int32_t> tokens(opened->tokens(Part::train) + opened->tokens(Part::held_out));
    const auto both = std::span(tokens);
    opened->read(Part::train, 0, both.first(opened->tokens(Part::train)));
    opened->read(Part::held_out, 0, both.last(opened->tokens(Part::held_out)));
    return tokens;
  }
  /// The refusal of the file; "" if it is read, and then all tokens are in the vocabulary.
  [[nodiscard]] std::string refusal(const std::string& source) const {
    try {
      for (const std::int32_t token : read(source)) {
        EXPECT_GE(token, 0);
        EXPECT_LT(token, static_cast<std::int32_t>(kVocab));
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::io);
      EXPECT_THAT(error.what(), HasSubstr(path("data")));
      EXPECT_THAT(error.what(), testing::Not(HasSubstr("\n")));
      return error.what();
    }
    return "";
  }
  /// Cut at every length, and every byte changed in several ways; but for the part of llm.c's
  /// header that says nothing.
  void damage_everywhere(const std::string& source, const std::string& name,
                         const std::string& whole) const {
    const auto says_nothing = [](std::size_t place) { return place >= 96 && place < 1000; };
    for (std::size_t length = 0; length < whole.size(); ++length) {
      if (says_nothing(length)) continue;
      write(name, whole.substr(0, length));
      EXPECT_NE(refusal(source), "") << "cut after " << length << " bytes";
    }
    for (std::size_t place = 0; place < whole.size(); ++place) {
      if (says_nothing(place)) continue;
      for (const int mask : {0x01, 0x80, 0xFF}) {
        std::string damaged = whole;
        damaged[place] = static_cast<char>(damaged[place] ^ mask);
        write(name, damaged);
        (void)refusal(source);
      }
    }
    write(name, whole);
    EXPECT_EQ(refusal(source), "");
  }

 private:
  test::TemporaryFolder scratch_;
};

TEST_F(TokenFiles, OfLlmc) {
  write("data", llmc_file());
  EXPECT_EQ(read("llmc"), kIds);
  EXPECT_EQ(open("llmc")->tokens(Part::held_out), 2U);
  EXPECT_EQ(open("llmc")->vocab_size(), kVocab);
  EXPECT_EQ(open("llmc")->description(), "llmc " + path("data"));
  damage_everywhere("llmc", "data", llmc_file());
}

TEST_F(TokenFiles, OfMegatron) {
  write("data.idx", megatron_index());
  write("data.bin", ids_as_uint16());
  EXPECT_EQ(read("megatron"), kIds);
  EXPECT_EQ(open("megatron")->tokens(Part::train), 4U);
  EXPECT_EQ(open("megatron")->description(), "megatron " + path("data"));
  damage_everywhere("megatron", "data.idx", megatron_index());
  damage_everywhere("megatron", "data.bin", ids_as_uint16());
}

TEST_F(TokenFiles, AnIdBeyondTheVocabularyHasAPlace) {
  std::string ids = ids_as_uint16();
  ids.replace(6, 2, bytes<std::uint16_t>({kVocab}));
  write("data.idx", megatron_index());
  write("data.bin", ids);
  EXPECT_THAT(refusal("megatron"), HasSubstr("data.bin' has the id 1000 as its token 3 (byte 6), "
                                             "and the vocabulary has 1000"));
}

TEST_F(TokenFiles, AFileThatIsCutWhileItIsOpen) {
  write("data", llmc_file());
  const auto source = open("llmc");
  std::filesystem::resize_file(path("data"), llmc_file().size() - 1);
  std::vector<std::int32_t> tokens(2);
  EXPECT_NO_THROW(source->read(Part::train, 2, tokens));
  EXPECT_THAT([&] { source->read(Part::held_out, 0, tokens); },
              testing::ThrowsMessage<Error>(HasSubstr("it was cut short")));
}

}  // namespace
}  // namespace zeropp::data
