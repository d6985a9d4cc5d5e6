#include "apps/converge/application.hpp"

#include "apps/converge/program.hpp"
#include "lib/config/json.hpp"

namespace zeropp::converge {

namespace {

using nlohmann::json;

/// The file's keys that are options are read as such; the rest is the matrix.
struct MatrixFile {
  std::vector<config::Option>& table;
  std::string name = {};
  json matrix = {};

  void read(const std::filesystem::path& path) {
    name = path.string();
    matrix = config::parse_object(config::read_config_text(path), name);
    json options = json::object();
    for (const config::Option& option : table) {
      if (!matrix.contains(option.path)) continue;
      options[option.path] = matrix[option.path];
      matrix.erase(option.path);
    }
    config::read_object(options, name, table);
  }

  /// Effective configuration, as canonical JSON, with the options as they are now, flags included.
  [[nodiscard]] std::string canonical() const {
    json effective = json::parse(config::canonical_json(table));
    if (!matrix.is_null()) effective.update(matrix);
    return effective.dump();
  }
};

}  // namespace

int run(int argc, char** argv) {
  Options options;
  std::vector<config::Option> table = option_table(options);
  MatrixFile file{table};
  Matrix matrix;
  app::App app{
      .name = "converge",
      .summary = "Trains a matrix of codecs and seeds: which compression is safe, with statistics",
      .examples =
          {"mpirun -n 4 zpp_converge --config inputs/convergence/reduced.json --output out",
           "mpirun -n 2 zpp_converge --config inputs/convergence/quadratic.json --output out"},
      .options = table,
      .config_file = app::ConfigFile{.help = "The matrix, as in inputs/convergence; flags override "
                                             "its keys",
                                     .read = [&](const auto& path) { file.read(path); },
                                     .canonical = [&] { return file.canonical(); }}};
  app.resolve = [&](const std::vector<config::Option>&, const config::Machine&) {
    if (file.name.empty()) {
      throw Error(ExitCode::usage,
                  "no matrix: give one with --config, for example "
                  "inputs/convergence/reduced.json");
    }
    matrix = read_matrix(file.matrix, file.name, options);
  };
  app.run = [&](const app::Context& context) {
    context.agree_on([&] {
      if (!context.output) {
        throw Error(ExitCode::usage,
                    "no --output: a matrix leaves its runs and its trace in a folder, from which "
                    "it resumes: give --output DIR");
      }
    });
    return StudyProgram(matrix, options, context).run();
  };
  return app::run(std::move(app), argc, argv);
}

}  // namespace zeropp::converge
