/* The compressed collectives of zeropp for programs in any language: plain C, opaque handles, no
 * MPI, no libtorch.
 *
 * A communicator stands for one rank of a job. A plan is one collective of a fixed size and codec
 * on it; it is made once and run any number of times. Data lives in memory of the caller: host
 * memory, or memory of one CUDA device.
 *
 * Streams: with ZPP_CUDA, a run is enqueued on the stream that it is given (a cudaStream_t) and the
 * host does not wait; memory belongs to the run until the stream has passed it. With ZPP_HOST,
 * streams are ignored and a run has ended when the call returns. Workspace lies in the plan, so
 * that two runs of one plan must be ordered by streams.
 *
 * Order: all ranks of a communicator make the same plans, and run them, in the same order. A
 * communicator is used by one thread at a time.
 *
 * Errors: functions return a zpp_status. zpp_last_error() has one line for the last failure of the
 * calling thread: what failed, where, and the remedy. A plan or communicator that could not be made
 * leaves its out-parameter NULL.
 *
 * Source: qwZ is section 3.1 and qgZ section 3.3 of ZeRO++ (arXiv 2306.10209). */
/* NOLINTBEGIN(modernize-use-using,readability-identifier-naming): names and types of C. */
#ifndef ZEROPP_C_ZEROPP_H_
#define ZEROPP_C_ZEROPP_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ZPP_API __attribute__((visibility("default")))
#else
#define ZPP_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface: a program compiled against another major number must not call the
 * library. */
#define ZPP_ABI_VERSION 1

typedef enum zpp_status {
  ZPP_OK = 0,
  ZPP_FAILED = 1,     /* a failure of the library itself, or of a callback */
  ZPP_USAGE = 2,      /* an argument that cannot be: an unknown codec, a size that does not fit */
  ZPP_ENVIRONMENT = 3 /* the machine lacks something: a GPU, memory, NCCL */
} zpp_status;

typedef enum zpp_dtype { ZPP_FP32 = 0, ZPP_BF16 = 1, ZPP_FP16 = 2 } zpp_dtype;
typedef enum zpp_device { ZPP_HOST = 0, ZPP_CUDA = 1 } zpp_device;
typedef enum zpp_transport {
  ZPP_CALLBACKS = 0, /* bytes travel by zpp_callbacks.exchange */
  ZPP_NCCL = 1 /* bytes travel by NCCL, over communicators of the library's own (ZPP_CUDA only) */
} zpp_transport;

typedef struct zpp_comm zpp_comm;
typedef struct zpp_plan zpp_plan;

/* A message to or from another rank, never the caller's own. `data` is of the communicator's
 * device. */
typedef struct zpp_message {
  void* data; /* a send is read, a receive is written */
  size_t bytes;
  int peer; /* the other rank, in the communicator */
} zpp_message;

/* Functions that the caller lends to a communicator; each returns 0 for success. They are called by
 * the thread that called the library. */
typedef struct zpp_callbacks {
  void* context; /* first argument of each function */
  /* Gathers `part`, `bytes` bytes of every rank, into `parts`, size * bytes in rank order; host
   * memory, blocking. It is the control plane: a few bytes when communicators and plans are made,
   * never during a run. */
  int (*all_gather_bytes)(void* context, const void* part, void* parts, size_t bytes);
  /* Moves all messages as one operation; messages between two ranks match in order. With ZPP_CUDA
   * it enqueues them on `stream` and returns; with ZPP_HOST they have arrived when it returns. NULL
   * with ZPP_NCCL. */
  int (*exchange)(void* context, const zpp_message* sends, size_t send_count,
                  const zpp_message* receives, size_t receive_count, void* stream);
} zpp_callbacks;

typedef struct zpp_comm_options {
  size_t struct_size; /* sizeof(zpp_comm_options) of the caller */
  int rank;
  int size;
  int node_size; /* ranks of a node, which divides size; rank = node * node_size + local rank */
  zpp_device device;
  zpp_transport transport;
  int rail_lanes; /* NCCL communicators that carry what goes between nodes; 0: chosen by the library
                   */
  int copy_engines; /* NCCL inside nodes: 1 on, 0 off, -1 chosen by the library */
} zpp_comm_options;

