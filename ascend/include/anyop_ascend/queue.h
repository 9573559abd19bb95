// SPDX-License-Identifier: Apache-2.0
// Buffers of local memory and the queues that order the pipes which fill and empty them.
#pragma once
#include "anyop_ascend/tensor.h"

namespace anyop_ascend {

enum BufferState : std::uint8_t { kFree, kHeld, kQueued, kTaken };

struct QueueBuffer {
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  BufferState state = kFree;
};

// A queue without its types, for the runtime. Functions give the number of a buffer, or -1.
struct Queue {
  static constexpr int kMost = 16;
  Pipe producer;
  Pipe consumer;
  int number = 0;  // among those of the block
  int buffers = 0;
  int next = 0;     // buffer to look at first: they are given out in turn
  int first = 0;    // of `order`
  int waiting = 0;  // buffers in `order`
  std::int8_t order[kMost] = {};
  Site born{"", 0};
  const Block* owner = nullptr;
  QueueBuffer buffer[kMost];

  Queue(Pipe from, Pipe to) : producer(from), consumer(to) {}
};
ANYOP_ASCEND_API int QueueAllocate(Queue& queue, Site at);
ANYOP_ASCEND_API bool QueueEnqueue(Queue& queue, int number, Site at);
ANYOP_ASCEND_API int QueueDequeue(Queue& queue, Site at);
// The same between other pipes than the queue's: one half of the way of a buffer that is filled,
// computed in place and copied out.
struct Passage {
  Pipe producer;
  Pipe consumer;
  bool is_second_half = false;  // the buffer has been through the queue before
};
ANYOP_ASCEND_API bool QueueEnqueueHalf(Queue& queue, int number, const Passage& half, Site at);
ANYOP_ASCEND_API int QueueDequeueHalf(Queue& queue, const Passage& half, Site at);
ANYOP_ASCEND_API void QueueFree(Queue& queue, int number, bool is_allocated, Site at);
ANYOP_ASCEND_API void QueueEnd(Queue& queue);
ANYOP_ASCEND_API void QueueBegin(Queue& queue, Memory memory, int buffers, std::uint32_t bytes,
                                 Site at);

}  // namespace anyop_ascend

