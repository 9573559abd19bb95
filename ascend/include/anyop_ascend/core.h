// SPDX-License-Identifier: Apache-2.0
// What the dialect's headers ask of the runtime. One source of kernels has two builds: with checks
// (ANYOP_ASCEND_CHECKED=1) every instruction tells the runtime what it touches; without them only
// launches, waits for other blocks and memory that runs out reach it.
#pragma once
#include <cstddef>
#include <cstdint>

#ifndef ANYOP_ASCEND_CHECKED
#define ANYOP_ASCEND_CHECKED 1
#endif
// 1: a host function that launches is called by a program that wants exceptions and streams.
#ifndef ANYOP_ASCEND_PACKAGE
#define ANYOP_ASCEND_PACKAGE 0
#endif
// Both builds can be part of one program, so their templates must not share names. Neither may
// files of one library where some wait for other blocks (sync.h), so a build can name them.
#ifndef ANYOP_ASCEND_FILE
#define ANYOP_ASCEND_FILE
#endif
#define ANYOP_ASCEND_PASTED(a, b) a##b
#define ANYOP_ASCEND_PASTE(a, b) ANYOP_ASCEND_PASTED(a, b)
#if ANYOP_ASCEND_CHECKED
#define ANYOP_ASCEND_BUILD ANYOP_ASCEND_PASTE(anyop_ascend_checked_, ANYOP_ASCEND_FILE)
#else
#define ANYOP_ASCEND_BUILD ANYOP_ASCEND_PASTE(anyop_ascend_fast_, ANYOP_ASCEND_FILE)
#endif
#define ANYOP_ASCEND_API __attribute__((visibility("default")))
// The last parameter of every function of the dialect: the line of the kernel that calls it.
#define ANYOP_ASCEND_SITE \
  ::anyop_ascend::Site site = ::anyop_ascend::Site(__builtin_FILE(), __builtin_LINE())