/* Makes a communicator; collective. Copies both structures; `callbacks->context` has to outlive the
 * communicator. With ZPP_CUDA it takes the calling thread's current device. */
ZPP_API zpp_status zpp_comm_create(const zpp_comm_options* options, const zpp_callbacks* callbacks,
                                   zpp_comm** comm);
/* Destroys a communicator, after all its plans. NULL is allowed. */
ZPP_API void zpp_comm_destroy(zpp_comm* comm);

typedef struct zpp_error_feedback {
  double beta;         /* LoCo's decay of errors (arXiv 2407.04480), in [0, 1); 0: classical */
  size_t reset_period; /* runs of the plan after which errors are forgotten; 0: never */
  int store_int8;      /* errors are kept in int8, not in fp32 */
} zpp_error_feedback;

typedef struct zpp_plan_options {
  size_t struct_size; /* sizeof(zpp_plan_options) of the caller */
  size_t count;    /* all-gather and reduce-scatter: elements of one rank's part; all-reduce: of the
                      whole */
  zpp_dtype input; /* of the memory that is read */
  zpp_dtype output; /* of the memory that is written */
  const char*
      codec; /* all-gather; the first or only hop of a reduction. "none" sends `input` as it is */
  /* The hop between nodes of a 2-hop reduction; NULL: as `codec`. */
  const char* codec_between_nodes;
  /* all-gather: "auto", "direct", "two-level"; reduce-scatter: "auto", "1-hop", "2-hop";
   * all-reduce: those of its reduce-scatter. Any other algorithm that `zpp_info` lists is taken as
   * well. NULL: "auto". */
  const char* algorithm;
  double scale;  /* reductions: sums are multiplied by it, in fp32; 1 / size gives means */
  uint64_t seed; /* for codecs that round stochastically, the same on all ranks */
  const zpp_error_feedback* error_feedback; /* reductions with a codec; NULL: none */
} zpp_plan_options;

/* Three functions that make a plan; collective. Codecs are written as for the programs
 * ("int8:256", "int4:128+had32"). */
ZPP_API zpp_status zpp_plan_all_gather(zpp_comm* comm, const zpp_plan_options* options,
                                       zpp_plan** plan);
ZPP_API zpp_status zpp_plan_reduce_scatter(zpp_comm* comm, const zpp_plan_options* options,
                                           zpp_plan** plan);
ZPP_API zpp_status zpp_plan_all_reduce(zpp_comm* comm, const zpp_plan_options* options,
                                       zpp_plan** plan);
ZPP_API void zpp_plan_destroy(zpp_plan* plan);

/* Runs a plan of the kind that it was made as; collective. Sums are accumulated in fp32; an element
 * that is not finite on one rank is not finite in the result.
 *
 * An all-gather reads count elements of `in` and writes size * count of `out`; `in` may be the own
 * part of `out`. All ranks get the same bits, the own part included, which goes through the codec
 * too.
 *
 * A reduce-scatter reads size * count elements of `in`, which is not changed, and writes count of
 * `out`: part `rank` of the sum, times `scale`.
 *
 * An all-reduce reads count elements of `in` and writes count of `out`, which may be the same
 * memory. All ranks get the same bits. */
ZPP_API zpp_status zpp_run(zpp_plan* plan, const void* in, void* out, void* stream);

/* Forgets the errors that a plan keeps, on `stream`. Values that are not finite are never kept:
 * where one was encoded, the error from before it stays. Nothing without feedback. */
ZPP_API zpp_status zpp_plan_forget_errors(zpp_plan* plan, void* stream);

/* Bytes that this rank sent to others, counted where they are sent, beside their closed form. */
typedef struct zpp_traffic {
  uint64_t runs;
  uint64_t sent_inside_nodes;
  uint64_t sent_between_nodes;
  uint64_t predicted_inside_nodes; /* runs times the closed form of one */
  uint64_t predicted_between_nodes;
  uint64_t workspace_bytes; /* that the plan holds */
  const char* algorithm;    /* that "auto" chose; lives as long as the plan */
} zpp_traffic;
ZPP_API zpp_status zpp_plan_traffic(const zpp_plan* plan, zpp_traffic* traffic);

