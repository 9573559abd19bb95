// SPDX-License-Identifier: Apache-2.0
#include "copies.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DeviceGuard.h>

#include "boxed.h"
#include "memory.h"
#include "table.h"

namespace virtual_torch {
namespace {

at::Tensor DenseLike(const at::Tensor& t, c10::Device device) {
  return at::empty(t.sizes(), at::dtype(t.scalar_type()).device(device));
}

// Both are dense, of one dtype and shape.
void CopyBytes(const at::Tensor& from, const at::Tensor& to, anyop_stream stream) {
  const auto place = [](const at::Tensor& t) {
    return t.is_cpu() ? std::int32_t{ANYOP_AT_HOST} : std::int32_t{t.device().index()};
  };
  Must(Table()->copy(stream, place(to), to.data_ptr(), place(from), from.data_ptr(), to.nbytes()));
}

void Keep(const at::Tensor& host, const c10::Stream& stream) {
  KeepUntilOver(std::make_shared<at::Tensor>(host), Native(stream), stream.device_index());
}

void CopyWithin(const at::Tensor& from, const at::Tensor& to) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{to, from, false};
  Boxed(op, &stack);
}

void CopyToDevice(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::Stream stream = CurrentStream(to.device().index());
  at::Tensor source = from.to(to.scalar_type()).contiguous();
  // Memory that is not pinned may be written to as soon as the copy has returned.
  if (non_blocking && !IsPinned(source.data_ptr()) && source.is_same(from)) source = source.clone();
  const at::Tensor target = to.is_contiguous() ? to : DenseLike(to, to.device());
  CopyBytes(source, target, Native(stream));
  Keep(source, stream);
  if (!target.is_same(to)) CopyWithin(target, to);
  if (!non_blocking) Synchronize(stream);
}

void CopyToHost(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::Stream stream = CurrentStream(from.device().index());
  const at::Tensor source = from.contiguous();
  const bool is_direct = to.is_contiguous() && to.scalar_type() == from.scalar_type();
  const at::Tensor target = is_direct ? to : DenseLike(source, at::kCPU);
  CopyBytes(source, target, Native(stream));
  Keep(target, stream);
  if (!(non_blocking && is_direct && IsPinned(to.data_ptr()))) Synchronize(stream);
  if (!is_direct) to.copy_(target);
}

// In the order of both current streams.
void CopyAcross(const at::Tensor& from, const at::Tensor& to) {
  const at::Tensor source = from.to(to.scalar_type()).contiguous();
  const anyop_stream here = CurrentNative(from.device().index());
  const anyop_stream there = CurrentNative(to.device().index());
  const c10::DeviceGuard guard(to.device());
  const at::Tensor target = to.is_contiguous() ? to : DenseLike(to, to.device());
  Order(there, here, to.device().index());
  CopyBytes(source, target, here);
  Order(here, there, from.device().index());
  if (!target.is_same(to)) CopyWithin(target, to);
}

}  // namespace

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  // Bytes are copied: what a tensor only says of itself is made so first.
  if (from.is_conj() != to.is_conj()) {
    const at::Tensor made = (from.is_conj() ? from.conj() : from).conj_physical();
    CopyFrom(made, to.is_conj() ? to.conj() : to, non_blocking);
    return to;
  }
  if (from.is_neg() != to.is_neg()) {
    const at::Tensor made = (from.is_neg() ? from._neg_view() : from).neg();
    CopyFrom(made, to.is_neg() ? to._neg_view() : to, non_blocking);
    return to;
  }
  const at::Tensor source = from.sizes() == to.sizes() ? from : from.expand_as(to);
  const c10::DeviceGuard guard(from.is_cpu() ? to.device() : from.device());
  if (from.device() == to.device()) {
    at::assert_no_internal_overlap(to);  // as torch's own copy does
    at::assert_no_partial_overlap(to, source);
    CopyWithin(source, to);
  } else if (from.is_cpu()) {
    CopyToDevice(source, to, non_blocking);
  } else if (to.is_cpu()) {
    CopyToHost(source, to, non_blocking);
  } else {
    CopyAcross(source, to);
  }
  return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) {
  if (from.sizes() != to.sizes()) to.resize_(from.sizes());
  return CopyFrom(from, to, false);
}

}  // namespace virtual_torch
