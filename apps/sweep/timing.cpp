#include "apps/sweep/timing.hpp"

#include "lib/device/graph.hpp"

namespace zeropp::sweep {

namespace {

/// Seconds of so many iterations here.
double seconds_of(std::size_t iterations, const Repetition& repetition, comm::Control& control,
                  const Stream& stream, const std::function<void()>& restore,
                  const std::function<void()>& operate) {
  const auto operate_and_wait = [&] {
    operate();
    const Blocking blocking = repetition.blocking;
    if (blocking == Blocking::none || blocking == Blocking::line_up) return;
    stream.synchronize();
    if (blocking == Blocking::wait_and_barrier) control.barrier();
  };
  if (!restore && repetition.blocking != Blocking::line_up) {
    control.barrier();
    return bench::seconds_of(stream, iterations, operate_and_wait);
  }
  double sum = 0;
  for (std::size_t i = 0; i < iterations; ++i) {
    if (restore) restore();
    stream.synchronize();
    control.barrier();
    sum += bench::seconds_of(stream, 1, operate_and_wait);
  }
  return sum;
}

}  // namespace

Samples measure(const Repetition& repetition, comm::Control& control, const Stream& stream,
                const std::function<void()>& restore, const std::function<void()>& operate) {
  const auto cycle_of = [&](const std::function<void()>& run) -> bench::Cycle {
    return [&repetition, &control, &stream, &restore, run](std::size_t iterations) {
      return seconds_of(iterations, repetition, control, stream, restore, run);
    };
  };
  const std::size_t iterations = bench::warm_up(repetition.times, &control, cycle_of(operate));
  // A graph holds the iterations of a cycle, or one where each gets its input back.
  const std::size_t kept = restore ? 1 : iterations;
  const std::size_t launches = repetition.graph_launches * iterations / kept;
  if (launches == 0) {
    return bench::take_samples(repetition.times, &control, iterations, cycle_of(operate));
  }
  const Graph graph(stream, [&] {
    for (std::size_t i = 0; i < kept; ++i) operate();
  });
  graph.launch(stream);  // the first launch uploads it
  stream.synchronize();
  bench::Repetition of_graph = repetition.times;
  of_graph.operations *= kept;
  Samples samples =
      bench::take_samples(of_graph, &control, launches, cycle_of([&] { graph.launch(stream); }));
  samples.iterations = iterations * repetition.graph_launches;
  return samples;
}

}  // namespace zeropp::sweep
