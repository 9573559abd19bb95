// SPDX-License-Identifier: Apache-2.0
// Blocks take tokens in turn. The logits of a token lie in a row for each group of experts, padded
// to 32 bytes with what is never chosen; the largest is taken `top` times.
#include "ops/common/ascend.h"

namespace anyop::ops {
namespace {

constexpr float kNever = -INFINITY;  // of what is not to be chosen any more

struct Tiling {
  uint32_t tokens, experts, top, groups, top_groups, group_best;
  uint32_t pitch, size;  // of a group, with and without padding
  float scaling;
  bool is_softmax, renormalizes;
};

template <class T>
class Router {
 public:
  __aicore__ inline void Init(GM_ADDR logits, GM_ADDR bias, GM_ADDR weights, GM_ADDR ids,
                              const Tiling& tiling) {
    t_ = tiling;
    places_ = t_.groups * t_.pitch;
    room_ = RoundUp<float>(places_, 256);  // comparisons fill their repeats
    has_bias_ = bias != nullptr;
    logits_.SetGlobalBuffer((__gm__ T*)logits);
    bias_.SetGlobalBuffer((__gm__ float*)bias);
    weights_.SetGlobalBuffer((__gm__ float*)weights);
    ids_.SetGlobalBuffer((__gm__ int32_t*)ids);
    pipe_.InitBuffer(in_, 1, places_ * sizeof(T));
    pipe_.InitBuffer(floats_, 5 * room_ * sizeof(float));
    pipe_.InitBuffer(bits_, room_ / 8);
    pipe_.InitBuffer(result_, 32);
    pipe_.InitBuffer(chosen_, 2 * Room() * sizeof(float));
    pipe_.InitBuffer(scores_, (t_.groups + 8) * sizeof(float));
    ReadBias();
  }

  __aicore__ inline void Process() {
    for (uint32_t token = GetBlockIdx(); token < t_.tokens; token += GetBlockNum()) {
      const bool is_nan = Probabilities(token);
      if (is_nan) {
        Wait<HardEvent::V_S>();
        for (uint32_t a = 0; a < t_.top; ++a) Choose(a, PlaceOf(a));
      } else {
        if (t_.groups > 1) KeepBestGroups();
        ChooseLargest();
      }
      WriteChosen(token);
    }
  }

 private:
  __aicore__ inline uint32_t Room() const { return (t_.top + 7) / 8 * 8; }
  __aicore__ inline LocalTensor<float> Part(uint32_t which) {
    return floats_.Get<float>()[which * room_];
  }
  __aicore__ inline LocalTensor<float> p() { return Part(0); }
  __aicore__ inline LocalTensor<float> c() { return Part(1); }
  // c, but kNever for NaN, other groups and what has been taken.
  __aicore__ inline LocalTensor<float> left() { return Part(2); }
  __aicore__ inline LocalTensor<float> bias() { return Part(3); }
  __aicore__ inline LocalTensor<float> spare() { return Part(4); }
  __aicore__ inline uint32_t PlaceOf(uint32_t expert) const {
    return expert / t_.size * t_.pitch + expert % t_.size;
  }
  __aicore__ inline uint32_t ExpertAt(uint32_t place) const {
    return place / t_.pitch * t_.size + place % t_.pitch;
  }

  // The bias, or zeros, and kNever in the padding.
  __aicore__ inline void ReadBias() {
    Duplicate(bias(), 0.0f, places_);
    Wait<HardEvent::V_S>();
    for (uint32_t group = 0; group < t_.groups; ++group) {
      for (uint32_t i = 0; i < t_.pitch; ++i) {
        const bool is_padding = i >= t_.size;
        if (!is_padding && !has_bias_) continue;
        bias().SetValue(group * t_.pitch + i,
                        is_padding ? kNever : bias_.GetValue(group * t_.size + i));
      }
    }
    Wait<HardEvent::S_V>();
  }

  __aicore__ inline void ReadLogits(uint32_t token) {
    LocalTensor<T> logits = in_.template AllocTensor<T>();
    const auto padding = static_cast<uint8_t>(t_.pitch - t_.size);
    const DataCopyExtParams rows(static_cast<uint16_t>(t_.groups),
                                 static_cast<uint32_t>(t_.size * sizeof(T)), 0, 0, 0);
    DataCopyPad(logits, logits_[uint64_t(token) * t_.experts], rows,
                DataCopyPadExtParams<T>(true, 0, padding, kNever));
    in_.EnQue(logits);
    logits = in_.template DeQue<T>();
    of_t_.Read(p(), logits, places_);
    in_.FreeTensor(logits);
    PipeBarrier<PIPE_V>();
  }

