// SPDX-License-Identifier: Apache-2.0
// What public kernels write, in the forms that they write it in: this file compiles as they do.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "on_core.h"
#include "stubs/register/tilingdata_base.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(ScaleTiling)
TILING_DATA_FIELD_DEF(uint32_t, length)
TILING_DATA_FIELD_DEF(float, factor)
TILING_DATA_FIELD_DEF_ARR(uint32_t, 2, tiles)
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(Scale, ScaleTiling)
}  // namespace optiling

using namespace AscendC;

namespace {
constexpr int32_t BUFFER_NUM = 2;

template <typename T>
class KernelScale {
 public:
  __aicore__ inline KernelScale() = default;
  __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, const ScaleTiling* tiling, TPipe* pipe) {
    ASSERT(GetBlockNum() != 0 && "block dim can not be zero!");
    length = tiling->length;
    xGm.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x) + block_idx * length, length);
    yGm.SetGlobalBuffer((__gm__ T*)y + GetBlockIdx() * length, length);
    pipe->InitBuffer(inQueue, BUFFER_NUM, length * sizeof(T));
    pipe->InitBuffer(outQueue, BUFFER_NUM, length * sizeof(T));
    pipe->InitBuffer(workBuf, length * sizeof(float));
    factor = tiling->factor;
  }
  __aicore__ inline void Process() {
    CopyIn();
    Compute();
    CopyOut();
  }

 private:
  __aicore__ inline void CopyIn() {
    LocalTensor<T> local = inQueue.template AllocTensor<T>();
    DataCopyExtParams params{1, static_cast<uint32_t>(length * sizeof(T)), 0, 0, 0};
    DataCopyPadExtParams<T> pad{true, 0, 0, 0};
    DataCopyPad(local, xGm, params, pad);
    inQueue.EnQue(local);
  }
  __aicore__ inline void Compute() {
    LocalTensor<T> in = inQueue.template DeQue<T>();
    LocalTensor<T> out = outQueue.template AllocTensor<T>();
    LocalTensor<float> work = workBuf.Get<float>();
    Cast(work, in, RoundMode::CAST_NONE, length);
    PipeBarrier<PIPE_V>();
    Muls(work, work, factor, length);
    pipe_barrier(PIPE_V);
    event_t event = static_cast<event_t>(GetTPipePtr()->FetchEventID(HardEvent::V_S));
    set_flag(PIPE_V, PIPE_S, event);
    wait_flag(PIPE_V, PIPE_S, event);
    work.SetValue(0, work.GetValue(0) + max(0, 1.5f));
    work(1) = work(2);
    Cast(out, work, RoundMode::CAST_RINT, min(length, 4096));
    outQueue.template EnQue<T>(out);
    inQueue.FreeTensor(in);
  }
  __aicore__ inline void CopyOut() {
    auto out = outQueue.template DeQue<T>();
    DataCopyPad(yGm[0], out, {1, static_cast<uint16_t>(length * sizeof(T)), 0, 0});
    outQueue.FreeTensor(out);
  }

  TQue<QuePosition::VECIN, BUFFER_NUM> inQueue;
  TQue<QuePosition::VECOUT, BUFFER_NUM> outQueue;
  TBuf<TPosition::VECCALC> workBuf;
  GlobalTensor<T> xGm, yGm;
  uint32_t length = 0;
  float factor = 0;
};

#define SCALE_KERNEL(TYPE)                                                             \
  extern "C" __global__ __aicore__ void scale_##TYPE(GM_ADDR x, GM_ADDR y, GM_ADDR ws, \
                                                     GM_ADDR tiling) {                 \
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);                                    \
    GET_TILING_DATA(data, tiling);                                                     \
    GM_ADDR user = GetUserWorkspace(ws);                                               \
    (void)user;                                                                        \
    if ASCEND_IS_AIV {                                                                 \
      TPipe pipe;                                                                      \
      KernelScale<TYPE> op;                                                            \
      if (TILING_KEY_IS(0)) op.Init(x, y, &data, &pipe);                               \
      op.Process();                                                                    \
    }                                                                                  \
  }
