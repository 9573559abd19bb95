// SPDX-License-Identifier: Apache-2.0
#include "anyop/stream.h"

#include <charconv>
#include <utility>

#include "platform/error.h"
#include "platform/of_thread.h"
#include "runtime/device/device.h"
#include "runtime/registry/registry.h"

namespace anyop {

struct StreamState {
  StreamState(const DeviceKind& k, int n, anyop_stream s, bool ours)
      : kind(&k), number(n), native(s), is_ours(ours) {}
  ~StreamState() {
    // Others are the device's own, or a framework's.
    if (is_ours) kind->table.destroy_stream(native);
  }
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  const DeviceKind* const kind;
  const int number;
  const anyop_stream native;
  const bool is_ours;
};

struct EventState {
  EventState(const DeviceKind& k, int n) : kind(&k), number(n) {
    kind->Check(kind->table.create_event(number, &native), number);
  }
  ~EventState() { kind->table.destroy_event(native); }
  EventState(const EventState&) = delete;
  EventState& operator=(const EventState&) = delete;

  const DeviceKind* const kind;
  const int number;
  anyop_event native = nullptr;
};

namespace {

// The streams of this thread's open StreamScopes, the innermost last.
std::vector<std::shared_ptr<StreamState>>& Streams() {
  return OfThread<std::vector<std::shared_ptr<StreamState>>>::Get();
}

// How many scopes were open when the framework called: those behind them were opened in its call.
thread_local std::size_t scopes_before_host = 0;

// The innermost scope for the device, of those behind the first `outer` ones; null: none.
const std::shared_ptr<StreamState>* InnermostScope(const DeviceKind& kind, int number,
                                                   std::size_t outer = 0) {
  const auto& streams = Streams();
  for (std::size_t i = streams.size(); i > outer; --i) {
    const std::shared_ptr<StreamState>& at = streams[i - 1];
    if (at->kind == &kind && at->number == number) return &at;
  }
  return nullptr;
}

const DeviceKind& KindNamed(std::string_view word, std::string_view name) {
  if (const DeviceKind* kind = FindDeviceKind(word)) return *kind;
  LoadBuiltIn();  // and what ANYOP_LOAD names
  if (const DeviceKind* kind = FindDeviceKind(word)) return *kind;
  std::string known = "cpu";
  for (const DeviceKind* k : DeviceKinds()) known += ", " + k->word;
  Fail(ANYOP_NOT_AVAILABLE, "there is no device '" + std::string(name) + "', but " + known +
                                ". Try anyop.load of the device's library first.");
}

// Refuses an event of another kind: its pointer means nothing to this device's library, and would
// be followed.
void CheckIsOf(const DeviceKind& kind, const DeviceKind& other, const std::string& cannot) {
  if (&kind == &other) return;
  Fail(ANYOP_INVALID_ARGUMENT, cannot + " an event of " + other.word + ", but of " + kind.word +
                                   " alone. Try Synchronize of the event, which the host waits "
                                   "for.");
}

}  // namespace

Device::Device(std::string_view name) : device_(kHostDevice) {
  if (name == "cpu" || name == "cpu:0") return;
  const std::size_t colon = name.find(':');
  const DeviceKind& kind = KindNamed(name.substr(0, colon), name);
  if (colon != name.npos) {
    const char* end = name.data() + name.size();
    const auto read = std::from_chars(name.data() + colon + 1, end, device_.device_id);
    // from_chars takes a minus, which no number of a device has.
    const bool has_sign = name[std::min(colon + 1, name.size() - 1)] == '-';
    if (has_sign || read.ec != std::errc() || read.ptr != end) {
      Fail(ANYOP_INVALID_ARGUMENT, "'" + std::string(name) +
                                       "' names no device, which is a word and a number: '" +
                                       kind.NameOf(0) + "'.");
    }
  }
  kind.CheckNumber(device_.device_id);
  device_.device_type = kind.table.dlpack_type;
}

std::string Device::name() const {
  if (is_host()) return "cpu";
  const DeviceKind* kind = FindDeviceKind(device_.device_type);
  if (!kind) return "device type " + std::to_string(device_.device_type);
  return kind->NameOf(device_.device_id);
}

namespace {

DeviceInfo InfoOf(const DeviceKind& kind, int number) {
  DeviceInfo info;
  info.device = DLDevice{kind.table.dlpack_type, number};
  info.library = kind.file;
  anyop_device_properties p{};
  p.size = sizeof p;
  try {
    kind.Check(kind.table.properties(number, &p), number);
  } catch (const Error& e) {
    info.error = e.what();
    return info;
  }
  info.model = p.name ? p.name : "";
  info.features = p.features ? p.features : "";
  info.cores = p.cores;
  info.total_bytes = p.total_bytes;
  info.free_bytes = p.free_bytes;
  return info;
}

}  // namespace

std::vector<DeviceInfo> Devices() {
  LoadBuiltIn();  // and what ANYOP_LOAD names
  std::vector<DeviceInfo> all;
  for (const DeviceKind* kind : DeviceKinds()) {
    // A library that cannot count its devices has none, and says why when one is asked for.
    const int count = kind->table.count();
    for (int number = 0; number < count; ++number) all.push_back(InfoOf(*kind, number));
  }
  return all;
}

void Synchronize(Device device) {
  if (device.is_host()) return;
  const DeviceKind& kind = CheckedKindOf(device.dl());
  const int number = device.dl().device_id;
  kind.Check(kind.table.synchronize(number, nullptr), number);
  RaiseLate(kind, number, nullptr, /*all_streams=*/true);
}

bool Event::is_complete() const {
  std::int32_t is_complete = 1;  // also of an event that was never recorded
  if (state_) {
    state_->kind->Check(state_->kind->table.query_event(state_->native, &is_complete),
                        state_->number);
  }
  return is_complete;
}

void Event::Synchronize() const {
  if (!state_) return;
  state_->kind->Check(state_->kind->table.synchronize_event(state_->native), state_->number);
}

double ElapsedMs(const Event& from, const Event& to) {
  if (!from.state_ || !to.state_) {
    Fail(ANYOP_INVALID_ARGUMENT, "an event was never recorded, so that no time lies between.");
  }
  double ms = 0;
  const EventState& e = *from.state_;
  CheckIsOf(*e.kind, *to.state_->kind,
            "time since an event of " + e.kind->word + " cannot be told at");
  e.kind->Check(e.kind->table.elapsed(e.native, to.state_->native, &ms), e.number);
  return ms;
}

namespace {
const DeviceKind& KindWithStreams(Device device) {
  if (device.is_host()) Fail(ANYOP_INVALID_ARGUMENT, "the host has no streams: its calls wait.");
  return CheckedKindOf(device.dl());
}
}  // namespace

Stream::Stream(Device device) {
  const DeviceKind& kind = KindWithStreams(device);
  const int number = device.dl().device_id;
  anyop_stream native = nullptr;
  kind.Check(kind.table.create_stream(number, &native), number);
  state_ = std::make_shared<StreamState>(kind, number, native, true);
}

Stream Stream::Wrap(Device device, void* native) {
  const DeviceKind& kind = KindWithStreams(device);
  return Stream(std::make_shared<StreamState>(kind, device.dl().device_id, native, false));
}

Stream Stream::Current(Device device) {
  return Stream(HoldCurrentStream(KindWithStreams(device), device.dl().device_id));
}

Device Stream::device() const { return DLDevice{state_->kind->table.dlpack_type, state_->number}; }
void* Stream::native() const { return state_->native; }

Event Stream::Record() const {
  Event event;
  event.state_ = std::make_shared<EventState>(*state_->kind, state_->number);
  state_->kind->Check(state_->kind->table.record_event(event.state_->native, state_->native),
                      state_->number);
  return event;
}

void Stream::Wait(const Event& event) const {
  if (!event.state_) return;
  CheckIsOf(*state_->kind, *event.state_->kind,
            "a stream of " + state_->kind->NameOf(state_->number) + " cannot wait for");
  state_->kind->Check(state_->kind->table.wait_event(event.state_->native, state_->native),
                      state_->number);
}

void Stream::Synchronize() const {
  state_->kind->Check(state_->kind->table.synchronize(state_->number, state_->native),
                      state_->number);
  RaiseLate(*state_->kind, state_->number, state_->native);
}

StreamScope::StreamScope(const Stream& stream) { Streams().push_back(stream.state_); }
StreamScope::~StreamScope() {
  auto& streams = Streams();
  // Empty for a static scope, which has outlived what the thread kept.
  if (!streams.empty()) streams.pop_back();
}

CallingDeviceHost::CallingDeviceHost(const DeviceHost* host)
    : outer_(device_host), outer_scopes_(scopes_before_host) {
  device_host = host;
  scopes_before_host = Streams().size();
}
CallingDeviceHost::~CallingDeviceHost() {
  device_host = outer_;
  scopes_before_host = outer_scopes_;
}

const DeviceHost* HostOf(const DeviceKind& kind, int number) {
  if (!device_host || InnermostScope(kind, number, scopes_before_host)) return nullptr;
  return device_host;
}

anyop_stream CurrentStream(const DeviceKind& kind, int number) {
  if (const DeviceHost* host = HostOf(kind, number)) {
    return host->stream({kind.table.dlpack_type, number});
  }
  const auto* scope = InnermostScope(kind, number);
  return scope ? (*scope)->native : kind.table.default_stream(number);
}

std::shared_ptr<StreamState> HoldCurrentStream(const DeviceKind& kind, int number) {
  const auto* scope = HostOf(kind, number) ? nullptr : InnermostScope(kind, number);
  if (scope) return *scope;
  return std::make_shared<StreamState>(kind, number, CurrentStream(kind, number), false);
}

}  // namespace anyop
