// A configuration of Hugging Face's, as the shape of a model.
#include "lib/plan/hf_config.hpp"

#include "tests/support/fuzz_target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zeropp;
  test::may_refuse([&] {
    const plan::HfModel read = plan::parse_hf_config(test::text_of(data, size), "fuzz");
    const model::Options& model = read.model;
    if (model.num_layers == 0 || model.hidden_size == 0 || model.num_attention_heads == 0 ||
        model.seq_length == 0 || model.vocab_size == 0) {
      test::fuzz_failure("a size of 0: " + read.type);
    }
    const std::string told = describe_hf_model(read, model) + doubt_hf_model(read, model);
    if (told.find('\n') != std::string::npos) {
      test::fuzz_failure("a note is not one line: " + told);
    }
  });
  return 0;
}
