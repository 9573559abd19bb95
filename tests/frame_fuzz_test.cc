// SPDX-License-Identifier: Apache-2.0
// Frames that nobody checked before the runtime does: right calls of every operator, with one to
// three values changed to others, of any kind, dtype, rank, count and layout. Each is refused with
// a text that begins with the operator's name, or runs.
#include <deque>
#include <limits>
#include <optional>

#include "anyop/runtime.h"
#include "anyop/storage.h"
#include "platform/testing/fuzz.h"
#include "runtime/registry/registry.h"
#include "runtime/run/call.h"
#include "signature/generate.h"

namespace anyop::frame_fuzz_test {
namespace {

class Environment : public ::testing::Environment {
 public:
  void SetUp() override { LoadBuiltIn(); }
};
[[maybe_unused]] ::testing::Environment* const kEnvironment =
    ::testing::AddGlobalTestEnvironment(new Environment);

constexpr std::size_t kWidest = sizeof(C128);    // of the elements that there are
constexpr std::int64_t kMostElements = 1 << 12;  // of memory of its own; more is one element, seen
                                                 // many times

// A frame over memory that is there, whatever it says.
class WildFrame {
 public:
  WildFrame(const Contract& contract, Random& random) : contract_(contract), random_(random) {
    GenerateOptions options;
    options.sizes = {1, 2, 3, 4, 8, 16};
    options.tries = 50;
    generated_ = Generate(contract, random, options);
    if (!generated_) return;
    const std::size_t n = std::size_t(contract.n_params() + contract.n_results());
    frame_.assign(generated_->call.frame(), generated_->call.frame() + n);
    for (anyop_value& v : frame_) GiveMemory(&v);
    for (std::size_t k = random_() % 4; k > 0; --k) Spoil(int(random_() % n));
  }
  bool is_made() const { return generated_.has_value(); }
  bool is_small() const { return is_small_; }
  anyop_value* data() { return frame_.data(); }

 private:
  std::size_t Below(std::size_t n) { return fuzz::Below(random_, n); }

  void GiveMemory(anyop_value* v) {
    if (v->tag == ANYOP_TENSOR) v->t = Placed(*v->t);
    if (v->tag != ANYOP_TENSORS) return;
    auto& list = lists_.emplace_back();
    for (std::uint32_t k = 0; k < v->count; ++k) list.push_back(Placed(*v->ts[k]));
    v->ts = list.data();
  }

