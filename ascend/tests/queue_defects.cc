// SPDX-License-Identifier: Apache-2.0
#include "defects.h"

namespace ascend_tests {
namespace {

using InQueue = TQue<TPosition::VECIN, 2>;

void NoFree(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  HERE b.pipe.InitBuffer(queue, 2, 256);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  queue.EnQue(t);
  t = queue.DeQue<float>();
  if (!is_broken) queue.FreeTensor(t);
}
void NoDequeue(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  HERE b.pipe.InitBuffer(queue, 2, 256);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  queue.EnQue(t);
  if (!is_broken) queue.FreeTensor(queue.DeQue<float>());
}
void NoEnqueue(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  b.pipe.InitBuffer(queue, 1, 256);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  if (!is_broken) queue.EnQue(t);
  HERE t = queue.DeQue<float>();
  queue.FreeTensor(t);
}
void EnqueueOfAnother(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  b.pipe.InitBuffer(queue, 1, 256);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  auto other = b.At(0, 64);
  if (is_broken) {
    HERE queue.EnQue(other);
  }
  queue.EnQue(t);
  queue.FreeTensor(queue.DeQue<float>());
}
void MoreThanThereAre(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  b.pipe.InitBuffer(queue, 2, 256);
  for (int i = 0; i < 3; ++i) {
    HERE auto t = queue.AllocTensor<float>();
    DataCopy(t, b.x, 64);
    queue.EnQue(t);
    t = queue.DeQue<float>();
    if (!is_broken) queue.FreeTensor(t);
  }
}
void FreeTwice(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  b.pipe.InitBuffer(queue, 2, 256);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  queue.EnQue(t);
  t = queue.DeQue<float>();
  queue.FreeTensor(t);
  if (is_broken) {
    HERE queue.FreeTensor(t);
  }
}
void EnqueueTwice(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  b.pipe.InitBuffer(queue, 2, 256);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  queue.EnQue(t);
  if (is_broken) {
    HERE queue.EnQue(t);
  }
  queue.FreeTensor(queue.DeQue<float>());
}
void NoInitBuffer(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  if (!is_broken) b.pipe.InitBuffer(queue, 2, 256);
  HERE auto t = queue.AllocTensor<float>();
  if (!is_broken) queue.FreeTensor(t);
}
// A queue between vector instructions does not order copies.
void QueueOfTheWrongPosition(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  TQue<TPosition::VECCALC, 1> wrong;
  InQueue right;
  b.pipe.InitBuffer(wrong, 1, 256);
  b.pipe.InitBuffer(right, 1, 256);
  auto t = is_broken ? wrong.AllocTensor<float>() : right.AllocTensor<float>();
  THERE DataCopy(t, b.x, 64);
  if (is_broken)
    wrong.EnQue(t);
  else
    right.EnQue(t);
  t = is_broken ? wrong.DeQue<float>() : right.DeQue<float>();
  HERE Adds(t, t, 1.0f, 64);
  if (is_broken)
    wrong.FreeTensor(t);
  else
    right.FreeTensor(t);
}
void UseAfterFree(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  InQueue queue;
  b.pipe.InitBuffer(queue, 1, 256);
  auto u = b.At(0, 64);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  queue.EnQue(t);
  t = queue.DeQue<float>();
  if (is_broken) queue.FreeTensor(t);
  THERE Adds(u, t, 1.0f, 64);
  if (!is_broken) queue.FreeTensor(t);
  t = queue.AllocTensor<float>();
  HERE DataCopy(t, b.x[64], 64);
  queue.FreeTensor(t);
}

void SetTwice(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  THERE SetFlag<HardEvent::MTE2_V>(3);
  if (!is_broken) WaitFlag<HardEvent::MTE2_V>(3);
  HERE SetFlag<HardEvent::MTE2_V>(3);
  WaitFlag<HardEvent::MTE2_V>(3);
  if (is_broken) WaitFlag<HardEvent::MTE2_V>(3);
}
void WaitWithoutSet(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (!is_broken) SetFlag<HardEvent::V_S>(0);
  HERE WaitFlag<HardEvent::V_S>(0);
}
void FlagIsLeft(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  HERE SetFlag<HardEvent::MTE3_MTE2>(1);
  if (!is_broken) WaitFlag<HardEvent::MTE3_MTE2>(1);
}
void EventIdTooLarge(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  const int id = is_broken ? 8 : 7;
  HERE SetFlag<HardEvent::MTE2_V>(id), WaitFlag<HardEvent::MTE2_V>(id);
}
void BarrierOfScalars(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  if (is_broken) {
    HERE PipeBarrier<PIPE_S>();
  }
  PipeBarrier<PIPE_V>();
}
// AllocTensor gives out the same buffer again, without what was in it.
void ReadsAnEarlierBuffer(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  TQue<TPosition::VECIN, 1> queue;
  b.pipe.InitBuffer(queue, 1, 256);
  for (int i = 0; i < 2; ++i) {
    auto t = queue.AllocTensor<float>();
    if (i == 0 || !is_broken) DataCopy(t, b.x, 64);
    queue.EnQue(t);
    t = queue.DeQue<float>();
    Order<HardEvent::MTE2_S>();
    HERE t.GetValue(0);
    queue.FreeTensor(t);
    Order<HardEvent::S_MTE2>();
  }
}

// A buffer is filled, computed in place and copied out: each half of the way has positions.
void ComputesInPlace(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> queue;
  b.pipe.InitBuffer(queue, 2, 256);
  for (int round = 0; round < 4; ++round) {
    auto t = queue.AllocTensor<float>();
    DataCopy(t, b.x[round * 64], 64);
    queue.EnQue<TPosition::GM, TPosition::VECIN>(t);
    t = queue.DeQue<TPosition::GM, TPosition::VECIN, float>();
    THERE Adds(t, t, 1.0f, 64);
    if (!is_broken) {
      queue.EnQue<TPosition::VECOUT, TPosition::GM>(t);
      t = queue.DeQue<TPosition::VECOUT, TPosition::GM, float>();
    }
    HERE DataCopy(b.y[round * 64], t, 64);
    queue.FreeTensor(t);
  }
}
void ComputesInPlaceWithoutPositions(GM_ADDR x, GM_ADDR y, bool is_broken) {
  Bench b(x, y);
  TQueBind<TPosition::VECIN, TPosition::VECOUT, 1> queue;
  b.pipe.InitBuffer(queue, 1, 256);
  auto t = queue.AllocTensor<float>();
  DataCopy(t, b.x, 64);
  queue.EnQue(t);
  t = queue.DeQue<float>();
  HERE if (is_broken) queue.EnQue(t);
  if (is_broken) t = queue.DeQue<float>();
  DataCopy(b.y, t, 64);
  queue.FreeTensor(t);
}

}  // namespace

std::vector<Defect> QueueDefects() {
  return {
      {"ComputesInPlace", ComputesInPlace, "race", 1, false, true},
      {"ComputesInPlaceWithoutPositions", ComputesInPlaceWithoutPositions, "queue"},
      {"NoFree", NoFree, "queue-leak"},
      {"NoDequeue", NoDequeue, "queue-leak"},
      {"NoEnqueue", NoEnqueue, "queue-empty"},
      {"EnqueueOfAnother", EnqueueOfAnother, "queue"},
      {"MoreThanThereAre", MoreThanThereAre, "queue-alloc-blocks"},
      {"FreeTwice", FreeTwice, "queue-double-free"},
      {"EnqueueTwice", EnqueueTwice, "queue"},
      {"NoInitBuffer", NoInitBuffer, "queue"},
      {"QueueOfTheWrongPosition", QueueOfTheWrongPosition, "race", 1, false, true},
      {"UseAfterFree", UseAfterFree, "race", 1, false, true},
      {"SetTwice", SetTwice, "flag-set-twice", 1, false, true},
      {"WaitWithoutSet", WaitWithoutSet, "wait-without-set"},
      {"FlagIsLeft", FlagIsLeft, "flag-leak"},
      {"EventIdTooLarge", EventIdTooLarge, "event-id"},
      {"BarrierOfScalars", BarrierOfScalars, "barrier-S"},
      {"ReadsAnEarlierBuffer", ReadsAnEarlierBuffer, "undefined-read"},
  };
}

}  // namespace ascend_tests
