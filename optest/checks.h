// SPDX-License-Identifier: Apache-2.0
// The checks of an operator, made from its signature. They report to failures.h, so that the
// program of `anyop test` needs no library of tests.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "optest/array.h"
#include "optest/call.h"
#include "optest/tolerance.h"

namespace anyop::optest {

struct Range {
  double low, high;
};

// What a test says of its operator.
struct OpTest {
  std::string_view op;  // "rms_norm", or "my_ops.scale"
  Tolerance tolerance = Exact();
  // The bits of a row alone (of its result, all leading dimensions taken as one) are those of the
  // row inside a batch.
  bool row_invariant = false;
  // A variable that counts rows instead of "...": "t" for query: T[t, hq, d]. Every tensor that
  // begins with it is cut.
  std::string_view row_variable = "";
  // The bits do not depend on the number of threads: every operator's rule.
  bool thread_invariant = true;
  // Calls to make beside the generated ones, by variables of the signature, `rows` (the product of
  // the leading dimensions "...") and parameters of integers and of lists of them:
  // "rows = 16, d = 576", "h = 9, stride = [2, 1]".
  std::vector<std::string_view> sizes = {};
  // Values that floats (tensors and numbers) are drawn from; [-2, 2] otherwise.
  std::map<std::string_view, Range> ranges = {};
  // The values that a number parameter takes in turn, when the signature's default is not enough.
  std::map<std::string_view, std::vector<double>> values = {};
  // Tensors that are not filled with extreme values too, and why: one more series of calls gives
  // all tensors of floats NaN, infinities, -0, subnormals, the largest numbers, and rows of large
  // and of tiny magnitude. {"*", reason}: none is.
  std::map<std::string_view, std::string_view> not_extreme = {};
  // Repairs what no signature can say (block tables, lengths), before references and kernels run.
  std::function<void(Call&)> prepare = {};
  // In tensors of i32 and i64 every negative number means what -1 does: some of these become other
  // ones. False where each means something of its own.
  bool negatives_are_alike = true;
  // The same for CheckGradient alone: puts aside what makes a gradient differ from the derivative
  // on purpose (a padding row).
  std::function<void(Call&)> prepare_gradient = {};
  // A condition of the signature language that calls without any kernel obey: "T == f16". The
  // signature promises that every other combination of dtypes and words runs.
  std::string_view unsupported = "";
  // A looser look at a result than element by element (ids as sets up to near ties): returns what
  // is wrong, or "". Called instead of the comparison for the results that it names.
  std::map<std::string_view,
           std::function<std::string(const Call&, const Array& actual, const Array& exact)>>
      judges = {};
};

// The thread sanitizer sees no race between the parts of any kernel's regions: where
// HasThreadSanitizer() of races.h, for a library that is built for it. Nothing is compared.
void CheckRaces(const OpTest& test);
// Everything below, in this order.
void CheckAll(const OpTest& test);

// Every kernel that this machine can run, on every generated call, against the reference in double
// (or the composition of .means where there is none): values within the tolerance, every element of
// every result written, nothing else. Memory is contiguous, gapped, transposed, packed, misaligned,
// expanded (stride 0) or, where the signature says `over`, shared; results may be declined.
void CheckValues(const OpTest& test);
// The same with extreme values in all tensors of floats but those of `not_extreme`. Where finite
// arguments make f32 overflow on the way to a result that it could hold, an infinity or NaN is
// right as well; a number must always be within the tolerance.
void CheckExtremeValues(const OpTest& test);
// A row alone has the bits that it has in a batch.
void CheckRowInvariance(const OpTest& test);
// 2, 3, 4 and 7 threads, parts run in another order, and one part run in the middle of another give
// the bits of one thread. Regions are cut however small they are.
void CheckThreadInvariance(const OpTest& test);
// The call as dispatched by the runtime gives what one of the kernels gives.
void CheckDispatch(const OpTest& test);
// Something takes a call of every combination of dtypes that the signature allows, but for those
// that `unsupported` names.
void CheckPromises(const OpTest& test);
// Wrong ranks, sizes, dtypes and numbers, made from right calls, are refused with InvalidArgument
// in the documented form, and nothing is written.
void CheckWrongCalls(const OpTest& test);
// The reference of the operator's .gradient gives what central differences of the operator's own
// reference give, along random directions, all in f64: for every form, whatever is absent, and for
// every result declined. The gradient takes every call with floats that its operator takes.
void CheckGradient(const OpTest& test);

// On each device that a loaded library has: every kernel that the device runs, on a few generated
// calls in memory of many kinds. Kernels of the host give the bits that they give on the host, the
// device's own are within the tolerance; a wrong index is refused in the words of the host. Of an
// operator that only devices run, one of its kernels must take each call.
void CheckDevices(const OpTest& test);
// Whether a device of a library that is loaded runs a kernel of the operator, or its composition.
bool RunsOnSomeDevice(const Operator& op);
// Whether a call of host memory runs: others have kernels of devices alone, for CheckDevices.
bool RunsOnHost(const Operator& op);
// Whether the test says that nothing takes such calls.
bool IsUnsupported(const OpTest& test, const Call& call);

// What ran and what did not, over the whole program; PrintTally prints it.
struct Tally {
  int calls = 0;                               // kernel runs compared
  int left_out = 0;                            // calls that take long, without --exhaustive
  std::int64_t elements = 0;                   // result elements compared
  int directions = 0;                          // along which gradients were compared
  std::map<std::string, int> ran;              // kernel -> calls
  std::map<std::string, std::string> skipped;  // kernel -> why
};
const Tally& ReadTally();
void PrintTally();

}  // namespace anyop::optest
