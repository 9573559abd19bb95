/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a library of a device: memory that is not the host's, and work that ends after
 * the call which began it has returned.
 *
 * C only, by the rules of abi.h: structs begin with their size, fields are appended, strings are
 * NUL-terminated UTF-8 and live as long as the library, no exception crosses. Functions that return
 * an int return ANYOP_OK or a code of abi.h; error_text() then says why, in a sentence without the
 * device's name, which the runtime puts in front. Any thread may call any of them.
 *
 * A stream is the native handle of the device (a CUstream, for example), so that a framework that
 * owns streams hands its own to every function: a library takes streams that it has not made. Which
 * stream is current is state of a host's thread, and no business of the device. */
#pragma once
#include "anyop/abi.h"

#define ANYOP_DEVICE_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef void* anyop_stream;
typedef void* anyop_event;

enum { ANYOP_AT_HOST = -1 }; /* a place of `copy`: the host's memory, and no number of a device */

typedef struct {
  uint32_t size;
  int32_t cores;
  uint64_t total_bytes, free_bytes;
  const char* name;     /* "NVIDIA H200" */
  const char* features; /* words for a kernel's `.needs`, separated by commas */
} anyop_device_properties;

typedef struct {
  uint32_t size;
  int32_t device; /* its number */
  const void* begin;
  uint64_t bytes;
} anyop_allocation;

/* Work for a device that runs the host's code: the block of `launch`, copied. May be 8-byte aligned
 * only. 0, or a code, with the text of the late error (NUL-terminated) in `message`.
 * Every task that `submit` took is called exactly once, since it gives back what the block holds.
 * One that the device does not run is called with NULL and 0 for its message: it then does nothing
 * else, and returns 0. */
typedef int (*anyop_task)(void* block, char* message, uint64_t message_bytes);

typedef struct {
  uint32_t size;
  uint32_t n_addresses;
  const char* name; /* of operator and kernel; outlives the work */
  anyop_task task;
  const void* block; /* copied before `submit` returns */
  uint64_t block_bytes;
  const uint32_t* addresses; /* where in the block an address of the device stands (NULL, or
                                within its memory), in bytes from the beginning, multiples of 8: a
                                device whose threads see its memory elsewhere puts what they see in
                                its place */
} anyop_launch;

/* A check of a tensor of indices. */
typedef struct {
  uint32_t size;
  int32_t is_offsets; /* 0: every entry < limit. 1: the first is 0, they do not fall, the last
                         is at most limit */
  int64_t limit;
  const DLTensor* indices; /* integers, in the device's memory; read before `check_indices` returns,
                              but for its data */
  const char* name;        /* "embedding: ids": a late error begins so, then "[3] is 9" */
  const char* must;        /* ", but must be less than 4 (n).": and ends so. Both live for ever */
} anyop_index_check;

