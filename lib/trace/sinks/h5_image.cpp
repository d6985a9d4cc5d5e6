#include "lib/trace/sinks/h5_image.hpp"

#include <cstdlib>

namespace zeropp::trace::h5 {
namespace {

constexpr std::size_t growth = std::size_t{1} << 16U;

/// Memory that the callbacks share: the driver owns it until it frees it at close.
struct Image {
  std::size_t bytes = 0;
  std::vector<std::byte> closed;
};

void* allocate(std::size_t bytes, H5FD_file_image_op_t /*operation*/, void* image) {
  static_cast<Image*>(image)->bytes = bytes;
  return std::malloc(bytes);
}

void* resize(void* memory, std::size_t bytes, H5FD_file_image_op_t /*operation*/, void* image) {
  void* moved = std::realloc(memory, bytes);
  if (moved != nullptr) static_cast<Image*>(image)->bytes = bytes;
  return moved;
}

herr_t release(void* memory, H5FD_file_image_op_t operation, void* image) {
  auto& shared = *static_cast<Image*>(image);
  herr_t status = 0;
  if (operation == H5FD_FILE_IMAGE_OP_FILE_CLOSE) {
    try {
      const auto* begin = static_cast<const std::byte*>(memory);
      shared.closed.assign(begin, begin + shared.bytes);
    } catch (...) {  // must not cross the C library; the caller sees the failed close
      status = -1;
    }
  }
  std::free(memory);
  return status;
}

void* share(void* image) { return image; }
herr_t unshare(void* /*image*/) { return 0; }

}  // namespace

std::vector<std::byte> build_image(const std::string& name,
                                   const std::function<void(hid_t)>& fill) {
  Image image;
  std::size_t used = 0;
  {
    const Handle access(check(H5Pcreate(H5P_FILE_ACCESS), "set up", name), H5Pclose);
    check(H5Pset_fapl_core(access.id(), growth, false), "build in memory", name);
    H5FD_file_image_callbacks_t callbacks{allocate, nullptr, resize, release,
                                          share,    unshare, &image};
    check(H5Pset_file_image_callbacks(access.id(), &callbacks), "build in memory", name);
    // The format is that of 1.8 or later: metadata carries checksums, and attributes may be long.
    check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_LATEST), "set up", name);
    Handle file(check(H5Fcreate(name.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()),
                      "build in memory", name),
                H5Fclose);
    fill(file.id());
    check(H5Fflush(file.id(), H5F_SCOPE_LOCAL), "flush", name);
    used = static_cast<std::size_t>(
        check(H5Fget_file_image(file.id(), nullptr, 0), "take the size of", name));
    check(file.close(), "close", name);
  }
  image.closed.resize(used);  // the driver allocates in steps
  return std::move(image.closed);
}

}  // namespace zeropp::trace::h5