  // Whether they are all NaN.
  __aicore__ inline bool Probabilities(uint32_t token) {
    ReadLogits(token);
    bool is_nan = false;
    if (t_.is_softmax) {
      const float largest = Largest(p(), places_).value;
      Adds(p(), p(), -largest, places_);
      PipeBarrier<PIPE_V>();
      Exp(p(), p(), places_);
      PipeBarrier<PIPE_V>();
      const float sum = Sum(p());
      is_nan = sum != sum;
      Duplicate(spare(), sum, places_);
    } else {
      Muls(spare(), p(), -1.0f, places_);
      PipeBarrier<PIPE_V>();
      Exp(spare(), spare(), places_);
      PipeBarrier<PIPE_V>();
      Adds(spare(), spare(), 1.0f, places_);
      Duplicate(p(), 1.0f, places_);
    }
    PipeBarrier<PIPE_V>();
    Div(p(), p(), spare(), places_);
    PipeBarrier<PIPE_V>();
    Add(c(), p(), bias(), places_);
    PipeBarrier<PIPE_V>();
    LocalTensor<uint8_t> is_number = bits_.Get<uint8_t>();
    Compare(is_number, c(), c(), CMPMODE::EQ, room_);
    PipeBarrier<PIPE_V>();
    Select(left(), is_number, c(), kNever, SELMODE::VSEL_TENSOR_SCALAR_MODE, places_);
    PipeBarrier<PIPE_V>();
    return is_nan;
  }

  struct Found {
    float value;
    uint32_t place;
  };
  // The first one of the largest.
  __aicore__ inline Found Largest(const LocalTensor<float>& of, uint32_t n) {
    LocalTensor<float> result = result_.Get<float>();
    PipeBarrier<PIPE_V>();
    ReduceMax(result, of, spare(), n, true);
    Wait<HardEvent::V_S>();
    const Found found{result.GetValue(0), result.ReinterpretCast<uint32_t>().GetValue(1)};
    Wait<HardEvent::S_V>();
    return found;
  }
  __aicore__ inline float Sum(const LocalTensor<float>& of) {
    LocalTensor<float> result = result_.Get<float>();
    ReduceSum(result, of, spare(), places_);
    Wait<HardEvent::V_S>();
    const float sum = result.GetValue(0);
    Wait<HardEvent::S_V>();
    return sum;
  }
  __aicore__ inline void Set(const LocalTensor<float>& of, uint32_t place, float value) {
    Wait<HardEvent::V_S>();
    of.SetValue(place, value);
    Wait<HardEvent::S_V>();
  }

  // The sum of the group_best largest of a group. The group in left() is used up.
  __aicore__ inline float ScoreOf(uint32_t group) {
    const LocalTensor<float> of = left()[group * t_.pitch];
    float score = 0;
    for (uint32_t taken = 0; taken < t_.group_best; ++taken) {
      const Found found = Largest(of, t_.pitch);
      if (found.value > kNever) {
        score += found.value;
        Set(of, found.place, kNever);
        continue;
      }
      uint32_t numbers = 0;  // the rest are of -inf and, behind these, NaN
      Wait<HardEvent::V_S>();
      for (uint32_t i = 0; i < t_.size; ++i) {
        const float value = c().GetValue(group * t_.pitch + i);
        numbers += value == value;
      }
      return t_.group_best <= numbers ? score + kNever : NAN;
    }
    return score;
  }

  // Makes c kNever outside of the best groups.
  __aicore__ inline void KeepBestGroups() {
    LocalTensor<float> scores = scores_.Get<float>();
    for (uint32_t group = 0; group < t_.groups; ++group) scores.SetValue(group, ScoreOf(group));
    for (uint32_t group = 0; group < t_.groups; ++group) {
      const float score = scores.GetValue(group);
      uint32_t better = 0;
      for (uint32_t i = 0; i < t_.groups; ++i) {
        const float other = scores.GetValue(i);
        const bool is_equal = other == score || (other != other && score != score);
        better += is_equal ? i < group : other > score || (score != score && other == other);
      }
      const uint32_t begin = group * t_.pitch;
      if (better < t_.top_groups) {
        Restore(begin);
      } else {
        Duplicate(left()[begin], kNever, t_.pitch);
        Duplicate(c()[begin], kNever, t_.pitch);
      }
    }
    PipeBarrier<PIPE_V>();
  }
  // left() of a group as it was.
  __aicore__ inline void Restore(uint32_t begin) {
    Wait<HardEvent::V_S>();
    for (uint32_t i = 0; i < t_.pitch; ++i) {
      const float value = c().GetValue(begin + i);
      left().SetValue(begin + i, value == value ? value : kNever);
    }
    Wait<HardEvent::S_V>();
  }

