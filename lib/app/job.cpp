#include "lib/app/job.hpp"

namespace zeropp::app {

namespace {
Job* the_job = nullptr;
}  // namespace

Job::Job(int& argc, char**& argv) : world_(argc, argv) { the_job = this; }
Job::~Job() { the_job = nullptr; }

Job* Job::of_process() { return the_job; }

void Job::start_host_runtime() {
  if (!runtime_) runtime_.emplace();
}

}  // namespace zeropp::app
