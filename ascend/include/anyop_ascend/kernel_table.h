// SPDX-License-Identifier: Apache-2.0
// What a compiled file of kernels exports, and what programs ask of the runtime that runs them.
// Plain C, so that Python calls it through ctypes and other languages without a header of ours.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// A kernel of a file. The table `anyop_ascend_kernels` of the file ends with one without a name.
typedef struct anyop_ascend_kernel {
  const char* name;
  // A letter for each parameter: p pointer; b bool; c C s S i I q Q signed and unsigned integers of
  // 1, 2, 4 and 8 bytes; h half, e bfloat16, f float, d double; t a struct, passed by value.
  const char* parameters;
  const uint32_t* bytes;  // of each parameter
  // Runs the kernel on this many blocks; arguments[i] points to the i-th parameter's value.
  void (*call)(uint32_t blocks, void* const* arguments);
  const uint32_t* structs;  // bytes of the struct that a pointer points to; 0: it is none
} anyop_ascend_kernel;

// Access of a kernel to an argument's memory. kWhole: every byte must have been written in the end.
enum { ANYOP_ASCEND_READ = 1, ANYOP_ASCEND_WRITE = 2, ANYOP_ASCEND_WHOLE = 4 };

typedef struct anyop_ascend_options {
  uint32_t bytes;       // of this struct
  uint32_t strict;      // 1: also what the vendor's compiler repairs by inserting orders itself
  const char* soc;      // "ascend910b" (the default where null), ...; see anyop_ascend_socs
  uint64_t max_steps;   // calls of instructions that a block may make; 0: 2^26
  uint64_t seed;        // 0: blocks run in order; else in an order drawn from it
  uint64_t tiling_key;  // of TILING_KEY_IS
} anyop_ascend_options;

// 0, or 1 with a text in anyop_ascend_error: a SoC that is not known (the text names those that
// are), a struct of another size.
int anyop_ascend_configure(const anyop_ascend_options* options);
const char* anyop_ascend_error(void);
// A JSON array of names.
const char* anyop_ascend_socs(void);
// Vector cores of the SoC that the environment variable ANYOP_ASCEND_SOC names, else of the
// default.
uint32_t anyop_ascend_vector_cores(void);

// Checks from within a process of many threads: what is declared and found from begin to end is one
// thread's, and others wait at begin. Checks are those of the default options, for the SoC of
// ANYOP_ASCEND_SOC.
void anyop_ascend_begin(void);
void anyop_ascend_end(void);
// The first finding of level error since begin, as text for a person, which lives until end; null
// if there is none.
const char* anyop_ascend_complaint(void);

// Memory of its own mapping, at a page that nobody may touch behind its last byte (rounded up to
// 32) and before its first page, filled with 0xFF. Null where there is none.
void* anyop_ascend_allocate(uint64_t bytes);
void anyop_ascend_release(void* data);
// What kernels may touch from now on. `name` is what findings call it: "x".
void anyop_ascend_declare(void* data, uint64_t bytes, const char* name, uint32_t access);
// What host functions of packages hand to kernels by its address, which a kernel with checks may
// touch until it is taken back, as often as it was lent; access as of anyop_ascend_declare.
void anyop_ascend_lend(const void* data, uint64_t bytes, const char* name, uint32_t access);
void anyop_ascend_take_back(const void* data);
// Forgets declared memory, what was written to it, and findings.
void anyop_ascend_clear(void);

// Runs a kernel. 0 if it came to its end; 1 if it was ended (a fault, a deadlock, too many steps),
// which is a finding then, or cannot run (text in anyop_ascend_error): 0 blocks or over 65,535.
int anyop_ascend_launch(const anyop_ascend_kernel* kernel, uint32_t blocks, void* const* arguments);

// A JSON array of what was found since anyop_ascend_clear, each with
//   kind ("race"), level ("error", "strict" or "note"), text (a sentence), insert (what to insert, or
//   ""), file, line, there_file, there_line (the other place of a race; "" and 0), block,
//   there_block (-1), count, and where a fault has one, code ("/path/kernel.so+0x1234": of the
//   instruction, for addr2line).
// The text lives until the next call.
const char* anyop_ascend_findings(void);

// The library of a device (include/anyop/device.h) whose streams launches of host functions go to:
// one for the process, the last that was named. 0, or 1 with a text in anyop_ascend_error.
int anyop_ascend_use_device(const char* library);
// Waits for a stream of that device. 0, or 1 with the text of what went wrong on it.
int anyop_ascend_synchronize(void* stream);

// --- Tiling functions. A library made of op_host files tells the runtime of its own when it is
// loaded. They are called in the process: one that crashes takes it along.
typedef struct anyop_ascend_tensor {
  // As ge::DataType: 0 f32, 1 f16, 2 i8, 3 i32, 4 u8, 6 i16, 7 u16, 8 u32, 9 i64, 10 u64, 11 f64,
  // 12 bool, 27 bf16. -1: an optional input that is not given.
  int32_t dtype;
  uint32_t rank;
  const int64_t* dims;  // [rank]
  const void* data;     // values of an input, for functions that read them; null: not known
  uint32_t more;        // tensors behind it that are of the same list; 0 where it is in none
} anyop_ascend_tensor;
typedef struct anyop_ascend_attribute {
  const char* name;         // null: the one after the last
  char kind;                // b bool, i integer, f float, s text, I integers, F floats
  int64_t integer;          // of b and i
  float number;             // of f
  const char* text;         // of s
  const int64_t* integers;  // of I
  const float* numbers;     // of F
  uint32_t count;           // of I and F
} anyop_ascend_attribute;
typedef struct anyop_ascend_tiling_call {
  uint32_t bytes;  // of this struct
  uint32_t inputs;
  uint32_t outputs;
  uint32_t attributes;
  const anyop_ascend_tensor* input;  // [inputs], in the order of the operator's definition
  const anyop_ascend_tensor* output;
  const anyop_ascend_attribute* attribute;
  void* data;         // where the tiling data go
  uint64_t capacity;  // bytes there
  // What the function gives.
  uint64_t data_bytes;
  uint64_t tiling_key;
  uint64_t workspace_bytes;  // the sum of GetWorkspaceSizes
  uint32_t block_dim;
  uint32_t status;  // ge::graphStatus; 0 is success
} anyop_ascend_tiling_call;

// Calls the tiling function of an operator ("AddCustom", or as kernels are named, "add_custom") for
// the SoC that is configured. 0, or 1 with a text in anyop_ascend_error: there is no such function
// (the text names those that are), it failed, an attribute is unknown or missing, no block dim was
// set, the data have no room.
int anyop_ascend_tiling(const char* op, anyop_ascend_tiling_call* call);
// A JSON object of the operators that have tiling functions. Each has inputs and outputs (names)
// and attributes (name, kind, optional), which are empty where only IMPL_OP_OPTILING names the
// function. The text lives until the next call.
const char* anyop_ascend_tilings(void);

#ifdef __cplusplus
}
#endif
