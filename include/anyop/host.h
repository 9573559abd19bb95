/* SPDX-License-Identifier: Apache-2.0 */
/* Bound calls from C: what the plugin of a compiler or of another framework needs of anyop, from a
 * file in any language, built for any C++ ABI. It needs no other header of anyop.
 *
 * A bound call is an operator with everything fixed but its tensors. Its text is its identity: a
 * compiler keeps it as a string of a node, and any process finds the call by it:
 *
 *   anyop.call/1 anyop.rms_norm(x = f32, weight = None, eps = 1e-06, weight_offset = 0.0) -> y
 *
 * A call is found once and then used by any number of threads, for as long as the process lives.
 * Functions that return an int return ANYOP_OK or the code of an error (abi.h), whose text
 * anyop_error_text gives; those that return a count or a text return -1 or NULL instead. No pointer
 * may be NULL but where it says so: one that is makes an error. Structs begin with their size,
 * which the caller sets: fields are appended, never changed, and only those that both sides know
 * are filled. */
#pragma once
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic" /* a union without a name, in C before C11 */
#endif
#include "anyop/abi.h"
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

#define ANYOP_HOST_VERSION 2
#define ANYOP_HOST_MAX_RANK 8

#ifdef __cplusplus
extern "C" {
#endif

typedef struct anyop_call anyop_call; /* opaque */

/* ANYOP_HOST_VERSION of the library that is loaded: at least what the caller was compiled with. */
ANYOP_EXPORT uint32_t anyop_host_version(void);
/* Of the last function that returned an error on this thread; valid until the next one does. */
ANYOP_EXPORT const char* anyop_error_text(void);

/* Loads a library of operators (a shared object). */
ANYOP_EXPORT int anyop_load_library(const char* path);

/* The call of this text of `bytes` bytes, which may be any that means it. About 20 ns where the
 * text was seen before. ANYOP_INVALID_ARGUMENT: the text is wrong; ANYOP_NOT_AVAILABLE: there is no
 * such operator, or the text is of a newer version. */
ANYOP_EXPORT int anyop_find_call(const char* text, uint64_t bytes, const anyop_call** call);
/* The canonical text, NUL-terminated: equal for equal calls. NULL: `call` is. */
ANYOP_EXPORT const char* anyop_call_text(const anyop_call* call);

/* ---- What goes in and what comes out, in this order. */
typedef struct {
  uint32_t size;
  int32_t is_written; /* 1: the call writes into this tensor */
  const char* name;   /* "x", "caches[1]" */
  DLDataType dtype;   /* of the tensors that may be given */
} anyop_input;

typedef struct {
  uint32_t size;
  uint32_t n_over; /* inputs whose memory the result may be, where both are contiguous and of one
                      shape */
  const int32_t* over;
  const char* name;
  DLDataType dtype; /* bits 0: not known before the ranks of the inputs are */
} anyop_result;

ANYOP_EXPORT int32_t anyop_input_count(const anyop_call* call);
ANYOP_EXPORT int32_t anyop_result_count(const anyop_call* call); /* of those that are wanted */
ANYOP_EXPORT int anyop_describe_input(const anyop_call* call, int32_t index, anyop_input* input);
ANYOP_EXPORT int anyop_describe_result(const anyop_call* call, int32_t index, anyop_result* result);

/* ---- Inference. In a tensor, a size of -1 is unknown, a rank (ndim) of -1 too, and dtype.bits 0
 * takes the dtype that the call was bound with. Data, device and strides are not looked at. */
typedef struct {
  int32_t rank; /* -1: unknown */
  DLDataType dtype;
  int64_t shape[ANYOP_HOST_MAX_RANK]; /* -1: unknown */
} anyop_shape;

ANYOP_EXPORT int anyop_infer_call(const anyop_call* call, const DLTensor* inputs, int32_t n_inputs,
                                  anyop_shape* results, int32_t n_results);

/* ---- The call. Checks everything first: where it returns an error of the call's own arguments,
 * nothing is written. Results are memory of the caller, of the shapes that anyop_infer_call says.
 * Any thread may call; it runs in the scope that the text says, whatever that of the thread. */
ANYOP_EXPORT int anyop_run_call(const anyop_call* call, const DLTensor* inputs, int32_t n_inputs,
                                const DLTensor* results, int32_t n_results);

/* The same on a stream of the device that the tensors lie on, a native handle of it; NULL: the
 * device's own. It returns when the work is on the stream, not when it is over: what goes wrong
 * later is the error of a later call on that stream. Tensors of the host run as above. Since
 * ANYOP_HOST_VERSION 2. */
ANYOP_EXPORT int anyop_run_call_on(const anyop_call* call, void* stream, const DLTensor* inputs,
                                   int32_t n_inputs, const DLTensor* results, int32_t n_results);

/* ---- The gradient, a bound call of its own. */
enum {
  ANYOP_SOURCE_RESULT_GRADIENT = 0, /* the gradient of a result of `forward`, or zeros */
  ANYOP_SOURCE_INPUT = 1,           /* an input of the call */
  ANYOP_SOURCE_RESULT = 2           /* a result of `forward` */
};

typedef struct {
  int32_t kind;
  int32_t index;
} anyop_source;

typedef struct {
  uint32_t size;
  uint32_t n_sources;          /* inputs of `gradient` */
  uint32_t n_targets;          /* results of `gradient` */
  const anyop_call* forward;   /* the call to make in place of this one: with every result that the
                                  sources name, even one that this one declines */
  const anyop_call* gradient;  /* declines the gradients that are not wanted */
  const anyop_source* sources; /* where each input of `gradient` comes from */
  const int32_t* targets;      /* which input of the call each result is the gradient of */
} anyop_gradient;

/* wanted: per input of the call, 1 where its gradient is wanted. given: per result, 1 where there
 * is a gradient of it; NULL: of all. ANYOP_UNSUPPORTED: there is no such gradient. What is filled
 * in lives as long as the process. */
ANYOP_EXPORT int anyop_gradient_of_call(const anyop_call* call, const uint8_t* wanted,
                                        int32_t n_wanted, const uint8_t* given, int32_t n_given,
                                        anyop_gradient* gradient);

#ifdef __cplusplus
}
#endif
