// A program on the frame of lib/app whose rank 1 throws while the others wait for it, and has
// groups that end with its stack: run by tests/fault/rank_fails.py.
//   rank_throws --what error|exception|memory|number
#include <new>
#include <stdexcept>
#include <string>

#include "lib/app/app.hpp"

int main(int argc, char** argv) {
  using namespace zeropp;
  std::string what = "error";
  app::App app{.name = "throws",
               .summary = "Rank 1 throws while the others wait for it",
               .options = {{.path = "what",
                            .flag = "--what",
                            .field = &what,
                            .help = "What it throws",
                            .choices = {"error", "exception", "memory", "number"}}}};
  app.run = [&what](const app::Context& context) {
    const comm::Groups groups = context.world().make_groups();
    context.control().barrier();
    if (context.control().rank() == 1) {
      if (what == "error") throw Error(ExitCode::io, "rank 1 lost its disk: mount it");
      if (what == "exception") throw std::runtime_error("rank 1 has an idea");
      if (what == "memory") throw std::bad_alloc();
      throw 1;  // NOLINT: whatever a library throws
    }
    context.control().barrier();
    return ExitCode::ok;
  };
  return app::run(std::move(app), argc, argv);
}
