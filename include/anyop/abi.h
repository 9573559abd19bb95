/* SPDX-License-Identifier: Apache-2.0 */
/* The boundary between operator libraries, the runtime and hosts.
 *
 * C only. Every struct begins with its own size in bytes; fields are appended, never changed, so a
 * reader takes a field only if `size` reaches it, and steps through arrays of structs by the size
 * that the first element states. Strings are NUL-terminated UTF-8 and live as long as the library.
 * No exceptions and no ownership cross this line. Authors never see it: they include anyop/op.h. */
#pragma once
#include <stdint.h>

#define ANYOP_ABI_VERSION 1

#define ANYOP_EXPORT __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tensors: the layout of DLPack 1.x (checked against a framework's header in a test). */
typedef struct {
  int32_t device_type; /* 1: CPU */
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code; /* as in ANYOP_DTYPE_LIST */
  uint8_t bits;
  uint16_t lanes; /* 1; of pairs 2 */
} DLDataType;

typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;     /* in elements; NULL: contiguous, row-major */
  uint64_t byte_offset; /* added to data */
} DLTensor;

/* ---- Values: what an argument is. 16 bytes. */
enum {
  ANYOP_NONE = 0, /* an absent optional argument, or a result that the caller declines */
  ANYOP_BOOL = 1,
  ANYOP_INT = 2,
  ANYOP_FLOAT = 3,
  ANYOP_WORD = 4, /* a string from a fixed set: text in s, length in count, number in index */
  ANYOP_DTYPE = 5,
  ANYOP_TENSOR = 6,
  ANYOP_TENSORS = 7,
  ANYOP_INTS = 8,
  ANYOP_FLOATS = 9
};

typedef struct {
  uint16_t tag;
  uint16_t index; /* ANYOP_WORD: the word's number among all forms of the operator; else 0 */
  uint32_t count; /* elements of a list, bytes of a word; else 0 */
  union {
    int64_t i; /* bool, int, dtype (the order of ANYOP_DTYPES) */
    double f;
    const char* s;
    const DLTensor* t;
    const DLTensor* const* ts;
    const int64_t* is;
    const double* fs;
  };
} anyop_value;

/* The one list of dtypes. Rows are appended, never moved: a row's place is the dtype's number.
 * X(ANYOP_ name, DType::k name, name, name in NumPy and in the frameworks, kind, DLPack's code,
 * bits and lanes, name in safetensors; that format has no C128 and no F4_E2M1X2). */
#define ANYOP_DTYPE_LIST(X)                                                                  \
  X(F64, F64, "f64", "float64", Float, 2, 64, 1, "F64")                                      \
  X(F32, F32, "f32", "float32", Float, 2, 32, 1, "F32")                                      \
  X(F16, F16, "f16", "float16", Float, 2, 16, 1, "F16")                                      \
  X(BF16, BF16, "bf16", "bfloat16", Float, 4, 16, 1, "BF16")                                 \
  X(F8E4M3, F8E4M3, "f8e4m3", "float8_e4m3fn", Float, 10, 8, 1, "F8_E4M3")                   \
  X(F8E5M2, F8E5M2, "f8e5m2", "float8_e5m2", Float, 12, 8, 1, "F8_E5M2")                     \
  X(I64, I64, "i64", "int64", Int, 0, 64, 1, "I64")                                          \
  X(I32, I32, "i32", "int32", Int, 0, 32, 1, "I32")                                          \
  X(I16, I16, "i16", "int16", Int, 0, 16, 1, "I16")                                          \
  X(I8, I8, "i8", "int8", Int, 0, 8, 1, "I8")                                                \
  X(U8, U8, "u8", "uint8", Uint, 1, 8, 1, "U8")                                              \
  X(BOOL8, Bool, "bool", "bool", Bool, 6, 8, 1, "BOOL")                                      \
  X(U16, U16, "u16", "uint16", Uint, 1, 16, 1, "U16")                                        \
  X(U32, U32, "u32", "uint32", Uint, 1, 32, 1, "U32")                                        \
  X(U64, U64, "u64", "uint64", Uint, 1, 64, 1, "U64")                                        \
  X(C64, C64, "c64", "complex64", Complex, 5, 64, 1, "C64")                                  \
  X(C128, C128, "c128", "complex128", Complex, 5, 128, 1, "C128")                            \
  X(F8E8M0, F8E8M0, "f8e8m0", "float8_e8m0fnu", Float, 14, 8, 1, "F8_E8M0")                  \
  X(F8E4M3FNUZ, F8E4M3FNUZ, "f8e4m3fnuz", "float8_e4m3fnuz", Float, 11, 8, 1, "F8_E4M3FNUZ") \
  X(F8E5M2FNUZ, F8E5M2FNUZ, "f8e5m2fnuz", "float8_e5m2fnuz", Float, 13, 8, 1, "F8_E5M2FNUZ") \
  X(F4E2M1X2, F4E2M1X2, "f4e2m1x2", "float4_e2m1fn_x2", Pair, 17, 4, 2, "F4_E2M1X2")

enum {
#define ANYOP_DTYPE_NUMBER(number, ...) ANYOP_##number,
  ANYOP_DTYPE_LIST(ANYOP_DTYPE_NUMBER)
#undef ANYOP_DTYPE_NUMBER
      ANYOP_DTYPES
};

