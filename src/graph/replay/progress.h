// SPDX-License-Identifier: Apache-2.0
// How far a thread's calls of graphs came.
#pragma once

namespace anyop {

// One call of a graph, from before its arguments are looked at until it has returned or thrown.
// A call that was refused before it wrote anything but its own memory and its results may be made
// again in another way: by the framework that owns the program.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // To be called before the innermost call writes what outlives it: inputs and state.
  static void Writes();
  // Of this thread's last call that has ended.
  static bool LastHasWritten();

 private:
  Progress* const outer_;
  bool has_written_ = false;
};

}  // namespace anyop
