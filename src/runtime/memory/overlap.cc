// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/overlap.h"

#include <algorithm>

#include "anyop/tensor.h"
#include "signature/check.h"

namespace anyop {
namespace {

const Tensor& AsTensor(const DLTensor& t) { return static_cast<const Tensor&>(t); }

struct Dimension {
  std::int64_t stride, size;
};

// The dimensions that change the address, by stride; returns how many. The sign of a stride is left
// out: it says in which order bytes are met, not which ones.
int SortedDimensions(const DLTensor& t, Dimension* dims) {
  int n = 0;
  for (int i = 0; i < t.ndim && n < kMaxRank; ++i) {
    const std::int64_t s = AsTensor(t).stride(i);
    if (t.shape[i] != 1 && s != 0) dims[n++] = {s < 0 ? -s : s, t.shape[i]};
  }
  std::sort(dims, dims + n, [](auto a, auto b) { return a.stride < b.stride; });
  return n;
}

// Runs of `run` contiguous bytes, each a multiple of `pitch` bytes behind the first one. pitch 0: a
// single run; -1: other distances. Two tensors of one pitch meet where their runs meet modulo it.
struct Runs {
  std::int64_t run, pitch;
};
Runs RunsOf(const DLTensor& t) {
  const std::int64_t bytes = Bytes(t.dtype);
  Dimension dims[kMaxRank];
  const int n = SortedDimensions(t, dims);
  std::int64_t run = 1;
  int i = 0;
  for (; i < n && dims[i].stride == run; ++i) run *= dims[i].size;
  if (i == n) return {run * bytes, 0};
  const std::int64_t pitch = dims[i].stride;
  for (int k = i + 1; k < n; ++k) {
    if (dims[k].stride % pitch != 0) return {run * bytes, -1};
  }
  return {run * bytes, pitch * bytes};
}

}  // namespace

Extent ExtentOf(const DLTensor& t) {
  const std::uintptr_t at = AddressOf(t);
  const std::int64_t bytes = Bytes(t.dtype);
  std::int64_t low = 0, high = 0;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] == 0) return {at, at};
    const std::int64_t reach = (t.shape[i] - 1) * AsTensor(t).stride(i);
    (reach < 0 ? low : high) += reach;
  }
  return {at + std::uintptr_t(low * bytes), at + std::uintptr_t((high + 1) * bytes)};
}

bool MayShareMemory(const DLTensor& a, const DLTensor& b) {
  if (PlaceOf(a) != PlaceOf(b)) return false;
  const Extent ea = ExtentOf(a), eb = ExtentOf(b);
  if (ea.begin == ea.end || eb.begin == eb.end || !Meet(ea, eb)) return false;
  const Runs ra = RunsOf(a), rb = RunsOf(b);
  if (ra.pitch < 0 || rb.pitch < 0) return true;  // not decided
  const std::int64_t pitch = ra.pitch ? ra.pitch : rb.pitch;
  // Two single runs are their extents, which meet. Two different pitches are not decided.
  if (pitch == 0 || (rb.pitch && rb.pitch != pitch)) return true;
  // Between the extents, not the addresses: with a negative stride the lowest run begins below the
  // address, by a multiple of the pitch or not.
  std::int64_t distance = std::int64_t(eb.begin - ea.begin) % pitch;
  if (distance < 0) distance += pitch;
  return distance < ra.run || distance + rb.run > pitch;
}

bool IsSameMemory(const DLTensor& a, const DLTensor& b) {
  if (PlaceOf(a) != PlaceOf(b)) return false;
  if (AddressOf(a) != AddressOf(b) || a.ndim != b.ndim || Bytes(a.dtype) != Bytes(b.dtype))
    return false;
  for (int i = 0; i < a.ndim; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
    if (a.shape[i] == 1) continue;
    const std::int64_t stride = AsTensor(a).stride(i);
    if (stride == 0 || stride != AsTensor(b).stride(i)) return false;
  }
  return true;
}

bool MayMeetItself(const DLTensor& t) {
  // Without elements nothing meets, wherever a stride of 0 stands.
  if (!t.strides || std::count(t.shape, t.shape + t.ndim, 0)) return false;
  for (int i = 0; i < t.ndim; ++i) {
    if (t.shape[i] > 1 && t.strides[i] == 0) return true;
  }
  Dimension dims[kMaxRank];
  const int n = SortedDimensions(t, dims);
  // No two indices meet if each stride leads beyond all that the smaller ones reach.
  std::int64_t reach = 0;  // of the dimensions so far, in elements
  for (int i = 0; i < n; ++i) {
    if (dims[i].stride <= reach) return true;
    reach += (dims[i].size - 1) * dims[i].stride;
  }
  return false;
}

}  // namespace anyop
