// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/plan_cache.h"

#include <algorithm>
#include <cstring>

namespace anyop {
namespace {

std::atomic<std::size_t> capacity{256};

// With the lock of the cache, so that no addition is lost. Atomic, because hits() reads without it.
void AddOne(std::atomic<std::uint64_t>& counter) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

void PlanCache::SetCapacity(std::size_t plans) { capacity = std::max<std::size_t>(plans, 1); }

PlanCache::~PlanCache() { Clear(); }

Plan* PlanCache::FindLocked(const std::uint64_t* key, std::size_t n, std::uint64_t hash) {
  if (buckets_.empty()) return nullptr;
  for (Plan* p = buckets_[hash % kBuckets]; p; p = p->next_in_bucket) {
    if (p->hash != hash || p->key.size() != n) continue;
    if (std::memcmp(p->key.data(), key, n * sizeof(std::uint64_t)) == 0) return p;
  }
  return nullptr;
}

Plan* PlanCache::Find(const KeyBuilder& key, std::uint64_t hash) {
  std::lock_guard lock(mutex_);
  Plan* plan = FindLocked(key.data(), key.size(), hash);
  if (!plan) {
    AddOne(misses_);
    return nullptr;
  }
  AddOne(hits_);
  Acquire(plan);  // with the lock: another thread may push the plan out at once
  if (plan != newest_) {
    Unlink(plan);
    LinkNewest(plan);
  }
  return plan;
}

Plan* PlanCache::Insert(Plan* plan) {
  std::lock_guard lock(mutex_);
  // Plans are made without the lock, so that two threads may have made the same one.
  if (Plan* first = FindLocked(plan->key.data(), plan->key.size(), plan->hash)) {
    Acquire(first);
    Release(plan);
    return first;
  }
  while (size_ >= capacity.load(std::memory_order_relaxed)) RemoveOldest();
  if (buckets_.empty()) buckets_.resize(kBuckets);
  Acquire(plan);
  Plan*& bucket = buckets_[plan->hash % kBuckets];
  plan->next_in_bucket = bucket;
  bucket = plan;
  LinkNewest(plan);
  ++size_;
  return plan;
}

void PlanCache::Clear() {
  std::lock_guard lock(mutex_);
  while (oldest_) RemoveOldest();
}

std::size_t PlanCache::size() const {
  std::lock_guard lock(mutex_);
  return size_;
}

void PlanCache::Unlink(Plan* plan) {
  (plan->newer ? plan->newer->older : newest_) = plan->older;
  (plan->older ? plan->older->newer : oldest_) = plan->newer;
}

void PlanCache::LinkNewest(Plan* plan) {
  plan->newer = nullptr;
  plan->older = newest_;
  (newest_ ? newest_->newer : oldest_) = plan;
  newest_ = plan;
}

void PlanCache::RemoveOldest() {
  Plan* plan = oldest_;
  Plan** link = &buckets_[plan->hash % kBuckets];
  while (*link != plan) link = &(*link)->next_in_bucket;
  *link = plan->next_in_bucket;
  Unlink(plan);
  --size_;
  Release(plan);  // calls that run it have references of their own
}

}  // namespace anyop