  // The same tensor where all of it can be read and written.
  const DLTensor* Placed(const DLTensor& t) {
    auto& shape = shapes_.emplace_back(std::vector<std::int64_t>(16));
    std::int64_t elements = 1;
    bool is_large = false;
    for (int d = 0; d < t.ndim && d < 16; ++d) {
      shape[std::size_t(d)] = t.shape[d];
      if (t.shape[d] > kMostElements) is_large = true;
      elements = is_large ? 1 : elements * std::max<std::int64_t>(t.shape[d], 0);
      is_large |= elements > kMostElements;
    }
    is_small_ &= !is_large;
    auto& memory = memory_.emplace_back(std::size_t(is_large ? 1 : elements) * kWidest + 64);
    const bool is_index = t.dtype.code < 2;  // small numbers, of which many are indices in range
    for (char& c : memory) c = char(is_index ? (random_() % 9 ? 0 : random_() % 4) : random_());
    DLTensor& placed = tensors_.emplace_back(t);
    placed.shape = shape.data();
    placed.strides = nullptr;
    placed.data = memory.data();
    if (is_large || Below(12) == 0) {
      placed.strides = strides_.emplace_back(std::vector<std::int64_t>(16)).data();
      if (!is_large) Scatter(&placed);
    }
    return &placed;
  }
  // Another layout of the same memory: dimensions in another order.
  void Scatter(DLTensor* t) {
    std::vector<int> order;
    for (int d = 0; d < t->ndim && d < 16; ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    std::int64_t stride = 1;
    for (const int d : order) {
      t->strides[d] = stride;
      stride *= std::max<std::int64_t>(t->shape[d], 1);
    }
  }

  std::vector<std::int64_t> OddShape() {
    constexpr std::int64_t kSmall[] = {0, 1, 1, 2, 3, 4, 8, 16};
    std::vector<std::int64_t> shape(Below(16) ? Below(5) : Below(12));
    for (std::int64_t& n : shape) {
      n = Below(8) ? kSmall[Below(std::size(kSmall))] : fuzz::OddInteger(random_);
    }
    return shape;
  }
  const DLTensor* OddTensor(const DLTensor* like) {
    std::vector<std::int64_t> shape = OddShape();
    DLTensor t{};
    t.device = {1, 0};
    t.dtype = ToDL(DType(Below(kDTypes)));
    if (like && Below(2)) {
      shape.assign(like->shape, like->shape + std::max(0, std::min(like->ndim, 8)));
      if (shape.size() && Below(2)) shape[Below(shape.size())] = std::int64_t(Below(5));
      if (Below(2)) t.dtype = like->dtype;
    }
    t.ndim = std::int32_t(shape.size());
    t.shape = shape.data();
    DLTensor* placed = const_cast<DLTensor*>(Placed(t));
    switch (Below(24)) {
      case 0:
        placed->ndim = std::int32_t(Below(2) ? -1 : 9 + std::int32_t(Below(7)));
        break;
      case 1:
        placed->dtype.bits = std::uint8_t(random_());
        break;
      case 2:
        placed->dtype.code = std::uint8_t(random_());
        break;
      case 3:
        placed->dtype.lanes = std::uint16_t(Below(5));
        break;
      case 4:
        placed->device.device_type = std::int32_t(Below(4));
        break;
      case 5:
        placed->byte_offset = Below(16);
        break;
      default:
        break;
    }
    return placed;
  }

  // A word and its number, which hosts take from the contract.
  void SetWord(int i, anyop_value* v) {
    const bool is_param = i < contract_.n_params();
    std::vector<std::string_view> words = {"", "n", "none"};
    for (const Form& form : contract_.forms) {
      if (!is_param) continue;
      const auto& own = form.params[std::size_t(i)].words;
      words.insert(words.end(), own.begin(), own.end());
    }
    const std::string_view word = words[Below(words.size())];
    v->s = word.data();
    v->count = std::uint32_t(word.size());
    v->index = std::uint16_t(is_param ? contract_.word(i, word) : -1);
  }

  void Spoil(int i) {
    anyop_value* v = &frame_[std::size_t(i)];
    const DLTensor* like = v->tag == ANYOP_TENSOR ? v->t : nullptr;
    *v = {};
    v->tag = std::uint16_t(Below(12) ? Below(10) : random_());
    v->index = std::uint16_t(Below(4) ? Below(4) : random_());
    switch (v->tag) {
      case ANYOP_FLOAT: {
        constexpr double kInf = std::numeric_limits<double>::infinity();
        constexpr double kFloats[] = {0,     -0.0, 1e-5, -1,
                                      1e300, 0.5,  kInf, std::numeric_limits<double>::quiet_NaN()};
        v->f = kFloats[Below(std::size(kFloats))];
        break;
      }
      case ANYOP_WORD:
        SetWord(i, v);
        break;
      case ANYOP_TENSOR:
        v->t = OddTensor(like);
        break;
      case ANYOP_TENSORS: {
        auto& list = lists_.emplace_back();
        for (std::size_t k = Below(5); k > 0; --k) list.push_back(OddTensor(nullptr));
        v->ts = list.data();
        v->count = std::uint32_t(list.size());
        break;
      }
      case ANYOP_INTS:
      case ANYOP_FLOATS: {
        auto& numbers = shapes_.emplace_back(OddShape());
        v->is = numbers.data();  // as floats they are tiny
        v->count = std::uint32_t(numbers.size());
        break;
      }
      default:
        v->i = fuzz::OddInteger(random_);
    }
  }

  const Contract& contract_;
  Random& random_;
  std::optional<GeneratedCall> generated_;
  std::vector<anyop_value> frame_;
  bool is_small_ = true;
  std::deque<std::vector<std::int64_t>> shapes_, strides_;
  std::deque<std::vector<char>> memory_;
  std::deque<DLTensor> tensors_;
  std::deque<std::vector<const DLTensor*>> lists_;
};

// As hosts call: a plan, memory for the results that nobody gave, the run.
void CallAsHostsDo(Operator& op, WildFrame* wild) {
  anyop_value frame[kMaxParams + kMaxResults];
  std::copy_n(wild->data(), op.n_params + op.n_results, frame);
  const HeldPlan plan = GetPlan(op, frame);
  std::vector<Array> results(std::size_t(op.n_results));
  for (int r = 0; r < op.n_results; ++r) {
    const ResultShape& s = plan->results[r];
    anyop_value& v = frame[op.n_params + r];
    if (v.tag == ANYOP_TENSOR || s.bytes > 1 << 24) continue;
    Array& made = results[std::size_t(r)];
    made = Array::Empty(Array::Shape(s.shape, std::size_t(s.rank)), s.dtype);
    v.tag = ANYOP_TENSOR;
    v.t = &made.tensor();
  }
  for (int r = 0; r < op.n_results; ++r) {
    if (plan->results[r].bytes > 1 << 24) return;  // as a host without the memory
  }
  if (wild->is_small()) Run(op, *plan, frame);
}

TEST(FrameFuzz, RunsOrIsRefusedInTheOperatorsName) {
  const std::vector<Operator*> operators = Operators();
  fuzz::Tries tries(10);
  int ran = 0, refused = 0;
  while (tries.Next()) {
    Operator& op = *operators[fuzz::Below(tries.random, operators.size())];
    WildFrame wild(*op.contract, tries.random);
    if (!wild.is_made()) continue;
    Scope scope;
    scope.threads(1);
    const bool is_run = fuzz::IsAnswered(
        [&] { CallAsHostsDo(op, &wild); },
        [&](const std::string& text) { return text.starts_with(op.display_name() + ": "); });
    ++(is_run ? ran : refused);
  }
  std::printf("%d ran, %d refused\n", ran, refused);
  EXPECT_GT(ran, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace anyop::frame_fuzz_test
