// SPDX-License-Identifier: Apache-2.0
#include "hosting/bound_call.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "anyop/value.h"
#include "hosting/call_text.h"
#include "hosting/graph_call.h"
#include "hosting/operator_call.h"
#include "platform/error.h"
#include "platform/float_mode.h"
#include "platform/hash_bytes.h"
#include "runtime/plan/scope_carrier.h"
#include "signature/expression.h"

namespace anyop {
namespace {

// The scope of a call on this thread, until it has returned. Most threads have it already.
class InScope {
 public:
  explicit InScope(const ScopeState& wanted) : saved_(CurrentScope()) {
    is_other_ = saved_ != wanted;
    if (!is_other_) [[likely]]
      return;
    SetScope(wanted);
  }
  ~InScope() {
    if (is_other_) SetScope(saved_);
  }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  const ScopeState saved_;
  bool is_other_;
};

std::string Counted(std::size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

void BoundCall::CheckCounts(std::size_t inputs, std::size_t results) const {
  if (inputs == inputs_.size() && results == results_.size()) [[likely]]
    return;
  Fail(ANYOP_INVALID_ARGUMENT,
       shown_name() + ": " + Counted(inputs, "input") + " and " + Counted(results, "result") +
           " are given, but the bound call has " + std::to_string(inputs_.size()) + " and " +
           std::to_string(results_.size()) + ".");
}

void BoundCall::RefuseDType(std::size_t input, const DLTensor& t) const {
  const BoundInput& own = inputs_[input];
  Fail(ANYOP_INVALID_ARGUMENT, shown_name() + ": " + own.name + " is " + Show(t) +
                                   ", but the call was bound with " + std::string(Name(own.dtype)) +
                                   ". Try binding it anew.");
}

void BoundCall::Run(std::span<const DLTensor> inputs, std::span<const DLTensor> results) const {
  CheckCounts(inputs.size(), results.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const DLDataType own = ToDL(inputs_[i].dtype);
    if (std::bit_cast<std::uint32_t>(own) != std::bit_cast<std::uint32_t>(inputs[i].dtype)) {
      RefuseDType(i, inputs[i]);
    }
  }
  // Not the caller's mode for functions of Python: no caller chose that of a compiler's thread.
  const InScope scope(scope_);
  const DefaultFloatMode mode(DefaultFloatMode::Functions::kHaveTheDefault);
  DoRun(inputs.data(), results.data());
}

void BoundCall::Infer(std::span<const DLTensor> inputs, std::span<ResultShape> results) const {
  CheckCounts(inputs.size(), results.size());
  std::vector<DLTensor> known(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < known.size(); ++i) {
    DLTensor& t = known[i];
    if (t.dtype.bits == 0) t.dtype = ToDL(inputs_[i].dtype);
    if (FromDL(t.dtype) != int(inputs_[i].dtype)) RefuseDType(i, t);
    const bool is_wrong = t.ndim < -1 || t.ndim > kMaxRank ||
                          std::any_of(t.shape, t.shape + std::max(t.ndim, 0),
                                      [](std::int64_t size) { return size < -1; });
    if (is_wrong) {
      Fail(ANYOP_INVALID_ARGUMENT, shown_name() + ": the rank of " + inputs_[i].name +
                                       " must be at most 8, and a rank or size at least 0, or -1 "
                                       "where it is unknown.");
    }
    FillTensor(&t, nullptr, kHostDevice, t.dtype, t.ndim, t.shape);
  }
  const InScope scope(scope_);
  DoInfer(known, results.data());
}

const BoundGradient& BoundCall::Gradient(std::span<const std::uint8_t> wanted,
                                         std::span<const std::uint8_t> given) const {
  if (wanted.size() != inputs_.size() || (!given.empty() && given.size() != results_.size())) {
    Fail(ANYOP_INVALID_ARGUMENT,
         shown_name() + ": gradients are wanted of " + Counted(wanted.size(), "input") +
             (given.empty() ? "" : " and given of " + Counted(given.size(), "result")) +
             ", each of which is 1 or 0, but the bound call has " + std::to_string(inputs_.size()) +
             " and " + std::to_string(results_.size()) + ".");
  }
  std::string key;
  for (const std::uint8_t w : wanted) key += w ? '1' : '0';
  for (std::size_t r = 0; r < results_.size(); ++r) key += given.empty() || given[r] ? '1' : '0';
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = gradients_.find(key); found != gradients_.end()) return *found->second;
  }
  // Made without the lock. Where two threads make it, both get the one that comes first.
  auto made = std::make_unique<const BoundGradient>(MakeGradient(wanted, given));
  const std::lock_guard lock(mutex_);
  return *gradients_.emplace(std::move(key), std::move(made)).first->second;
}

namespace {

// The calls by their texts, in a table with open addressing. It only grows, so that readers need no
// lock; a table that was outgrown is kept, because a reader may still be in it.
struct KnownText {
  std::uint64_t hash;
  std::string text;
  const BoundCall* call;
};

struct CallTable {
  explicit CallTable(std::size_t n) : places(n) {}
  // A power of two of them, at most half of them taken, so that Find comes to a free one.
  std::vector<std::atomic<const KnownText*>> places;
  std::size_t size = 0;
  std::unique_ptr<const CallTable> outgrown;

