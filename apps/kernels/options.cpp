#include "apps/kernels/options.hpp"

#include "lib/config/back_end.hpp"

namespace zeropp::kernels {

std::vector<config::Option> option_table(Options& o) {
  using config::at_least;
  return {
      {.path = "filter",
       .flag = "--filter",
       .field = &o.filter,
       .help = "Regular expression that a row's name (--list) has to hold a match of"},
      {.path = "list",
       .flag = "--list",
       .field = &o.list,
       .help = "Print the names of the rows and end"},
      config::backend_option(o.backend),
      {.path = "codec",
       .flag = "--codec",
       .field = &o.codec,
       .help = "Codecs of the codecs' kernels, FORMAT[:BLOCK]; several with commas"},
      {.path = "dtype",
       .flag = "--dtype",
       .field = &o.dtype,
       .help = "Types of values in memory, of weights that follow an optimizer, and (but fp16) of "
               "a GPT's weights; fp32, bf16, fp16, several with commas; auto: fp32 on the host, "
               "bf16 on a GPU"},
      {.path = "images",
       .flag = "--images",
       .field = &o.images,
       .help = "Numbers of images that decode_reduce and decode_reduce_encode take sums of; "
               "several with commas"},
      {.path = "values",
       .flag = "--values",
       .field = &o.values,
       .help = "Size of the arrays of kernels on flat arrays, over all images; 0: 16M on the host, "
               "256M on a GPU",
       .unit = "elements",
       .range = at_least(0),
       .binary_suffix = true},
      {.path = "shape",
       .flag = "--shape",
       .field = &o.shape,
       .help =
           "Shapes of a GPT's blocks, SEQUENCESxLENGTHxHIDDENxHEADS; several with commas; auto: "
           "1x256x768x12 on the host, 8x1024x1600x25, 4x2048x4096x32 and 1x512x6144x48 on a GPU"},
      {.path = "vocab",
       .flag = "--vocab",
       .field = &o.vocab,
       .help = "Vocabulary of embedding, head and cross-entropy",
       .unit = "tokens",
       .range = at_least(2)},
      {.path = "cache",
       .flag = "--cache",
       .field = &o.cache,
       .help =
           "Size of the largest cache, for operands rotate through four times as much; 0: as the "
           "machine lists it, which in a virtual machine may be far more than it has",
       .unit = "bytes",
       .range = config::between(0, 0x1p40),
       .binary_suffix = true},
      {.path = "maximum_seconds",
       .flag = "--max-seconds",
       .field = &o.maximum_seconds,
       .help = "Time after which a row's samples end; they end before when the 95 % interval of "
               "the median lies within 1 %; at least 5 are taken",
       .unit = "seconds",
       .range = {.minimum = 0, .maximum = 86400, .minimum_excluded = true}},
      {.path = "samples",
       .flag = "--samples",
       .field = &o.samples,
       .help = "Samples of each row, exactly; 0: as --max-seconds says",
       .range = config::between(0, 1e6)},
      {.path = "seed",
       .flag = "--seed",
       .field = &o.seed,
       .help = "Seed of the data",
       .range = at_least(0)},
  };
}

}  // namespace zeropp::kernels
