// tool: link=zeropp_app_train,zeropp_app_sweep,zeropp_app_fabric,zeropp_app_converge
// Ranks that run one program after the other, as tests/support/zpp.py asks for them: to start ranks
// takes a hundred times as long as to train a tiny model.
//   standing_ranks SOCKET
// Each rank connects to this Unix socket and writes its number and a newline. A call comes as the
// number of the bytes that follow and a newline, then words that end with a zero byte: the folder
// to run in, a file for standard output and one for standard error, which all ranks append to, and
// argv. The answer is the exit code and a newline. At the end of the connection the rank ends. A
// call that ends the job ends these ranks too, without an answer.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "apps/converge/application.hpp"
#include "apps/fabric/program.hpp"
#include "apps/sweep/collective.hpp"
#include "apps/sweep/sweep.hpp"
#include "apps/train/program.hpp"
#include "lib/app/job.hpp"

namespace {

using namespace zeropp;

int succeeded(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

/// A standard descriptor that goes to the end of a file for as long as this lives.
class Redirected {
 public:
  Redirected(int standard, const char* path)
      : standard_(standard), before_(succeeded(::fcntl(standard, F_DUPFD_CLOEXEC, 0), "dup")) {
    const int file = succeeded(::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644), path);
    ::dup2(file, standard);
    ::close(file);
  }
  ~Redirected() {
    ::dup2(before_, standard_);
    ::close(before_);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;

 private:
  int standard_;
  int before_;
};

int connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int connection = succeeded(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
  succeeded(::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            path.c_str());
  return connection;
}

/// Words of the next call, which stay in `bytes`; none at the end of the connection.
std::vector<char*> next_call(std::FILE* calls, std::string& bytes) {
  std::array<char, 32> size{};
  if (std::fgets(size.data(), size.size(), calls) == nullptr) return {};
  bytes.resize(std::stoul(size.data()));
  if (std::fread(bytes.data(), 1, bytes.size(), calls) != bytes.size()) return {};
  std::vector<char*> words;
  for (std::size_t begin = 0; begin < bytes.size(); begin = bytes.find('\0', begin) + 1) {
    words.push_back(&bytes[begin]);
  }
  return words;
}

int run_program(const std::string& name, int argc, char** argv) {
  if (name == "zpp_train") return train_app::run(argc, argv);
  if (name == "zpp_sweep") return sweep::run(argc, argv, sweep::collectives());
  if (name == "zpp_fabric") return fabric::run(argc, argv);
  if (name == "zpp_converge") return converge::run(argc, argv);
  throw std::invalid_argument(name + " is no program of these ranks");
}

int run_call(std::vector<char*> words) {
  succeeded(::chdir(words[0]), words[0]);
  const Redirected out(STDOUT_FILENO, words[1]);
  const Redirected error(STDERR_FILENO, words[2]);
  words.erase(words.begin(), words.begin() + 3);
  const int argc = static_cast<int>(words.size());
  words.push_back(nullptr);
  return run_program(std::filesystem::path(words[0]).filename(), argc, words.data());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: standing_ranks SOCKET\n");
    return 2;
  }
  app::Job job(argc, argv);
  const int connection = connect_to(argv[1]);
  std::FILE* calls = ::fdopen(connection, "r");
  ::dprintf(connection, "%d\n", job.world().rank());
  std::string bytes;
  for (auto words = next_call(calls, bytes); !words.empty(); words = next_call(calls, bytes)) {
    ::dprintf(connection, "%d\n", run_call(words));
  }
  std::fclose(calls);
  return 0;
}
