// SPDX-License-Identifier: Apache-2.0
// What a handler of XLA's foreign functions sees, in C: version 0.3 of that interface, declared
// here so that nothing of XLA is needed to build. python/tests/jax compares it with XLA's own
// header.
#pragma once
#include <cstddef>
#include <cstdint>

namespace anyop::python::xla {

constexpr int kMajorVersion = 0, kMinorVersion = 3;

struct Extension {
  std::size_t size;
  int type;  // kMetadata
  Extension* next;
};
enum { kMetadata = 1 };

struct Version {
  std::size_t size;
  Extension* extensions;
  int major_version, minor_version;
};
struct Metadata {
  std::size_t size;
  Version version;
  std::uint32_t traits;
  std::int64_t state_type;
};
// The extension of a call that asks for the handler's metadata, and for nothing else.
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

enum DataType : int {
  kBool = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3 = 20,  // FN: finite, as ours is
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kF8E8M0 = 33,
  kF4E2M1X2 = 0,  // one number of 4 bits, not a pair, is what XLA has
};

// Row-major, since no other layout is asked for.
struct Buffer {
  std::size_t size;
  Extension* extensions;
  DataType dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* shape;
};

struct Bytes {
  const char* data;
  std::size_t size;
};

struct Values {  // arguments, and results
  std::size_t size;
  Extension* extensions;
  std::int64_t n;
  const int* types;  // 1: a buffer
  void** values;
};
struct Attributes {
  std::size_t size;
  Extension* extensions;
  std::int64_t n;
  const int* types;  // kString
  Bytes** names;     // sorted
  void** values;
};
enum { kString = 4 };

struct Error;
enum ErrorCode : int {
  kInvalidArgument = 3,
  kNotFound = 5,
  kResourceExhausted = 8,
  kUnimplemented = 12,
  kInternal = 13,
};
struct ErrorArguments {
  std::size_t size;
  Extension* extensions;
  const char* message;
  ErrorCode code;
};

struct Api {
  std::size_t size;
  Extension* extensions;
  Version version;
  const void* internal;
  Error* (*make_error)(ErrorArguments*);
  // More functions follow, which are not called.
};

struct Frame {
  std::size_t size;
  Extension* extensions;
  const Api* api;
  void* context;
  int stage;
  Values inputs, results;
  Attributes attributes;
  // More may follow.
};

// Null where it succeeded.
using Handler = Error*(Frame*);

}  // namespace anyop::python::xla