typedef struct {
  uint32_t size;
  uint32_t version;      /* ANYOP_DEVICE_VERSION */
  const char* word;      /* what its kernels' names begin with: "cuda"; letters a-z and digits */
  int32_t dlpack_type;   /* of its tensors: 2 CUDA, 12 an extension; of no memory of the host */
  int32_t host_can_read; /* 1: the host may read and write its memory once the work on it is over;
                            nothing reads it yet */
  const char* runs;      /* further words of kernels that it runs, separated by commas: "cpu" by
                            `submit`; "" */
  const char* (*error_text)(void); /* of this thread's last function that failed */

  int32_t (*count)(void); /* 0 or more; error_text() says why there are none */
  int (*properties)(int32_t device, anyop_device_properties* to);

  /* In the order of the stream: what `allocate` gives is for work that is put on `stream` later;
   * `release` takes it back once the work that is on `stream` now is over. 64-byte aligned. `bytes`
   * may be 0. The stream of `release` may be a framework's that is destroyed. */
  int (*allocate)(int32_t device, anyop_stream stream, uint64_t bytes, void** memory);
  int (*release)(int32_t device, anyop_stream stream, void* memory);
  /* In the order of the stream. Places are numbers of devices or ANYOP_AT_HOST. The host's memory
   * stays as it is until the work is over. */
  int (*copy)(anyop_stream stream, int32_t to_place, void* to, int32_t from_place, const void* from,
              uint64_t bytes);
  int (*fill)(anyop_stream stream, void* to, uint64_t count, const void* item, uint64_t item_bytes);

  anyop_stream (*default_stream)(int32_t device);
  int (*create_stream)(int32_t device, anyop_stream* stream);
  int (*destroy_stream)(anyop_stream stream); /* the work on it still ends; its late error stays
                                                 with the device */

  /* One that was never recorded is complete. It may be destroyed while work waits for it.
   * Errors go along: a stream that waits for an event which was recorded behind a late error has
   * that error itself from then on; synchronize_event takes it from the event and its stream, and
   * returns its code. A library whose users' events pass it by (CUDA's, of torch) need not. */
  int (*create_event)(int32_t device, anyop_event* event);
  int (*destroy_event)(anyop_event event);
  int (*record_event)(anyop_event event, anyop_stream stream);
  int (*wait_event)(anyop_event event, anyop_stream stream); /* work put on `stream` later waits */
  int (*query_event)(anyop_event event, int32_t* is_complete);
  int (*synchronize_event)(anyop_event event);
  int (*elapsed)(anyop_event from, anyop_event to, double* milliseconds);
  /* NULL: all streams of the device. */
  int (*synchronize)(int32_t device, anyop_stream stream);

  /* The oldest late error of the stream (all_streams: of any, destroyed ones too), which is taken
   * away: ANYOP_OK if there is none, else its code and text. Work that was put on a stream before
   * its error was taken need not have run: its tasks are dropped (anyop_task). Never waits. Where
   * it fails itself (the stream was destroyed), nothing is written to `message`. */
  int (*late_error)(int32_t device, anyop_stream stream, int32_t all_streams, char* message,
                    uint64_t message_bytes);

  /* ---- What may be NULL. */

  /* Makes the device the one that the calling thread's native functions mean, before a kernel that
   * launches itself is called. Where there is `submit` too, kernels of the host go to it, and the
   * device's own are called. */
  int (*activate)(int32_t device);
  /* Runs the host's code in the order of the stream. The kernel's ctx->stream is NULL there. */
  int (*submit)(anyop_stream stream, const anyop_launch* launch);
  /* Looks at indices in the order of the stream; what is wrong is a late error. Asked for kernels
   * that say `stops` and for compositions, where there is `failed` too: for others the runtime
   * copies indices to the host. Tasks of `submit` look at theirs themselves. */
  int (*check_indices)(anyop_stream stream, const anyop_index_check* check);
  /* A word in the device's memory that is not 0 from a failed check_indices on this stream until
   * its error is taken: kernels that say `stops` read it. */
  const uint32_t* (*failed)(anyop_stream stream);
  /* The elements of `from`, in row-major order, to `to`, without gaps; and the other way. */
  int (*pack)(anyop_stream stream, const DLTensor* from, void* to);
  int (*unpack)(anyop_stream stream, const void* from, const DLTensor* to);

  /* 1: a policy that pins a kernel of the device is about calls on the host, too, where it pins
   * none of the host's: they run on device 0, on copies. For devices that are played by the host,
   * whose kernels are to be tried from programs that know no such device. */
  int32_t takes_host_calls;
  int32_t reserved;

  /* The allocation that an address of a device lies in: where the bounds of what a kernel may touch
   * are known from. ANYOP_INVALID_ARGUMENT: it lies in none. */
  int (*allocation)(const void* address, anyop_allocation* to);
} anyop_device;

/* A kernel for an operator that is registered already, or comes with the same library. It is put
 * in front of the operator's own kernels, in this order. A kernel of a device gets tensors and
 * workspace in the device's memory, starts its work on ctx->stream and returns; what it reads of
 * the frame it reads before that. */
typedef struct {
  uint32_t size;
  int32_t stops;  /* 1: it writes nothing where the word at anyop_device_run.failed is not 0 */
  const char* op; /* "anyop.rms_norm" */
  const anyop_kernel* kernel;
  const char** signature; /* where the runtime puts the operator's signature before the kernel's
                             first call; NULL: nobody asks for it */
} anyop_device_kernel;

/* What ctx->runtime of a kernel that is called for a device begins with. */
typedef struct {
  uint32_t size;
  int32_t device;
  const uint32_t* failed; /* see anyop_device_kernel.stops; NULL: there is nothing to look at */
} anyop_device_run;

typedef struct {
  uint32_t size;
  uint32_t version;           /* ANYOP_DEVICE_VERSION */
  const char* name;           /* of the library */
  const anyop_device* device; /* NULL: kernels for a device of another library */
  uint32_t n_kernels;
  uint32_t reserved;
  const anyop_device_kernel* const* kernels;
} anyop_device_info;

/* The symbol that a device library exports, under the name "anyop_device_library". It may export
 * "anyop_library" (abi.h) too. */
typedef const anyop_device_info* (*anyop_device_library_fn)(void);

#ifdef __cplusplus
}
#endif
