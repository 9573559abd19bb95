// SPDX-License-Identifier: Apache-2.0
// Queues with checks: EnQue keeps what the producer has done for DeQue, FreeTensor what the
// consumer has done for AllocTensor.
#include "anyop_ascend/queue.h"

#include <exception>

#include "checked_block.h"

namespace anyop_ascend {
namespace {

const char* NameOf(BufferState state) {
  switch (state) {
    case kFree:
      return "free";
    case kHeld:
      return "allocated: AllocTensor without EnQue or FreeTensor";
    case kQueued:
      return "queued: EnQue without DeQue";
    case kTaken:
      break;
  }
  return "not given back: DeQue without FreeTensor";
}

BufferClocks& ClocksOf(const Queue& queue, int number) {
  return Current().buffers[static_cast<std::size_t>(queue.number) * Queue::kMost + number];
}

}  // namespace

void QueueBegin(Queue& queue, Memory memory, int buffers, std::uint32_t bytes, Site at) {
  if (buffers > Queue::kMost) {
    Report("queue", at, "InitBuffer of %d buffers, but a queue has at most %d", buffers,
           Queue::kMost);
    buffers = Queue::kMost;
  }
  queue.buffers = buffers;
  queue.next = queue.first = queue.waiting = 0;
  queue.born = at;
  queue.owner = block;
  if (launched && launched->of.is_checked) {
    auto& clocks = Current().buffers;
    queue.number = static_cast<int>(clocks.size()) / Queue::kMost;
    clocks.resize(clocks.size() + Queue::kMost);
  }
  const std::uint32_t whole = (bytes + 31) / 32 * 32;
  for (int i = 0; i < buffers; ++i) {
    queue.buffer[i] = QueueBuffer();
    queue.buffer[i].bytes = whole;
    queue.buffer[i].offset = Allocate(memory, whole, false, at);
  }
}

int QueueAllocate(Queue& queue, Site at) {
  CheckedBlock& b = Current();
  CountStep(b, at);
  if (!queue.buffers) {
    Report("queue", at, "AllocTensor from a queue that has no buffer. Try TPipe::InitBuffer");
    return -1;
  }
  int number = -1;
  for (int i = 0; i < queue.buffers && number < 0; ++i) {
    const int candidate = (queue.next + i) % queue.buffers;
    if (queue.buffer[candidate].state == kFree) number = candidate;
  }
  if (number < 0) {
    const std::string text = Format(
        "AllocTensor waits for ever: all %d buffers of the queue are in use. The first is %s",
        queue.buffers, NameOf(queue.buffer[0].state));
    End("queue-alloc-blocks", text.c_str(), at);
  }
  queue.next = (number + 1) % queue.buffers;
  QueueBuffer& buffer = queue.buffer[number];
  buffer.state = kHeld;
  const BufferClocks& clocks = ClocksOf(queue, number);
  if (clocks.was_freed) Join(queue.producer, clocks.freed);
  Poison(b.memory + buffer.offset, buffer.bytes);
  return number;
}

bool QueueEnqueue(Queue& queue, int number, Site at) {
  return QueueEnqueueHalf(queue, number, {queue.producer, queue.consumer}, at);
}
bool QueueEnqueueHalf(Queue& queue, int number, const Passage& half, Site at) {
  CountStep(Current(), at);
  if (number < 0) {
    Report("queue", at, "EnQue of a tensor that is not of this queue");
    return false;
  }
  QueueBuffer& buffer = queue.buffer[number];
  if (buffer.state == kQueued) {
    Report("queue", at, "EnQue of a buffer that is in the queue already");
    return false;
  }
  if (buffer.state == kFree) {
    Report("queue", at, "EnQue of a buffer that is free. Try AllocTensor before");
  } else if (buffer.state == kTaken && !half.is_second_half) {
    Report("queue", at,
           "EnQue of a buffer that is taken by DeQue. Where it is computed in place, try EnQue and "
           "DeQue with positions, from GM to VECIN before and from VECOUT to GM behind");
  }
  Snapshot(half.producer, &ClocksOf(queue, number).queued);
  buffer.state = kQueued;
  queue.order[(queue.first + queue.waiting++) % Queue::kMost] = static_cast<std::int8_t>(number);
  return true;
}

int QueueDequeue(Queue& queue, Site at) {
  return QueueDequeueHalf(queue, {queue.producer, queue.consumer}, at);
}
int QueueDequeueHalf(Queue& queue, const Passage& half, Site at) {
  CountStep(Current(), at);
  if (!queue.waiting) End("queue-empty", "DeQue from an empty queue: nothing was enqueued", at);
  const int number = queue.order[queue.first];
  queue.first = (queue.first + 1) % Queue::kMost;
  --queue.waiting;
  queue.buffer[number].state = kTaken;
  Join(half.consumer, ClocksOf(queue, number).queued);
  return number;
}

void QueueFree(Queue& queue, int number, bool is_allocated, Site at) {
  CountStep(Current(), at);
  if (number < 0 || !is_allocated) {
    Report("queue", at, "FreeTensor of a tensor that is not of this queue");
    return;
  }
  QueueBuffer& buffer = queue.buffer[number];
  if (buffer.state == kFree) {
    Report("queue-double-free", at, "FreeTensor of a buffer that is free already");
    return;
  }
  if (buffer.state == kQueued) {
    Report("queue", at, "FreeTensor of a buffer that is still in the queue. Try DeQue before");
    for (int i = 0; i < queue.waiting; ++i) {
      if (queue.order[(queue.first + i) % Queue::kMost] != number) continue;
      for (int k = i; k + 1 < queue.waiting; ++k) {
        queue.order[(queue.first + k) % Queue::kMost] =
            queue.order[(queue.first + k + 1) % Queue::kMost];
      }
      --queue.waiting;
      break;
    }
  }
  BufferClocks& clocks = ClocksOf(queue, number);
  Snapshot(queue.consumer, &clocks.freed);
  clocks.was_freed = true;
  buffer.state = kFree;
}

void QueueEnd(Queue& queue) {
  // An exception that ends the block is told by itself.
  if (!block || queue.owner != block || IsEnding() || std::uncaught_exceptions()) return;
  for (int i = 0; i < queue.buffers; ++i) {
    if (queue.buffer[i].state == kFree) continue;
    Report("queue-leak", queue.born, "at the end, buffer %d of the queue is %s", i,
           NameOf(queue.buffer[i].state));
    break;
  }
}

}  // namespace anyop_ascend
