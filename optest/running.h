// SPDX-License-Identifier: Apache-2.0
// What is running, so that the report of a crash can tell it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace anyop::optest {

// The call that everything below is for: two lines.
void NoteCall(const std::string& text);
// Reports that the test makes when it ends: a crash makes them first.
void NoteReports(const std::string& text);

// For as long as it lives, `who` is running: "kernel cpu_f32".
class Running {
 public:
  explicit Running(const std::string& who);
  ~Running();
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  std::string before_;
};
// Memory that whoever is running may use: a "result ", "y".
void NoteMemory(const void* begin, std::size_t bytes, std::string_view kind, std::string_view name);

// A signal that ends the process, or an exception that nothing catches, makes a report of one
// failure first.
void ReportCrashes();
// Handlers on this thread have a stack of their own: they report that its own is used up.
void UseStackForSignals();

}  // namespace anyop::optest
