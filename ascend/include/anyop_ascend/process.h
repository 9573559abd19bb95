// SPDX-License-Identifier: Apache-2.0
// A device has no process that a kernel could end. What would end it goes to the runtime, which
// ends the block with a finding; called by host code of the file, it ends the process as ever.
#pragma once
#include <cstdlib>

#ifndef __THROW  // glibc's word for functions that throw nothing
#define __THROW noexcept
#endif

// Another name for the linker, given to functions that <cstdlib> has declared already.
extern "C" {
void exit(int) __THROW __asm__("anyop_ascend_exit") __attribute__((noreturn));
void _exit(int) __asm__("anyop_ascend_exit_now") __attribute__((noreturn));
void _Exit(int) __THROW __asm__("anyop_ascend_exit_now") __attribute__((noreturn));
void quick_exit(int) __THROW __asm__("anyop_ascend_quick_exit") __attribute__((noreturn));
void abort() __THROW __asm__("anyop_ascend_abort") __attribute__((noreturn));
}
