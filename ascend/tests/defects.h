// SPDX-License-Identifier: Apache-2.0
// Small kernels with one defect each, beside the right version of the same kernel.
#pragma once
#include <vector>

#include "kernel_operator.h"

namespace ascend_tests {

constexpr std::uint32_t kElements = 4096;  // of x (an input) and y (an output), float

struct Defect {
  const char* name;
  void (*kernel)(GM_ADDR x, GM_ADDR y, bool is_broken);
  const char* kind;
  std::uint32_t blocks = 1;
  bool is_strict = false;  // found in strict mode only
  bool has_there = false;  // the finding names a second place
  bool names_line = true;  // else no line is known
};
std::vector<Defect> RaceDefects();
std::vector<Defect> QueueDefects();
std::vector<Defect> AccessDefects();
std::vector<Defect> BlockDefects();
std::vector<Defect> UseDefects();

// Lines of the places that a finding has to name. A kernel says HERE or THERE on the line.
extern int here_line;
extern int there_line;
#define HERE ::ascend_tests::here_line = __LINE__;
#define THERE ::ascend_tests::there_line = __LINE__;

// Views of the arguments and one buffer of local memory.
struct Bench {
  AscendC::TPipe pipe;
  AscendC::TBuf<> buffer;
  AscendC::GlobalTensor<float> x;
  AscendC::GlobalTensor<float> y;

  Bench(GM_ADDR to_x, GM_ADDR to_y, std::uint32_t bytes = 16384) {
    x.SetGlobalBuffer(reinterpret_cast<float*>(to_x), kElements);
    y.SetGlobalBuffer(reinterpret_cast<float*>(to_y), kElements);
    pipe.InitBuffer(buffer, bytes);
  }
  // `elements` floats that begin at this element of the buffer.
  AscendC::LocalTensor<float> At(std::uint32_t element, std::uint32_t elements) {
    return buffer.GetWithOffset<float>(elements, element * 4);
  }
};

template <AscendC::HardEvent event>
inline void Order(int id = 0) {
  AscendC::SetFlag<event>(id);
  AscendC::WaitFlag<event>(id);
}

}  // namespace ascend_tests