/* ---- Errors: a code, and a text set through the host table. */
enum {
  ANYOP_OK = 0,
  ANYOP_INVALID_ARGUMENT = 1, /* the call is wrong */
  ANYOP_UNSUPPORTED = 2,      /* the call is right, no kernel takes it */
  ANYOP_NOT_AVAILABLE = 3,    /* a file, library, version or compiler is missing */
  ANYOP_OUT_OF_MEMORY = 4,
  ANYOP_INTERNAL = 5 /* a defect of anyop or of an operator */
};

typedef struct anyop_context anyop_context;

/* ---- Services that the runtime gives to operators. */
typedef struct {
  uint32_t size;
  uint32_t abi_version;
  /* Runs fn(arg, begin, end) over a partition of [0, n); `grain` is the least number of items worth
   * 2 us. Returns when all is done. Nested calls run inline. */
  void (*parallel_for)(const anyop_context*, int64_t n, int64_t grain,
                       void (*fn)(void* arg, int64_t begin, int64_t end), void* arg);
  /* Sets the text of the error that the caller will see; returns code. */
  int (*set_error)(const anyop_context*, int code, const char* text);
  /* level: 0 debug, 1 info, 2 warning */
  void (*log)(int level, const char* text);
} anyop_host;

enum {
  ANYOP_FLAG_BATCH_INVARIANT = 1,
  ANYOP_FLAG_CUT_ALL = 2 /* for tests: regions are cut into parts even where that does not pay */
};

struct anyop_context {
  uint32_t size;
  uint32_t flags;
  const anyop_host* host;
  void* stream;    /* NULL on CPU */
  void* workspace; /* 64-byte aligned, workspace_bytes long, uninitialized */
  uint64_t workspace_bytes;
  int32_t threads;   /* the most threads that parallel_for uses for this call */
  int32_t cache_kib; /* of the last-level cache, in KiB; 0 where unknown */
  void* runtime;     /* the runtime's own */
  const void* data;  /* the kernel's own: anyop_kernel.data */
};

/* A frame: the parameters in signature order, then the results. */
typedef int (*anyop_run)(const anyop_context*, const anyop_value* frame);
/* NULL if the kernel takes the call, else the reason why not. */
typedef const char* (*anyop_accepts)(const anyop_value* frame);

/* ---- What a library is made of: constant data. */
typedef struct {
  uint32_t size;
  uint32_t reserved;
  const char* name;      /* <device>[_<isa>][_<variant>][_<dtype>] */
  const char* when;      /* conditions, separated by commas; "" takes every call */
  const char* needs;     /* CPU features, separated by commas */
  const char* workspace; /* bytes, an expression; "" for none */
  anyop_run run;
  const char* params; /* one letter per parameter and result; see Bind in op.h */
  anyop_accepts accepts;
  const char* probe; /* sizes to measure this kernel at: "d = 1024, rows = 8"; "" for never */
  const void* data;  /* handed to `run` in its context: one function for many kernels */
} anyop_kernel;

typedef struct {
  uint32_t size;
  uint32_t reserved;
  const char* signature; /* one form, or several, each beginning at the start of a line */
  const char* gradient;  /* another operator of the library, or "" */
  const char* flops;     /* expressions; "" for 0 and for inputs + outputs */
  const char* bytes;
  const char* means;    /* compositions, one a line */
  const char* prepack;  /* a composition whose statements over constants run once */
  const char* commutes; /* "x, y" */
  uint64_t n_kernels;
  const anyop_kernel* const* kernels; /* best first; NULL: not built for this machine */
  anyop_run
      check; /* refuses what no signature can say, before anything is written; NULL for none */
  const char* check_params;
  int32_t checked; /* 1: the compiler has compared the kernels with the signature */
  /* 1: row r of a result whose type begins with "..." depends, bit for bit and however many rows
   * the call has, only on row r of arguments whose type begins with "...", and on all of the other
   * arguments. Graphs cut calls of such operators by rows. */
  int32_t rowwise;
  /* Called after `check`, in check mode alone: refuses data that harm no memory and make results
   * meaningless. */
  anyop_run check_data;
  const char* check_data_params;
} anyop_op;

/* A plain implementation in double, for tests: floats are read and written as f64. */
typedef struct {
  uint32_t size;
  uint32_t reserved;
  const char* op;
  anyop_run run;
  const char* params;
} anyop_reference;

typedef struct {
  uint64_t n;
  const anyop_kernel* const* first; /* may hold nulls: kernels that this build leaves out */
} anyop_kernel_list;

typedef struct {
  uint32_t size;
  uint32_t abi_version;
  const char* name;    /* the namespace: "anyop", "my_ops" */
  const char* version; /* of the library */
  uint32_t n_ops;
  uint32_t n_references;
  const anyop_op* const* ops;
  const char* const* docs;  /* per operator: its opening comment, or "" */
  const char* const* files; /* per operator: the source, relative to the library's folder */
  const char* const*
      kernel_lists; /* per operator: the C++ names of its kernels, separated by commas */
  const anyop_reference* const* references;
  const anyop_kernel_list* kernels; /* per operator: its kernels, where it lists none itself */
} anyop_library_info;

/* The one symbol that an operator library exports, under the name "anyop_library". */
typedef const anyop_library_info* (*anyop_library_fn)(void);

#ifdef __cplusplus
}
static_assert(sizeof(void*) != 8 || (sizeof(anyop_value) == 16 && sizeof(DLTensor) == 48));
#endif
