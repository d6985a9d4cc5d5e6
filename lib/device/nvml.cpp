#include "lib/device/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <limits>

#include "lib/base/error.hpp"

namespace zeropp {

namespace {

using Status = int;  // 0: success
using GpuHandle = void*;
struct Utilization {
  unsigned int gpu;
  unsigned int memory;
};

constexpr unsigned int kSmClock = 1;
constexpr unsigned int kMemoryClock = 2;
constexpr unsigned int kChipSensor = 0;

constexpr double kMilliwatts = 1e-3;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

template <class Function>
void look_up(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
}

/// Reads one number through NVML's usual form: status f(gpu, what..., &value).
template <class Function, class... What>
double number(Function* function, GpuHandle gpu, What... what) {
  unsigned int value = 0;
  return function(gpu, what..., &value) == 0 ? static_cast<double>(value) : kUnknown;
}

}  // namespace

const std::vector<ClockReason>& clock_reasons() {
  static const std::vector<ClockReason> table{
      {0x1, "gpu_idle", false},
      {0x2, "applications_clocks_setting", false},
      {0x4, "sw_power_cap", true},
      {0x8, "hw_slowdown", true},
      {0x10, "sync_boost", false},
      {0x20, "sw_thermal_slowdown", true},
      {0x40, "hw_thermal_slowdown", true},
      {0x80, "hw_power_brake_slowdown", true},
      {0x100, "display_clock_setting", false},
  };
  return table;
}

std::string describe_reasons(const GpuReading& reading) {
  if (!reading.reasons_known) return "unknown";
  std::string text;
  for (const ClockReason& reason : clock_reasons()) {
    if ((reading.reasons & reason.bit) == 0) continue;
    if (!text.empty()) text += ',';
    text += reason.name;
  }
  return text;
}

/// Owns the library.
struct Nvml::Functions {
  ~Functions() {
    if (library != nullptr) (void)dlclose(library);
  }
  void* library = nullptr;
  Status (*start)() = nullptr;
  Status (*stop)() = nullptr;
  const char* (*error_text)(Status) = nullptr;
  Status (*gpu_of_uuid)(const char*, GpuHandle*) = nullptr;
  Status (*clock)(GpuHandle, unsigned int, unsigned int*) = nullptr;
  Status (*power)(GpuHandle, unsigned int*) = nullptr;
  Status (*temperature)(GpuHandle, unsigned int, unsigned int*) = nullptr;
  Status (*utilization)(GpuHandle, Utilization*) = nullptr;
  Status (*reasons)(GpuHandle, unsigned long long*) = nullptr;
};

Nvml::Nvml(const std::string& library) {
  auto f = std::make_unique<Functions>();
  f->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (f->library == nullptr) {
    const char* const why = dlerror();
    throw Error(ExitCode::environment,
                fmt::format("NVML cannot be opened: {}", why == nullptr ? library.c_str() : why));
  }
  look_up(f->library, "nvmlInit_v2", f->start);
  look_up(f->library, "nvmlShutdown", f->stop);
  look_up(f->library, "nvmlErrorString", f->error_text);
  look_up(f->library, "nvmlDeviceGetHandleByUUID", f->gpu_of_uuid);
  look_up(f->library, "nvmlDeviceGetClockInfo", f->clock);
  look_up(f->library, "nvmlDeviceGetPowerUsage", f->power);
  look_up(f->library, "nvmlDeviceGetTemperature", f->temperature);
  look_up(f->library, "nvmlDeviceGetUtilizationRates", f->utilization);
  look_up(f->library, "nvmlDeviceGetCurrentClocksEventReasons", f->reasons);
  if (f->reasons == nullptr) {  // its name before driver 535
    look_up(f->library, "nvmlDeviceGetCurrentClocksThrottleReasons", f->reasons);
  }
  const bool complete = f->start != nullptr && f->stop != nullptr && f->error_text != nullptr &&
                        f->gpu_of_uuid != nullptr && f->clock != nullptr && f->power != nullptr &&
                        f->temperature != nullptr && f->utilization != nullptr &&
                        f->reasons != nullptr;
  if (!complete) {
    throw Error(ExitCode::environment,
                fmt::format("NVML in {} lacks functions: it is older than this program needs, or "
                            "another library",
                            library));
  }
  if (const Status status = f->start(); status != 0) {
    throw Error(ExitCode::environment,
                fmt::format("NVML does not start: {}", f->error_text(status)));
  }
  functions_ = std::move(f);
}

Nvml::~Nvml() { (void)functions_->stop(); }

void* Nvml::gpu(const std::string& uuid) const {
  GpuHandle gpu = nullptr;
  if (const Status status = functions_->gpu_of_uuid(uuid.c_str(), &gpu); status != 0) {
    throw Error(ExitCode::environment, fmt::format("NVML does not know the GPU {}: {}", uuid,
                                                   functions_->error_text(status)));
  }
  return gpu;
}

GpuReading Nvml::read(void* gpu) const {
  const Functions& f = *functions_;
  GpuReading reading;
  reading.sm_clock = number(f.clock, gpu, kSmClock);
  reading.memory_clock = number(f.clock, gpu, kMemoryClock);
  reading.power = number(f.power, gpu) * kMilliwatts;
  reading.temperature = number(f.temperature, gpu, kChipSensor);
  Utilization use{};
  const bool used = f.utilization(gpu, &use) == 0;
  reading.utilization = used ? use.gpu : kUnknown;
  reading.memory_utilization = used ? use.memory : kUnknown;
  unsigned long long bits = 0;
  reading.reasons_known = f.reasons(gpu, &bits) == 0;
  if (reading.reasons_known) reading.reasons = bits;
  return reading;
}

}  // namespace zeropp