  const KnownText* Find(std::string_view text, std::uint64_t hash) const {
    for (std::size_t i = hash;; ++i) {
      const KnownText* e = places[i & (places.size() - 1)].load(std::memory_order_acquire);
      if (!e || (e->hash == hash && e->text == text)) return e;
    }
  }
  void Add(const KnownText* entry) {
    std::size_t i = entry->hash;
    while (places[i & (places.size() - 1)].load(std::memory_order_relaxed)) ++i;
    places[i & (places.size() - 1)].store(entry, std::memory_order_release);
    ++size;
  }
};

// Never destroyed: threads of other frameworks may call until the process ends.
struct CallsByText {
  std::mutex mutex;
  std::atomic<CallTable*> table{new CallTable(64)};

  // With the mutex held.
  void Add(std::string_view text, std::uint64_t hash, const BoundCall* call) {
    CallTable* now = table.load(std::memory_order_relaxed);
    if (2 * now->size + 2 > now->places.size()) {
      auto* bigger = new CallTable(2 * now->places.size());
      for (const auto& place : now->places) {
        if (const KnownText* e = place.load(std::memory_order_relaxed)) bigger->Add(e);
      }
      bigger->outgrown.reset(now);
      table.store(now = bigger, std::memory_order_release);
    }
    now->Add(new KnownText{hash, std::string(text), call});
  }
  const KnownText* Find(std::string_view text, std::uint64_t hash) const {
    return table.load(std::memory_order_acquire)->Find(text, hash);
  }
};

// Where texts lay when they were found. A compiler keeps the text of a node in one place, and it is
// faster compared there than hashed. Only a hint: another text may lie there by now, so that the
// text is compared before it is believed.
constexpr std::size_t kPlaces = 1024;
constinit std::atomic<const KnownText*> g_found_at[kPlaces] = {};

std::atomic<const KnownText*>& FoundAt(std::string_view text) {
  const auto address = reinterpret_cast<std::uintptr_t>(text.data());
  return g_found_at[std::uint64_t(address) * 0x9e3779b97f4a7c15u >> 54];
}
static_assert(kPlaces == 1 << (64 - 54));

CallsByText& AllCalls() {
  static auto* calls = new CallsByText;
  return *calls;
}

[[gnu::noinline]] const BoundCall& MakeBoundCall(std::string_view text, std::uint64_t hash) {
  CallText read = ReadCallText(text);
  std::unique_ptr<BoundCall> made;
  if (read.op) {
    made = MakeOperatorCall(std::move(*read.op), read.scope);
  } else {
    made = MakeGraphCall(std::move(*read.graph), read.scope);
  }
  const std::string& canonical = made->text();
  const std::uint64_t canonical_hash = HashBytes(canonical.data(), canonical.size());
  CallsByText& calls = AllCalls();
  const std::lock_guard lock(calls.mutex);
  const KnownText* known = calls.Find(canonical, canonical_hash);
  const BoundCall* call = known ? known->call : made.release();
  if (!known) calls.Add(call->text(), canonical_hash, call);
  if (!calls.Find(text, hash)) calls.Add(text, hash, call);
  return *call;
}

}  // namespace

const BoundCall& FindBoundCall(std::string_view text) {
  std::atomic<const KnownText*>& last = FoundAt(text);
  if (const KnownText* known = last.load(std::memory_order_acquire); known && known->text == text) {
    return *known->call;
  }
  const std::uint64_t hash = HashBytes(text.data(), text.size());
  if (const KnownText* found = AllCalls().Find(text, hash)) [[likely]] {
    last.store(found, std::memory_order_release);
    return *found->call;
  }
  return MakeBoundCall(text, hash);
}

}  // namespace anyop
