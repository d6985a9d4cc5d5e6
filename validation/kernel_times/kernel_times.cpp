// Times of every kernel and copy that a CUDA program runs, whatever program it is: a library that
// the CUDA driver loads into it (CUDA_INJECTION64_PATH) and that records through CUPTI's activity
// interface. It writes one line each, tab-separated, into $ZEROPP_KERNEL_TIMES.<pid>.tsv:
//   begin [ns], end [ns], device, stream, kind (kernel, copy, set), name or bytes
// and, when the program has ended by itself, a last one: "# complete, N records lost". Lines come
// in no order. CUPTI stamps times on the GPU; recording costs the host a little, so steps are
// compared with those of an unrecorded run. zpp-validate kernel-table reads the lines.
#include <cupti.h>
#include <cxxabi.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>

namespace {

constexpr std::size_t kBufferBytes = std::size_t{8} << 20U;

/// Null before the first record and after the last: CUPTI's own thread may outlive both.
std::FILE* file = nullptr;
std::size_t lost = 0;
std::mutex file_mutex;  ///< of both

bool succeeded(CUptiResult status, const char* what) {
  if (status == CUPTI_SUCCESS) return true;
  const char* text = nullptr;
  (void)cuptiGetResultString(status, &text);
  std::fprintf(stderr, "kernel_times: %s: %s: no times are written\n", what,
               text == nullptr ? "?" : text);
  return false;
}

std::string demangled(const char* mangled) {
  int status = 0;
  char* const name = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  if (status != 0) return mangled;
  std::string text(name);
  std::free(name);
  return text;
}

/// A program runs few kernels many times.
const std::string& readable(const char* mangled) {
  static auto* const names = new std::unordered_map<std::string, std::string>;
  const std::string key = mangled == nullptr ? "?" : mangled;
  const auto known = names->find(key);
  if (known != names->end()) return known->second;
  return names->emplace(key, demangled(key.c_str())).first->second;
}

/// Without times CUPTI could not follow the activity.
template <class Activity>
void write_line(const Activity& activity, const char* kind, const std::string& what) {
  if (activity.end == 0) {
    ++lost;
    return;
  }
  std::fprintf(file, "%llu\t%llu\t%u\t%u\t%s\t%s\n",
               static_cast<unsigned long long>(activity.start),
               static_cast<unsigned long long>(activity.end), activity.deviceId, activity.streamId,
               kind, what.c_str());
}

void write(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto& kernel = *reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      write_line(kernel, "kernel", readable(kernel.name));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& copy = *reinterpret_cast<const CUpti_ActivityMemcpy5*>(record);
      write_line(copy, "copy", std::to_string(copy.bytes));
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& set = *reinterpret_cast<const CUpti_ActivityMemset4*>(record);
      write_line(set, "set", std::to_string(set.bytes));
      break;
    }
    default:
      break;
  }
}

void CUPTIAPI lend_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *most_records = 0;
}

void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                          std::size_t /*size*/, std::size_t valid) {
  const std::lock_guard lock(file_mutex);
  CUpti_Activity* record = nullptr;
  while (file != nullptr && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    write(record);
  }
  std::size_t dropped = 0;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &dropped) == CUPTI_SUCCESS) {
    lost += dropped;
  }
  std::free(buffer);
}

void finish() {
  (void)succeeded(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "the last records");
  const std::lock_guard lock(file_mutex);
  std::fprintf(file, "# complete, %zu records lost\n", lost);
  if (std::fclose(file) != 0) std::perror("kernel_times");
  file = nullptr;
}

bool record() {
  if (!succeeded(cuptiActivityRegisterCallbacks(lend_buffer, take_buffer), "buffers")) return false;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    if (!succeeded(cuptiActivityEnable(kind), "recording")) return false;
  }
  return std::atexit(finish) == 0;
}

}  // namespace

/// Called by the CUDA driver when it begins; 1 is success. A program runs on where nothing can be
/// recorded.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  const char* const prefix = std::getenv("ZEROPP_KERNEL_TIMES");
  if (prefix == nullptr) {
    std::fprintf(stderr, "kernel_times: ZEROPP_KERNEL_TIMES names no file: no times are written\n");
    return 1;
  }
  const std::string name = std::string(prefix) + "." + std::to_string(getpid()) + ".tsv";
  file = std::fopen(name.c_str(), "w");
  if (file == nullptr) {
    std::perror(("kernel_times: " + name).c_str());
    return 1;
  }
  if (!record()) {
    const std::lock_guard lock(file_mutex);
    (void)std::fclose(file);
    file = nullptr;
  }
  return 1;
}