namespace AscendC {
inline namespace ANYOP_ASCEND_BUILD {

constexpr rt::Pipe ProducerOf(TPosition position) {
  return position == TPosition::VECIN ? rt::kMTE2 : rt::kV;
}
constexpr rt::Pipe ConsumerOf(TPosition position) {
  return position == TPosition::VECOUT ? rt::kMTE3 : rt::kV;
}

// The documentation has two passages with named positions: GM to VECIN, VECOUT to GM.
template <TPosition from, TPosition to>
constexpr rt::Passage NamedPassage() {
  constexpr bool kIsIn = from == TPosition::GM && to == TPosition::VECIN;
  static_assert(kIsIn || (from == TPosition::VECOUT && to == TPosition::GM),
                "EnQue and DeQue with positions go from GM to VECIN or from VECOUT to GM");
  return {kIsIn ? rt::kMTE2 : rt::kV, kIsIn ? rt::kV : rt::kMTE3, !kIsIn};
}

template <TPosition src, TPosition dst, int depth, auto mask = 0>
class TQueBind {
 public:
  TQueBind() : queue_(ProducerOf(src), ConsumerOf(dst)) {}
  TQueBind(const TQueBind&) = default;
  TQueBind& operator=(const TQueBind&) = default;
  ~TQueBind() {
    if (kChecked && queue_.buffers) rt::QueueEnd(queue_);
  }

  template <class T>
  LocalTensor<T> AllocTensor(ANYOP_ASCEND_SITE) {
    int number = -1;
    if constexpr (kChecked) {
      number = rt::QueueAllocate(queue_, site);
    } else {
      number = NextFree();
    }
    return Tensor<T>(number, src);
  }
  template <class T>
  void AllocTensor(LocalTensor<T>& tensor, ANYOP_ASCEND_SITE) {
    tensor = AllocTensor<T>(site);
  }
  template <class T>
  bool EnQue(const LocalTensor<T>& tensor, ANYOP_ASCEND_SITE) {
    const int number = NumberOf(tensor.bytes());
    return kChecked ? rt::QueueEnqueue(queue_, number, site) : Put(number);
  }
  template <TPosition from, TPosition to, class T>
  bool EnQue(const LocalTensor<T>& tensor, ANYOP_ASCEND_SITE) {
    const int number = NumberOf(tensor.bytes());
    return kChecked ? rt::QueueEnqueueHalf(queue_, number, NamedPassage<from, to>(), site)
                    : Put(number);
  }
  template <class T>
  LocalTensor<T> DeQue(ANYOP_ASCEND_SITE) {
    return Tensor<T>(kChecked ? rt::QueueDequeue(queue_, site) : Take(), dst);
  }
  template <class T>
  void DeQue(LocalTensor<T>& tensor, ANYOP_ASCEND_SITE) {
    tensor = DeQue<T>(site);
  }
  template <TPosition from, TPosition to, class T>
  LocalTensor<T> DeQue(ANYOP_ASCEND_SITE) {
    constexpr rt::Passage kHalf = NamedPassage<from, to>();
    return Tensor<T>(kChecked ? rt::QueueDequeueHalf(queue_, kHalf, site) : Take(), dst);
  }
  template <class T>
  void FreeTensor(const LocalTensor<T>& tensor, ANYOP_ASCEND_SITE) {
    const int number = NumberOf(tensor.bytes());
    if constexpr (kChecked) {
      rt::QueueFree(queue_, number, tensor.is_allocated(), site);
    } else if (number >= 0) {
      queue_.buffer[number].state = rt::kFree;
    }
  }
  void FreeAllEvent() {}

  bool VacantInQue() const { return queue_.waiting < queue_.buffers; }
  bool HasTensorInQue() const { return queue_.waiting > 0; }
  bool HasIdleBuffer() const {
    for (int i = 0; i < queue_.buffers; ++i)
      if (queue_.buffer[i].state == rt::kFree) return true;
    return false;
  }
  int GetTensorCountInQue() const { return queue_.waiting; }
  rt::Queue& queue() { return queue_; }
  static constexpr rt::Memory memory() { return MemoryOf(dst == TPosition::GM ? src : dst); }

 private:
  // Without checks, as the next two.
  bool Put(int number) {
    if (number < 0) return false;
    queue_.order[(queue_.first + queue_.waiting++) % rt::Queue::kMost] =
        static_cast<std::int8_t>(number);
    return true;
  }
  int Take() {
    if (queue_.waiting <= 0) return -1;
    const int number = queue_.order[queue_.first];
    queue_.first = (queue_.first + 1) % rt::Queue::kMost;
    --queue_.waiting;
    return number;
  }
  // A queue that has none left gives out the oldest buffer once more.
  int NextFree() {
    if (!queue_.buffers) return -1;
    int number = queue_.next;
    for (int i = 0; i < queue_.buffers && queue_.buffer[number].state != rt::kFree; ++i)
      number = number + 1 == queue_.buffers ? 0 : number + 1;
    queue_.buffer[number].state = rt::kHeld;
    queue_.next = number + 1 == queue_.buffers ? 0 : number + 1;
    return number;
  }
  int NumberOf(const unsigned char* at) const {
    const std::int64_t offset = at - rt::block->memory;
    for (int i = 0; i < queue_.buffers; ++i) {
      const rt::QueueBuffer& buffer = queue_.buffer[i];
      if (offset == buffer.offset) return i;
      if (offset > buffer.offset && offset < std::int64_t{buffer.offset} + buffer.bytes) return i;
    }
    return -1;
  }
  template <class T>
  LocalTensor<T> Tensor(int number, TPosition position) const {
    if (number < 0) return {};
    const rt::QueueBuffer& buffer = queue_.buffer[number];
    return {rt::block->memory + buffer.offset, static_cast<std::uint32_t>(buffer.bytes / sizeof(T)),
            buffer.bytes, position, true};
  }

  rt::Queue queue_;
};

template <TPosition position, int depth, auto mask = 0>
class TQue : public TQueBind<position == TPosition::VECOUT ? TPosition::VECCALC : position,
                             position, depth, mask> {};

template <TPosition position = TPosition::VECCALC>
class TBuf {
 public:
  template <class T>
  LocalTensor<T> Get() const {
    return {at(), static_cast<std::uint32_t>(bytes_ / sizeof(T)), bytes_, position, is_allocated_};
  }
  template <class T>
  LocalTensor<T> Get(std::uint32_t elements, ANYOP_ASCEND_SITE) const {
    return GetWithOffset<T>(elements, 0, site);
  }
  // The offset counts bytes.
  template <class T>
  LocalTensor<T> GetWithOffset(std::uint32_t elements, std::uint32_t offset,
                               ANYOP_ASCEND_SITE) const {
    const std::uint64_t end = offset + std::uint64_t{elements} * sizeof(T);
    if (kChecked && is_allocated_ && end > bytes_) {
      rt::Report("ub-out-of-bounds", site,
                 "TBuf::Get takes bytes %u to %llu of a buffer, but it has %u", offset,
                 static_cast<unsigned long long>(end), bytes_);
    }
    return {at() + offset, elements, bytes_ > offset ? bytes_ - offset : 0, position,
            is_allocated_};
  }
  template <class T>
  LocalTensor<T> AllocTensor() {
    return Get<T>();
  }
  template <class T>
  void FreeTensor(LocalTensor<T>&) {}
  template <class T>
  void EnQue(LocalTensor<T>&) {}
  template <class T>
  LocalTensor<T> DeQue() {
    return Get<T>();
  }
  void Begin(std::uint32_t offset, std::uint32_t bytes) {
    offset_ = offset;
    bytes_ = bytes;
    is_allocated_ = true;
  }

 private:
  unsigned char* at() const { return rt::block->memory + offset_; }

  std::uint32_t offset_ = 0;
  std::uint32_t bytes_ = 0;
  bool is_allocated_ = false;
};

class TPipe {
 public:
  TPipe() { Init(); }
  TPipe(const TPipe&) = delete;
  TPipe& operator=(const TPipe&) = delete;
  ~TPipe() {
    if (rt::block && rt::block->pipe == this) rt::block->pipe = nullptr;
  }
  void Init() {
    rt::block->pipe = this;
    std::fill_n(rt::block->allocated, static_cast<int>(rt::kMemories), 0u);
  }
  void Reset(ANYOP_ASCEND_SITE) {
    if (kChecked) rt::Barrier(rt::kAll, site);
    Init();
  }
  void Destroy(ANYOP_ASCEND_SITE) { Reset(site); }

  template <TPosition src, TPosition dst, int depth, auto mask>
  bool InitBuffer(TQueBind<src, dst, depth, mask>& queue, std::uint8_t buffers, std::uint32_t bytes,
                  ANYOP_ASCEND_SITE) {
    rt::QueueBegin(queue.queue(), queue.memory(), buffers, bytes, site);
    return true;
  }
  template <TPosition position>
  bool InitBuffer(TBuf<position>& buffer, std::uint32_t bytes, ANYOP_ASCEND_SITE) {
    const std::uint32_t whole = (bytes + 31) / 32 * 32;
    buffer.Begin(rt::Allocate(MemoryOf(position), whole, kChecked, site), whole);
    return true;
  }

  template <HardEvent event>
  TEventID AllocEventID(ANYOP_ASCEND_SITE) {
    const TEventID id = FetchEventID(event);
    if (kChecked && used_[static_cast<int>(event)] >> id & 1) {
      rt::Report("event-id", site, "AllocEventID: all 8 ids of this event are in use");
    }
    used_[static_cast<int>(event)] |= static_cast<std::uint8_t>(1 << id);
    return id;
  }
  template <HardEvent event>
  void ReleaseEventID(TEventID id) {
    used_[static_cast<int>(event)] &= static_cast<std::uint8_t>(~(1 << id));
  }
  template <HardEvent event>
  TEventID FetchEventID() {
    return FetchEventID(event);
  }
  TEventID FetchEventID(HardEvent event) {
    for (TEventID id = 0; id < 8; ++id)
      if (!(used_[static_cast<int>(event)] >> id & 1)) return id;
    return 0;
  }
  template <TPosition position, class T>
  LocalTensor<T> GetAbsAddr(std::int32_t offset, std::int32_t elements) const {
    return LocalTensor<T>(position, static_cast<std::uint32_t>(offset),
                          static_cast<std::uint32_t>(elements));
  }

 private:
  std::uint8_t used_[256] = {};  // ids of events, by bit
};
inline TPipe* GetTPipePtr() { return static_cast<TPipe*>(rt::block->pipe); }

// Places tensors one behind the other, without queues.
template <Hardware hardware = Hardware::UB>
class LocalMemAllocator {
 public:
  template <TPosition position, class T>
  LocalTensor<T> Alloc(std::uint32_t elements, ANYOP_ASCEND_SITE) {
    const std::uint64_t bytes = std::uint64_t{elements} * sizeof(T);
    const std::uint32_t begin = address_;
    address_ += static_cast<std::uint32_t>((bytes + 31) / 32 * 32);
    if (kChecked && address_ > rt::LocalBytes(MemoryOf(position))) {
      rt::Report("ub-overflow", site, "LocalMemAllocator: the tensor ends at %u, but there are %u",
                 address_, rt::LocalBytes(MemoryOf(position)));
    }
    LocalTensor<T> tensor(position, begin, elements);
    if (kChecked) rt::Poison(tensor.bytes(), bytes);
    return tensor;
  }
  template <class T>
  LocalTensor<T> Alloc(std::uint32_t elements, ANYOP_ASCEND_SITE) {
    return Alloc<TPosition::VECCALC, T>(elements, site);
  }
  template <class T, std::uint32_t elements>
  LocalTensor<T> Alloc(ANYOP_ASCEND_SITE) {
    return Alloc<TPosition::VECCALC, T>(elements, site);
  }
  template <TPosition position, class T, std::uint32_t elements>
  LocalTensor<T> Alloc(ANYOP_ASCEND_SITE) {
    return Alloc<position, T>(elements, site);
  }
  std::uint32_t GetCurAddr() const { return address_; }

 private:
  std::uint32_t address_ = 0;
};

}  // namespace ANYOP_ASCEND_BUILD
}  // namespace AscendC
