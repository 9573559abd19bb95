// SPDX-License-Identifier: Apache-2.0
// Operators of two phases. aclnnXGetWorkspaceSize checks the arguments and plans the call;
// aclnnX puts the plan on a stream and returns. Which operators there are, and what computes each,
// is data (the files *.txt beside this one); nothing here knows one.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "objects.h"

namespace npu {

enum class Kind : unsigned char {
  kTensor,   // read
  kRef,      // read and written, in its place
  kOut,      // written
  kLateOut,  // written; the caller asks for its sizes when the work is over
  kTensors,
  kRefs,
  kOuts,
  kScalar,
  kScalars,
  kInts,
  kFloats,
  kBools,
  kInt,
  kBool,
  kFloat,
  kText,
  kDtype,
};

struct Parameter {
  Kind kind;
  bool is_optional;   // null says that it is absent
  bool must_be_real;  // of float32, float16 or bfloat16
  const char* name;
};

struct Operator {
  const char* name;
  std::span<const Parameter> parameters;
  // The body of a function in TorchScript, over the parameters that are not outputs. It returns the
  // outputs in order. Of an output that may be absent it gets has_NAME.
  const char* script;
};

extern const std::span<const Operator> kOperators;
extern const char kShared[];  // functions that scripts call

// One argument as the caller passes it.
struct Given {
  Given(const void* value) : pointer(value) {}
  Given(std::int64_t value) : integer(value) {}
  Given(std::int32_t value) : integer(value) {}
  Given(std::int8_t value) : integer(value) {}
  Given(bool value) : integer(value) {}
  Given(double value) : number(value) {}
  Given(float value) : number(double(value)) {}

  const void* pointer = nullptr;
  std::int64_t integer = 0;
  double number = 0;
};

// A copy of an argument: the caller may destroy its own when the first phase is over.
struct Value {
  bool is_given = false;
  std::vector<const aclTensor*> tensors;  // the executor's own; of one tensor or of a list
  std::vector<aclScalar> scalars;
  std::vector<std::int64_t> ints;
  std::vector<double> floats;
  std::string text;
};

// What a call is, once its arguments are known to be what they are said to be.
struct Call {
  const Operator& op;
  std::vector<Value> values;            // one for each parameter
  std::vector<aclTensor*> told;         // the caller's own, for kLateOut; else null
  std::span<aclTensor* const> tensors;  // all of them, in the order of their addresses
};

// A checked call, which runs on a thread of the device.
class Planned {
 public:
  virtual ~Planned() = default;
  // addresses: one for each tensor, of the first element of its storage, null where it is null.
  virtual int Run(void* const* addresses, char* message, std::uint64_t message_bytes) = 0;
};

// What computes: null, and why, where the arguments are wrong. Others may set it.
using Engine = std::shared_ptr<Planned> (*)(const Call& call, std::string* why);

int Plan(const Operator& op, std::span<const Given> given, std::uint64_t* workspace_bytes,
         aclOpExecutor** executor);
int Launch(const Operator& op, aclOpExecutor* executor, void* stream);
// For a name that no file has.
int Missing(const char* name);
int LaunchMissing(const char* name, void* stream);

}  // namespace npu

extern "C" void anyop_npu_set_engine(npu::Engine engine);
// All of them; shared: the functions that scripts call.
extern "C" std::span<const npu::Operator> anyop_npu_operators(const char** shared);
