// SPDX-License-Identifier: Apache-2.0
// A plugin's side of a bound call, in C99: what it does when a graph is compiled, and when it runs.
#include <stdio.h>
#include <string.h>

#include "anyop/host.h"

static int failed(void) {
  printf("%s\n", anyop_error_text());
  return 1;
}

// ---8<---
/* Compiling: the node's attribute is a text. Sizes that nobody knows yet are -1. */
static int infer(const char* text) {
  const anyop_call* call;
  if (anyop_find_call(text, strlen(text), &call)) return failed();
  int64_t shape[] = {-1, 4};
  DLTensor x = {NULL, {1, 0}, 2, {0, 0, 0}, shape, NULL, 0}; /* the dtype is in the text */
  anyop_shape y;
  if (anyop_infer_call(call, &x, 1, &y, 1)) return failed();
  printf("y has %d dimensions, the last of size %d\n", (int)y.rank, (int)y.shape[1]);
  return 0;
}

/* Running: on any thread, in the scope of the text, whatever that of the thread. */
static int run(const char* text, float* from, float* to) {
  const anyop_call* call;
  if (anyop_find_call(text, strlen(text), &call)) return failed();
  int64_t shape[] = {1, 4};
  DLDataType f32 = {2, 32, 1};
  DLTensor x = {from, {1, 0}, 2, f32, shape, NULL, 0};
  DLTensor y = {to, {1, 0}, 2, f32, shape, NULL, 0};
  if (anyop_run_call(call, &x, 1, &y, 1)) return failed();
  printf("%.4f %.4f\n", to[0], to[3]);
  return 0;
}

/* Differentiating: the gradient is a bound call too, and a text. */
static int differentiate(const char* text) {
  const anyop_call* call;
  if (anyop_find_call(text, strlen(text), &call)) return failed();
  const uint8_t wanted[] = {1};
  anyop_gradient gradient;
  gradient.size = sizeof gradient;
  if (anyop_gradient_of_call(call, wanted, 1, NULL, 0, &gradient)) return failed();
  printf("%s\n", anyop_call_text(gradient.gradient));
  for (uint32_t i = 0; i < gradient.n_sources; ++i) {
    const anyop_source source = gradient.sources[i];
    printf("  input %u is %s %d\n", i,
           source.kind == ANYOP_SOURCE_INPUT ? "input" : "the gradient of result",
           (int)source.index);
  }
  return 0;
}
// --->8---

int main(void) {
  const char* text = "anyop.call/1 anyop.rms_norm(x = f32, eps = 0.0) -> y in batch_invariant";
  float x[] = {3, 3, 3, 3}, y[4];
  if (anyop_host_version() < ANYOP_HOST_VERSION) return 1;
  if (infer(text) || run(text, x, y) || differentiate(text)) return 1;
  return infer("anyop.call/1 anyop.rms_nom(x = f32) -> y") ? 0 : 1; /* refused */
}
