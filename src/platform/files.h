// SPDX-License-Identifier: Apache-2.0
// Files as callers name them, which may be anything: a pipe, a device, a folder.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

namespace anyop {

// A descriptor of a regular file, open for reading, or -1 and why: "No such file or directory",
// "it is a folder", "it is no regular file". Others are refused, because opening or reading a pipe
// or a device may never end.
inline int OpenRegularFile(const std::string& path, std::string* why) {
  // Without O_NONBLOCK a pipe waits for somebody who writes to it.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat facts {};
  if (file < 0 || fstat(file, &facts)) {
    *why = std::strerror(errno);
  } else if (S_ISREG(facts.st_mode)) {
    return file;
  } else {
    *why = S_ISDIR(facts.st_mode) ? "it is a folder" : "it is no regular file";
  }
  if (file >= 0) close(file);
  return -1;
}

// Makes a folder and those above it that are not there, each for this user alone whatever the
// umask: libraries are loaded from anyop's cache. Whoever writes into it says what went wrong.
inline void MakeOwnFolder(const std::string& path) {
  std::error_code error;
  if (path.empty() || std::filesystem::exists(path, error)) return;
  const std::string above = std::filesystem::path(path).parent_path().string();
  if (above != path) MakeOwnFolder(above);
  mkdir(path.c_str(), 0700);
}

}  // namespace anyop