SCALE_KERNEL(half)
SCALE_KERNEL(bfloat16_t)

// As a rewritten kernel<<<blocks, nullptr, stream>>>(...) reads.
void scale_do(uint32_t blocks, void* stream, GM_ADDR x, GM_ADDR y, GM_ADDR ws, GM_ADDR tiling) {
  anyop_ascend_start("scale_half", &scale_half, blocks, nullptr, stream)(x, y, ws, tiling);
}
}  // namespace

ANYOP_ASCEND_KERNELS(scale_half, scale_bfloat16_t)

namespace {

TEST(Dialect, RunsKernelsAsTheyAreWritten) {
  anyop_ascend_clear();
  ascend_tests::Global<half> x("x", std::vector<half>(2 * 50, half(3.0f)));
  ascend_tests::Global<half> y("y", 2 * 50, ANYOP_ASCEND_WRITE | ANYOP_ASCEND_WHOLE);
  optiling::ScaleTiling tiling;
  tiling.set_length(50);
  tiling.set_factor(2.0f);
  ascend_tests::Global<std::uint8_t> bytes("tiling", tiling.GetDataSize(), ANYOP_ASCEND_READ);
  tiling.SaveToBuffer(bytes.data(), tiling.GetDataSize());
  scale_do(2, nullptr, x.address(), y.address(), nullptr, bytes.address());
  EXPECT_EQ(ascend_tests::Findings().dump(), "[]");
  for (int i = 0; i < 100; ++i) EXPECT_EQ(y[i], half(i % 50 ? 6.0f : 7.5f)) << i;
}
TEST(Dialect, ExportsATableThatEnds) {
  EXPECT_STREQ(anyop_ascend_kernels[0].name, "scale_half");
  EXPECT_STREQ(anyop_ascend_kernels[1].name, "scale_bfloat16_t");
  EXPECT_STREQ(anyop_ascend_kernels[1].parameters, "pppp");
  EXPECT_EQ(anyop_ascend_kernels[2].name, nullptr);
}

#ifdef ANYOP_COMPILER
// What the compiler says to a kernel with this body.
std::string Compiled(const std::string& head, const std::string& body) {
  const std::string text = "#include \"kernel_operator.h\"\n" + head +
                           "using namespace AscendC;\n"
                           "extern \"C\" __global__ __aicore__ void k(GM_ADDR x) {" +
                           body + "}\n";
  const std::string command = std::string("printf '%s' '") + text + "' | " + ANYOP_COMPILER +
                              " -std=gnu++17 -w -fsyntax-only -I" + ANYOP_ASCEND_INCLUDE + " -I" +
                              ANYOP_ASCEND_INCLUDE "/stubs -x c++ - 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string said;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) said += static_cast<char>(c);
  ::pclose(pipe);
  return said;
}
TEST(Cube, UnitsAreRefusedWithASentence) {
  const std::string sentence =
      "the cube units (Mmad, Matmul, LoadData, Fixpipe) are not modelled here: only kernels of "
      "vector units can be checked and run";
  const std::string tensors = "LocalTensor<half> a, b; LocalTensor<float> c; ";
  EXPECT_EQ(Compiled("", tensors), "");
  EXPECT_NE(Compiled("", tensors + "Mmad(c, a, b, 16);").find(sentence), std::string::npos);
  EXPECT_NE(Compiled("", "MmadParams p; p.m = 16;").find(sentence), std::string::npos);
  const std::string head = "#include \"lib/matmul_intf.h\"\nusing namespace matmul;\n";
  EXPECT_EQ(Compiled(head, tensors), "");
  const std::string product =
      "Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half>> m; m.IterateAll(x);";
  EXPECT_NE(Compiled(head, product).find(sentence), std::string::npos);
}
#endif

}  // namespace
