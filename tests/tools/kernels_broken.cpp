// tool: link=zeropp_app_kernels
// zpp_kernels with kernels that are broken on purpose, for tests/cli/kernels_broken.py: each is the
// right encode or layer normalisation, spoiled in one way.
#include <cstring>

#include "apps/kernels/entries.hpp"
#include "apps/kernels/program.hpp"

namespace zeropp::kernels {
namespace {

/// Wraps the call of a set and runs instead of it.
using Spoil = void (*)(const Call& call, const Set& set, StreamHandle stream);

std::byte* bytes_of(const View& view) { return static_cast<std::byte*>(view.data); }

void nothing(const Call&, const Set&, StreamHandle) {}

/// Runs, and takes the last eighth of the result back.
void most_of_it(const Call& call, const Set& set, StreamHandle stream) {
  call(stream);
  const std::size_t bytes = set[1].bytes();
  std::memset(bytes_of(set[1]) + bytes / 8 * 7, 0xFF, bytes / 8);
}

void flipped_bit(const Call& call, const Set& set, StreamHandle stream) {
  call(stream);
  bytes_of(set[1])[set[1].bytes() / 2 + 3] ^= std::byte{0x40};  // of the exponent
}

/// The rows of `right` under another name, with every call spoiled.
template <Spoil How>
std::vector<Case> spoiled(const Kernel& right, std::string_view name, const Choice& choice) {
  std::vector<Case> cases = right.cases(choice);
  for (Case& each : cases) {
    each.kernel = name;
    each.make = [make = each.make](const Device& device) {
      Problem problem = make(device);
      problem.bind = [bind = problem.bind](const Set& set, const Device& on,
                                           StreamHandle stream) -> Call {
        return [call = bind(set, on, stream), &set](StreamHandle at) { How(call, set, at); };
      };
      return problem;
    };
  }
  return cases;
}

const Kernel idle{"idle", "an encode that does nothing",
                  [](const Choice& choice) { return spoiled<nothing>(encode, "idle", choice); }};
const Kernel short_encode{"short", "an encode that stops early", [](const Choice& choice) {
                            return spoiled<most_of_it>(encode, "short", choice);
                          }};
const Kernel flipped{"flipped", "a decode with a bit flipped", [](const Choice& choice) {
                       return spoiled<flipped_bit>(decode, "flipped", choice);
                     }};
const Kernel short_copy{"short_copy", "a copy that stops early", [](const Choice& choice) {
                          return spoiled<most_of_it>(copy, "short_copy", choice);
                        }};

}  // namespace
}  // namespace zeropp::kernels

int main(int argc, char** argv) {
  using namespace zeropp::kernels;
  return run(argc, argv, {&idle, &short_encode, &flipped, &short_copy, &encode});
}
