#include "lib/device/gpu_sampler.hpp"

#include <chrono>
#include <utility>

#include "lib/base/error.hpp"

namespace zeropp {

void thin(std::vector<GpuSample>& samples) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < samples.size(); i += 2) {
    GpuSample sample = samples[i];
    if (i + 1 < samples.size()) sample.reading.reasons |= samples[i + 1].reading.reasons;
    samples[kept++] = sample;
  }
  samples.resize(kept);
}

GpuSampler::GpuSampler(const std::string& uuid, double period, const std::string& library) {
  void* gpu = nullptr;
  try {
    nvml_ = std::make_unique<const Nvml>(library);
    gpu = nvml_->gpu(uuid);
  } catch (const Error& error) {
    series_.absent = error.what();
    return;
  }
  thread_ = std::thread([this, gpu, period] { run(gpu, period); });
}

GpuSampler::~GpuSampler() { join(); }

GpuSeries GpuSampler::stop() {
  join();
  return std::move(series_);
}

void GpuSampler::run(void* gpu, double period) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto read = [&] {
    const double time = std::chrono::duration<double>(Clock::now() - begin).count();
    series_.samples.push_back({time, nvml_->read(gpu)});
    if (series_.samples.size() < kMostSamples) return;
    thin(series_.samples);
    period *= 2;
  };
  read();
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, std::chrono::duration<double>(period), [this] { return done_; })) {
    lock.unlock();
    read();
    lock.lock();
  }
  read();
}

void GpuSampler::join() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace zeropp
