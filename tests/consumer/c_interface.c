/* One rank gathers through a codec with the C interface: compiled as C, by who has the installed package only. Prints
 * one line; exits with 1 where a call fails or a value is further off than half a step of int8 in its block. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zeropp.h>

enum { COUNT = 1000 };

static int all_gather_bytes(void* context, const void* part, void* parts, size_t bytes) {
  (void)context;
  memcpy(parts, part, bytes);
  return 0;
}

static int exchange(void* context, const zpp_message* sends, size_t send_count, const zpp_message* receives,
                    size_t receive_count, void* stream) {
  (void)context, (void)sends, (void)receives, (void)stream;
  return send_count + receive_count > 0; /* one rank has nobody to talk to */
}

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, zpp_last_error());
  return 1;
}

int main(void) {
  static float part[COUNT];
  static float full[COUNT];
  size_t image_bytes = 0;
  zpp_comm* comm = NULL;
  zpp_plan* plan = NULL;
  zpp_traffic traffic;
  const zpp_callbacks callbacks = {.all_gather_bytes = all_gather_bytes, .exchange = exchange};
  const zpp_comm_options ranks = {.struct_size = sizeof ranks, .size = 1, .node_size = 1, .copy_engines = -1};
  const zpp_plan_options options = {.struct_size = sizeof options, .count = COUNT, .codec = "int8:256"};

  if (zpp_abi_version() != ZPP_ABI_VERSION) return 1;
  for (int i = 0; i < COUNT; ++i) part[i] = sinf((float)i);
  if (zpp_comm_create(&ranks, &callbacks, &comm) != ZPP_OK) return fail("zpp_comm_create");
  if (zpp_plan_all_gather(comm, &options, &plan) != ZPP_OK) return fail("zpp_plan_all_gather");
  if (zpp_run(plan, part, full, NULL) != ZPP_OK) return fail("zpp_run");
  if (zpp_plan_traffic(plan, &traffic) != ZPP_OK) return fail("zpp_plan_traffic");
  if (zpp_image_bytes("int8:256", ZPP_FP32, COUNT, &image_bytes) != ZPP_OK) return fail("zpp_image_bytes");
  for (int i = 0; i < COUNT; ++i) {
    if (!(fabsf(full[i] - part[i]) <= 0.004F)) return 1;
  }
  printf("%d values, %zu bytes of an image, %s\n", COUNT, image_bytes, traffic.algorithm);
  zpp_plan_destroy(plan);
  zpp_comm_destroy(comm);
  return 0;
}