  __aicore__ inline void Choose(uint32_t a, uint32_t place) {
    LocalTensor<float> weights = chosen_.Get<float>();
    weights.SetValue(a, p().GetValue(place));
    weights.ReinterpretCast<int32_t>().SetValue(Room() + a, int32_t(ExpertAt(place)));
  }

  __aicore__ inline void ChooseLargest() {
    for (uint32_t a = 0; a < t_.top; ++a) {
      const Found found = Largest(left(), places_);
      if (!(found.value > kNever)) return ChooseRest(a);
      Choose(a, found.place);
      Set(left(), found.place, kNever);
      Set(c(), found.place, 0);  // for ChooseRest
    }
  }
  // By number, first the experts at -inf, then those at NaN.
  __aicore__ inline void ChooseRest(uint32_t a) {
    Wait<HardEvent::V_S>();
    for (int of_nan = 0; of_nan < 2; ++of_nan) {
      for (uint32_t expert = 0; expert < t_.experts && a < t_.top; ++expert) {
        const uint32_t place = PlaceOf(expert);
        const float value = c().GetValue(place);
        if (of_nan ? value != value : value == kNever) Choose(a++, place);
      }
    }
  }

  __aicore__ inline void WriteChosen(uint32_t token) {
    LocalTensor<float> weights = chosen_.Get<float>();
    float sum = 1e-20f;
    for (uint32_t a = 0; a < t_.top; ++a) sum += weights.GetValue(a);
    if (!t_.renormalizes) sum = 1;
    for (uint32_t a = 0; a < t_.top; ++a) {
      weights.SetValue(a, weights.GetValue(a) / sum * t_.scaling);
    }
    Wait<HardEvent::S_MTE3>();
    CopyOut(weights_[uint64_t(token) * t_.top], weights, t_.top);
    CopyOut(ids_[uint64_t(token) * t_.top], weights.ReinterpretCast<int32_t>()[Room()], t_.top);
    Wait<HardEvent::MTE3_S>();
    Wait<HardEvent::S_V>();  // the probabilities have been read
  }

  Tiling t_{};
  uint32_t places_ = 0, room_ = 0;
  bool has_bias_ = false;
  TPipe pipe_;
  TQue<QuePosition::VECIN, 1> in_;
  TBuf<TPosition::VECCALC> floats_, bits_, result_, chosen_, scores_;
  Floats<T> of_t_;
  GlobalTensor<T> logits_;
  GlobalTensor<float> bias_, weights_;
  GlobalTensor<int32_t> ids_;
};

template <class T>
__global__ __aicore__ void topk_router(GM_ADDR logits, GM_ADDR bias, GM_ADDR weights, GM_ADDR ids,
                                       const Tiling* tiling) {
  Router<T> op;
  op.Init(logits, bias, weights, ids, *tiling);
  op.Process();
}

// Elements from a group to the next one.
uint32_t PitchOf(std::int64_t size, std::int64_t element_bytes) {
  const std::int64_t unit = 32 / element_bytes;
  return uint32_t((size + unit - 1) / unit * unit);
}

void Run(const Context& ctx, const Tensor& logits, std::int64_t top, std::string_view scoring,
         bool renormalizes, const Tensor* bias, std::int64_t groups, std::int64_t top_groups,
         std::int64_t group_best, float scaling, const Tensor& weights, const Tensor& ids) {
  const std::int64_t size = logits.dim(1) / groups;
  if (logits.dim(0) == 0) return;
  if (group_best == 0) group_best = min<std::int64_t>(bias ? 2 : 1, size);
  const Tiling tiling{ascend::Count(logits.dim(0)),
                      ascend::Count(logits.dim(1)),
                      ascend::Count(top),
                      ascend::Count(groups),
                      ascend::Count(top_groups),
                      ascend::Count(group_best),
                      PitchOf(size, Bytes(logits.type())),
                      ascend::Count(size),
                      scaling,
                      scoring == "softmax",
                      renormalizes};
  ascend::Visit<float, half, bfloat16_t>(logits.type(), [&](auto zero) {
    ascend::Launch(ctx, {.blocks = ascend::Blocks(tiling.tokens)}, &topk_router<decltype(zero)>,
                   logits, bias, weights, ids, tiling);
  });
}

}  // namespace

ANYOP_ASCEND_KERNEL(topk_router){// Room for the places of all groups.
                                 .when = "num_groups * (e / num_groups + 15) <= 4096",
                                 .run = ascend::Bind<&Run>(),
                                 .accepts = ascend::AreContiguous<&Run>()};

}  // namespace anyop::ops
