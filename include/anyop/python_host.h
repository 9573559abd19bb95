/* SPDX-License-Identifier: Apache-2.0 */
/* How anyop's Python module gets to know the tensors of one more framework.
 *
 * A host is a shared object that fills one anyop_python_host and hands it to
 * `anyop.hosting.register(capsule)` in a capsule called ANYOP_PYTHON_HOST. From then on every
 * operator takes the framework's tensors: `anyop.rms_norm(x, weight)`. Nothing of anyop is linked,
 * and nothing of the framework is known to anyop.
 *
 * Every function is called with Python's lock held. One that fails returns what its comment says,
 * with a Python exception set. Fields are appended, never changed: `size` says which are there. */
#pragma once
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#include "anyop/host.h"

#define ANYOP_PYTHON_HOST "anyop.python_host" /* the name of the capsule */

#ifdef __cplusplus
extern "C" {
#endif

/* What a host says of one tensor. The arrays are there for frameworks that keep sizes otherwise;
 * tensor.shape and tensor.strides may point to them, or into the framework's own object, which
 * stays alive during the call. */
typedef struct {
  DLTensor tensor; /* on the CPU, or see `stream`; strides in elements, or NULL for contiguous */
  int64_t shape[ANYOP_HOST_MAX_RANK];
  int64_t strides[ANYOP_HOST_MAX_RANK];
  const char* reason; /* static text, where `view` returns 1: "a gradient is needed" */
} anyop_host_view;

typedef struct {
  size_t size;            /* sizeof(anyop_python_host) */
  const char* module;     /* the framework's Python module: "torch" */
  const char* noun;       /* of a tensor, in messages: "torch tensor" */
  const char* from_numpy; /* what makes one of an array called *: "torch.from_numpy(*)"; "": none */
  const char* to_numpy;   /* the opposite: "*.numpy()" */

  /* Whether an object is one of the framework's tensors: 1 or 0. Fails never. */
  int (*is_tensor)(PyObject* object);
  /* Fills `view` (zero on entry). is_written: the call will write the memory. 0; -1 for an error,
   * whose text goes on after "rms_norm: x " ("lies on another device, but must be on the CPU.");
   * 1 where the framework itself must see this call (a gradient is needed, a trace): it is then
   * given to `elsewhere` of anyop.hosting.register. */
  int (*view)(PyObject* tensor, int is_written, anyop_host_view* view);
  /* A fresh tensor for a result, a new reference, and its view. NULL for an error. */
  PyObject* (*allocate)(DLDataType dtype, int rank, const int64_t* shape, anyop_host_view* view);

  /* The rest may be NULL. */

  /* After a call: the tensor was written. */
  void (*written)(PyObject* tensor);
  /* A tensor over the memory of `t`, which is not copied; release(owner) once nothing uses it.
   * NULL for an error. Without it, operators that are functions of Python get NumPy arrays. */
  PyObject* (*lend)(const DLTensor* t, int is_written, void* owner, void (*release)(void* owner));
  /* The framework's object for a dtype ("f32" stands in), a new reference; NULL for an error. */
  PyObject* (*dtype_object)(DLDataType dtype);
  /* Whether an object stands for a dtype, and for which: 1 or 0. Fails never. */
  int (*to_dtype)(PyObject* object, DLDataType* dtype);
  /* The most threads that the framework's own setting allows now; 0: no bound. */
  int (*threads)(void);
  /* Why the framework must see every call ("it compiles all calls"): each is then given to
   * `elsewhere`, and `view` is asked only for the dtype and the shape of what is described. */
  const char* sees_calls;
  /* What a caller is told who gives a tensor where a number belongs ("Try a number of Python"),
   * without its full stop. */
  const char* number_advice;
  /* Tensors of devices, if both are there: a view's tensor.device may then be one that a loaded
   * library has (anyop/device.h). Without them it is refused. A call returns before its work is
   * done; what goes wrong later is the error of a later call on the stream. */
  /* The stream that the framework's own work of this thread goes to now, a native handle of the
   * device; NULL: the device's own. Asked once a call. The call's work is put there. */
  void* (*stream)(DLDevice device);
  /* As `allocate`, on the device, for work that is put on that stream later. */
  PyObject* (*allocate_on)(DLDevice device, DLDataType dtype, int rank, const int64_t* shape,
                           anyop_host_view* view);
} anyop_python_host;

#ifdef __cplusplus
}
#endif
