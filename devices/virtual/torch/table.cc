// SPDX-License-Identifier: Apache-2.0
#include "table.h"

#include <c10/util/Exception.h>

#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace virtual_torch {
namespace {

const anyop_device* g_table = nullptr;

struct Kept {
  anyop_event end;
  std::shared_ptr<void> what;
};
// Never destroyed: the process may end with work under way.
struct AllKept {
  std::mutex mutex;
  std::map<anyop_stream, std::deque<Kept>> by_stream;
};
AllKept& TheKept() {
  static auto& all = *new AllKept;
  return all;
}

// Those of the stream whose work is over; they die behind the lock.
std::vector<Kept> TakeOver(AllKept& all, anyop_stream stream) {
  std::vector<Kept> over;
  const std::lock_guard lock(all.mutex);
  std::deque<Kept>& kept = all.by_stream[stream];
  while (!kept.empty()) {
    std::int32_t is_complete = 0;
    if (g_table->query_event(kept.front().end, &is_complete) != ANYOP_OK || !is_complete) break;
    over.push_back(std::move(kept.front()));
    kept.pop_front();
  }
  return over;
}

}  // namespace

const anyop_device* Table() { return g_table; }
void SetTable(const anyop_device* table) { g_table = table; }
std::string Word() { return g_table->word; }

// As torch's adapter of anyop does: the same error is of the same kind, whoever sees it.
void Raise(int code, const std::string& text) {
  switch (code) {
    case ANYOP_INVALID_ARGUMENT:
      C10_THROW_ERROR(ValueError, text);
    case ANYOP_UNSUPPORTED:
      C10_THROW_ERROR(NotImplementedError, text);
    case ANYOP_OUT_OF_MEMORY:
      C10_THROW_ERROR(OutOfMemoryError, text);
    default:
      C10_THROW_ERROR(Error, text);
  }
}

void Must(int code) {
  if (code != ANYOP_OK) Raise(code, Word() + ": " + g_table->error_text());
}

void Sweep(anyop_stream stream) {
  for (const Kept& kept : TakeOver(TheKept(), stream)) g_table->destroy_event(kept.end);
}

void RaiseLate(c10::DeviceIndex index, anyop_stream stream) {
  char message[512] = "";
  const int code = g_table->late_error(index, stream, stream == nullptr, message, sizeof message);
  if (!message[0]) Must(code);
  if (code != ANYOP_OK) Raise(code, message);
}

void Order(anyop_stream before, anyop_stream after, c10::DeviceIndex index) {
  if (before == after) return;
  anyop_event event;
  Must(g_table->create_event(index, &event));
  Must(g_table->record_event(event, before));
  Must(g_table->wait_event(event, after));
  Must(g_table->destroy_event(event));
}

void KeepUntilOver(std::shared_ptr<void> what, anyop_stream stream, c10::DeviceIndex index) {
  Sweep(stream);
  AllKept& all = TheKept();
  const std::lock_guard lock(all.mutex);
  anyop_event end;
  Must(g_table->create_event(index, &end));
  Must(g_table->record_event(end, stream));
  all.by_stream[stream].push_back({end, std::move(what)});
}

}  // namespace virtual_torch
