// SPDX-License-Identifier: Apache-2.0
// far: a device for tests, whose memory the host cannot touch and whose work ends late.
//
// Two virtual devices (devices/virtual) that are as unkind as devices may be. A program that takes
// a return for an end, forgets an event or reads what lies on the device is right on most devices
// most of the time; here it is wrong, or stopped with a line that names device and offset.
//
// What tests may ask of it beyond the table. Environment: FAR_SEED, FAR_DELAY_US, FAR_MEMORY_BYTES.
#pragma once
#include "anyop/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint32_t size;
  uint32_t streams;           // that are not destroyed, and those whose work has not ended
  uint32_t threads;           // of streams, in use or idle
  uint32_t allocations;       // that are not given back
  uint64_t launches;          // by `submit`, that have run
  uint64_t skipped_launches;  // behind a late error
  uint64_t copies;            // that have run
  uint64_t waits;             // of the host: `synchronize` and `synchronize_event`
} far_counts;

// Before first use of the device; what is 0 stays as it is.
ANYOP_EXPORT void far_settings(uint64_t seed, uint64_t memory_bytes);
// The longest delay before a piece of work, from now on; 0: none. By default 100.
ANYOP_EXPORT void far_delay(uint32_t longest_us);
// Work on the stream does not begin until it is let go as often as it was held.
ANYOP_EXPORT int far_hold(anyop_stream stream);
ANYOP_EXPORT int far_let_go(anyop_stream stream);
// Waits for the stream's work, and tells nobody what went wrong in it.
ANYOP_EXPORT int far_finish(anyop_stream stream);
ANYOP_EXPORT int far_count(int32_t device, far_counts* to);

#ifdef __cplusplus
}
#endif
