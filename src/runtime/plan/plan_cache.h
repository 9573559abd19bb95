// SPDX-License-Identifier: Apache-2.0
// The plans of one operator, for any thread. Their number is bounded, because sizes may differ in
// every call; the plan that was not used for longest goes first.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "runtime/plan/key.h"
#include "runtime/plan/plan.h"

namespace anyop {

class PlanCache {
 public:
  PlanCache() = default;
  ~PlanCache();
  PlanCache(const PlanCache&) = delete;
  PlanCache& operator=(const PlanCache&) = delete;

  // The plan of this key with a reference for the caller, or null. Keys are compared in full, as
  // two may have one hash.
  Plan* Find(const KeyBuilder& key, std::uint64_t hash);
  // Adds `plan`, of which the caller keeps its own reference. If another thread was first, returns
  // that plan with a reference and drops this one.
  Plan* Insert(Plan* plan);
  void Clear();
  std::size_t size() const;

  std::uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }
  std::uint64_t misses() const { return misses_.load(std::memory_order_relaxed); }
  void ResetCounts() { hits_ = misses_ = 0; }

  // Plans per operator, for all caches; 256 at start.
  static void SetCapacity(std::size_t plans);

 private:
  static constexpr std::size_t kBuckets = 256;  // one for each plan, at the capacity at start
  Plan* FindLocked(const std::uint64_t* key, std::size_t n, std::uint64_t hash);
  void Unlink(Plan* plan);
  void LinkNewest(Plan* plan);
  void RemoveOldest();

  mutable std::mutex mutex_;
  std::vector<Plan*> buckets_;  // none before the first plan: many operators are never called
  Plan* newest_ = nullptr;
  Plan* oldest_ = nullptr;
  std::size_t size_ = 0;
  std::atomic<std::uint64_t> hits_{0}, misses_{0};
};

}  // namespace anyop