namespace anyop_ascend {

enum Pipe : std::uint8_t { kS, kV, kM, kMTE1, kMTE2, kMTE3, kFIX, kPipes, kAll };
enum Access : std::uint8_t { kRead, kWrite, kAtomic };

// A place in a kernel's source.
struct Site {
  const char* file;
  int line;
  constexpr Site() : file(""), line(0) {}  // no place
  constexpr Site(const char* f, int l) : file(f), line(l) {}
};

// For each pipe, the index of the last instruction that is known to be complete.
struct Clock {
  std::uint32_t of[kPipes];
};

// Local memories. Each begins at a multiple of kMemorySpan in the address space of a block, so that
// an offset from the block's memory names a memory and a byte.
enum Memory : std::uint8_t { kUb, kL1, kL0A, kL0B, kL0C, kBias, kCo2, kShared, kStaged, kMemories };
constexpr std::uint32_t kMemorySpan = 1 << 20;
constexpr std::uint32_t kLocalBytes = kMemories * kMemorySpan;

// A vector core as kernels see it while one block runs on it.
struct Block {
  std::uint32_t index = 0;
  std::uint32_t count = 1;
  unsigned char* memory = nullptr;            // [kLocalBytes]
  std::uint64_t mask[2] = {~0ull, ~0ull};     // of vector instructions, kept from one to the next
  bool counts = false;                        // counter mode: mask[0] is a number of elements
  std::uint8_t atomic = 0;                    // 0 none, 1 add, 2 max, 3 min
  float deq_scale = 1;                        // of casts from int32 to half
  void* pipe = nullptr;                       // the TPipe alive
  std::uint32_t allocated[kMemories] = {};    // bytes given out by TPipe
  bool is_ending = false;                     // its stack is being unwound
  const std::uint64_t* tiling_key = nullptr;  // of its launch; null: that of the options
};

// The block that runs on this thread. The model saves a call for each access from another library.
extern ANYOP_ASCEND_API __thread Block* block __attribute__((tls_model("initial-exec")));

// Part of a local memory: a tensor without its type.
struct Span {
  unsigned char* at;
  std::uint32_t rest;    // bytes up to the end of its buffer
  bool is_allocated;     // a buffer stands behind it
  std::uint8_t element;  // bytes
};

// An instruction that was issued: what its accesses are recorded with.
struct Instruction {
  Pipe pipe;
  std::uint32_t place;  // of its Site
  std::uint32_t index;  // on its pipe
};

// An operand of a vector instruction. Element i of repeat r lies at
// at + r * repeat_stride * 32 + (i / (32 / element)) * block_stride * 32 + i % (32 / element) *
// element.
struct Operand {
  Span span;
  std::uint32_t block_stride;
  std::uint32_t repeat_stride;
};
struct Repeats {
  std::uint64_t mask[2];  // of the elements of a repeat
  std::int32_t repeats;
  std::int32_t lanes;       // elements of a repeat
  std::int64_t total;       // counter mode: elements in all; else -1
  bool is_dense;            // one run of `total` elements
  bool is_bitwise = false;  // bits of the result depend on the same bits of the sources
};

// --- Checks. Each reports what is wrong and says whether the instruction can go on.
ANYOP_ASCEND_API void Report(const char* kind, Site at, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
ANYOP_ASCEND_API Instruction Issue(Pipe pipe, Site at);
// The first operand is the result. Touches all, and marks the result's elements defined where those
// of all sources are.
ANYOP_ASCEND_API bool CheckVector(const Repeats& shape, const Operand* operands, int count,
                                  Site at);
// A group of lanes leaves a result of some bytes; the results of a repeat lie side by side.
struct Groups {
  int lanes;
  std::uint32_t result_bytes;
  std::uint32_t repeat_bytes;  // from the results of a repeat to those of the next
  bool are_bits = false;       // a result is a byte with a bit for each lane
};
ANYOP_ASCEND_API bool CheckReduce(const Repeats& shape, const Operand* sources, int count,
                                  const Span& result, const Groups& groups, Site at);
// Elements at byte offsets: `many` is a row of elements, `one` what the offsets are in.
ANYOP_ASCEND_API bool CheckOffsets(bool is_gather, const Span& many, const Span& one,
                                   const Span& offsets, std::uint32_t base, std::uint32_t count,
                                   Site at);
// Bounds, and alignment to so many bytes.
ANYOP_ASCEND_API bool CheckSpan(const Span& span, std::int64_t offset, std::uint64_t bytes,
                                std::uint32_t alignment, Site at);
ANYOP_ASCEND_API void Touch(const Instruction& by, Access access, const void* at,
                            std::uint64_t bytes);
ANYOP_ASCEND_API bool AreDefined(const void* at, std::uint64_t bytes);
// Of masks: whether the first bits of the bytes are known, though others may not be.
ANYOP_ASCEND_API bool AreBitsDefined(const void* at, std::uint64_t first, std::uint64_t bits);
ANYOP_ASCEND_API void Define(const void* at, std::uint64_t bytes, bool defined);
// Marks bytes defined if those they are made of are, and keeps where undefined ones came from.
ANYOP_ASCEND_API void DefineFrom(const Instruction& by, const void* to, std::uint64_t bytes,
                                 const void* from, std::uint64_t from_bytes);
ANYOP_ASCEND_API void UndefinedRead(const char* what, const void* at, Site site);
ANYOP_ASCEND_API void CheckTimes(std::int64_t repeats, Site at);          // of 1 to 255
ANYOP_ASCEND_API void CheckMask(std::uint64_t mask, int lanes, Site at);  // 0, or too large
ANYOP_ASCEND_API void CheckRows(std::uint32_t rows, Site at);             // of a copy
// A finding if the SoC lacks the instruction, a note where the documentation is not clear: bits of
// kLacks.
enum Lacks : std::uint32_t {
  kNoScatter = 1,
  kNoProposals = 2,
  kNoBfloat16 = 4,
  kNoCopyPad = 8,
  kNoSortPairs = 16,
  kNoCrossCore = 32,
  kNoMrgSort = 64,
};
ANYOP_ASCEND_API void CheckSoc(Lacks what, const char* name, Site at);
// Of the SoC that is configured.
ANYOP_ASCEND_API std::uint32_t LocalBytes(Memory memory);
ANYOP_ASCEND_API std::uint32_t NumberOfCores(bool of_vectors);
ANYOP_ASCEND_API const char* SocName();

// The mode of atomic copies is on from here until SetAtomicNone.
ANYOP_ASCEND_API void AtomicFrom(Site at);

// --- Scalar accesses.
ANYOP_ASCEND_API bool ScalarRead(const Span& span, std::int64_t offset, Site at);
ANYOP_ASCEND_API bool ScalarWrite(const Span& span, std::int64_t offset, Site at);
ANYOP_ASCEND_API bool ScalarReadGlobal(const void* data, std::uint32_t bytes, Site at);
ANYOP_ASCEND_API bool ScalarWriteGlobal(const void* data, std::uint32_t bytes, Site at);
ANYOP_ASCEND_API void CleanCache(const void* data, bool whole_cache, Site at);

// --- Copies of a row within one instruction, data included. `store` adds to memory (atomic
// copies).
using Store = void (*)(void* to, const void* from, std::uint64_t bytes);
ANYOP_ASCEND_API void CopyIn(const Instruction& by, const Span& to, std::int64_t offset,
                             const void* from, std::uint64_t bytes, Site at);
ANYOP_ASCEND_API void CopyOut(const Instruction& by, void* to, const Span& from,
                              std::int64_t offset, std::uint64_t bytes, Store store, Site at);
ANYOP_ASCEND_API void CopyLocal(const Instruction& by, const Span& to, std::int64_t to_offset,
                                const Span& from, std::int64_t from_offset, std::uint64_t bytes,
                                Site at);
// The rest of a row that DataCopyPad writes: anything, or this many bytes of padding.
ANYOP_ASCEND_API bool PadRow(const Instruction& by, const Span& to, std::int64_t offset,
                             std::uint64_t bytes, Site at);

// --- Order between pipes.
ANYOP_ASCEND_API void SetFlag(Pipe from, Pipe to, int id, Site at);
ANYOP_ASCEND_API void WaitFlag(Pipe from, Pipe to, int id, Site at);
ANYOP_ASCEND_API void Barrier(Pipe pipe, Site at);
ANYOP_ASCEND_API void Snapshot(Pipe pipe, Clock* clock);  // all that the pipe has issued and knows
ANYOP_ASCEND_API void Join(Pipe pipe, const Clock& clock);

// --- Order between blocks, in both builds. They suspend the block.
ANYOP_ASCEND_API void SyncAll(Site at);
ANYOP_ASCEND_API void IbSet(int of_block, int event, Site at);
ANYOP_ASCEND_API void IbWait(int for_block, int event, Site at);
ANYOP_ASCEND_API void CrossSet(int mode, Pipe pipe, int id, Site at);
ANYOP_ASCEND_API void CrossWait(int id, Site at);

// --- Memory and launches, in both builds.
// Offset of `bytes` in a memory; ends the block where there are not so many.
ANYOP_ASCEND_API std::uint32_t Allocate(Memory memory, std::uint64_t bytes, bool poison, Site at);
ANYOP_ASCEND_API void Poison(void* at, std::uint64_t bytes);  // and undefined from now on
// How many of the bytes of a tiling struct lie at `data`. Another size than that of the argument
// there is a finding.
ANYOP_ASCEND_API std::uint64_t CheckTiling(const char* type, const void* data, std::uint64_t bytes,
                                           Site at);
// Ends the block where no list of tensors lies at `data`. Another length or number of tensors than
// is said there is a finding; ~0: it is not said.
ANYOP_ASCEND_API void CheckTensorList(const void* data, std::uint32_t length, std::uint32_t tensors,
                                      Site at);
[[noreturn]] ANYOP_ASCEND_API void End(const char* kind, const char* text, Site at);  // the block
ANYOP_ASCEND_API bool IsEnding();  // its stack is being unwound: no more findings
ANYOP_ASCEND_API std::uint64_t TilingKey();

// --- What kernels print, in both builds. Each line begins with the block.
ANYOP_ASCEND_API void Print(const char* format, ...);
struct Dump {
  const void* data;
  std::uint64_t elements;
  char letter;  // of their type, as kernel_table.h has it
  std::uint32_t note;
  bool is_local;
};
ANYOP_ASCEND_API void PrintDump(const Dump& dump, Site at);

struct LaunchOf {
  const char* name;
  std::uint32_t blocks;
  bool is_checked;
  bool waits;  // some kernel of the file waits for other blocks or adds to memory atomically
  void (*body)(void*);  // of a block
  void* argument;
  const std::uint64_t* tiling_key = nullptr;
};
ANYOP_ASCEND_API void Launch(const LaunchOf& launch);

// kernel<<<blocks, l2, stream>>>(...) in the host code of a package, as bytes that are copied.
struct HostLaunch {
  const char* name;
  void* stream;
  int (*run)(void* packed, char* message, std::uint64_t message_bytes);  // 0, or why not
  void* packed;
  std::uint64_t bytes;
  const std::uint32_t* addresses;  // where in the bytes an address of global memory stands
  std::uint32_t n_addresses;
};
// At once without a stream; else the launch is put on it. Throws std::runtime_error where it cannot
// be put there, and where a kernel that ran at once was ended or is in error.
ANYOP_ASCEND_API void LaunchFromHost(const HostLaunch& launch);
// Runs a launch, and returns 0, or 1 with the reason in `message`.
ANYOP_ASCEND_API int RunFromHost(const LaunchOf& launch, char* message,
                                 std::uint64_t message_bytes);

}  // namespace anyop_ascend