/* All-gather of images whose length is known only when they are made: `bytes` of each rank, the
 * same number on all; collective. The own lie at parts + rank * bytes, those of the others come to
 * their places in the order of ranks, on `stream`. Adds what this rank sends to others to
 * `sent_inside_nodes` and `sent_between_nodes`. */
ZPP_API zpp_status zpp_all_gather_bytes(zpp_comm* comm, void* parts, size_t bytes, void* stream,
                                        uint64_t* sent_inside_nodes, uint64_t* sent_between_nodes);

/* A codec by itself, for replicas that are kept encoded. An image has zpp_image_bytes() bytes and
 * begins at a multiple of 16; decoding gives `count` elements of `dtype`. `device` as above. */
ZPP_API zpp_status zpp_image_bytes(const char* codec, zpp_dtype dtype, size_t count, size_t* bytes);
ZPP_API zpp_status zpp_encode(const char* codec, zpp_dtype dtype, zpp_device device,
                              const void* values, size_t count, void* image, void* stream);
ZPP_API zpp_status zpp_decode(const char* codec, zpp_dtype dtype, zpp_device device,
                              const void* image, size_t count, void* values, void* stream);

/* Exact differences: values of 16 bits by how their bit patterns differ from a copy's, in few bits
 * and without loss (kernels/codec/exact.hpp). zpp_exact_count() counts what escapes at each width,
 * in memory of the device; ranks whose images travel together take the largest counts of all of
 * them, and zpp_exact_shape() says what the image is made for. All arrays but values and copies
 * begin at a multiple of 16. `dtype`: ZPP_BF16 or ZPP_FP16. */
typedef struct zpp_exact_shape {
  int width; /* bits of a code; 0: nothing differs, and there is no image; 16: whole values */
  uint64_t escapes; /* values that do not fit a code, that the image has room for */
  size_t bytes;     /* of the image */
} zpp_exact_shape;
#define ZPP_EXACT_WIDTHS 8
ZPP_API zpp_status zpp_exact_count_bytes(size_t count, size_t* bytes);
/* Writes `counts`, zpp_exact_count_bytes() of them, and `escapes`, ZPP_EXACT_WIDTHS uint64_t: [w -
 * 1] are the values that escape in codes of w bits. */
ZPP_API zpp_status zpp_exact_count(zpp_dtype dtype, zpp_device device, const void* values,
                                   const void* copy, size_t count, void* counts, void* escapes,
                                   void* stream);
/* `escapes` in host memory. */
ZPP_API zpp_status zpp_exact_shape_of(size_t count, const uint64_t* escapes,
                                      zpp_exact_shape* shape);
/* `counts`: those of these values and this copy; they are scratch afterwards. */
ZPP_API zpp_status zpp_exact_encode(zpp_dtype dtype, zpp_device device, const void* values,
                                    const void* copy, size_t count, void* counts,
                                    const zpp_exact_shape* shape, void* image, void* stream);
/* Brings `images` copies of `count` values each, one after the other, to the values of `images`
 * images, one after the other. */
ZPP_API zpp_status zpp_exact_decode(zpp_dtype dtype, zpp_device device, const void* image,
                                    size_t images, size_t count, const zpp_exact_shape* shape,
                                    void* copies, void* stream);

/* Lists of names separated by spaces: "codecs", "all_gather", "reduce_scatter"; "devices": those
 * that this build serves. NULL for another word. */
ZPP_API const char* zpp_names(const char* kind);
ZPP_API int zpp_abi_version(void);
ZPP_API const char* zpp_version(void); /* version of the library, "0.1.0" */
/* Line on the last call of this thread that failed; never NULL, valid until the next one fails. */
ZPP_API const char* zpp_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* ZEROPP_C_ZEROPP_H_ */
/* NOLINTEND(modernize-use-using,readability-identifier-naming) */
