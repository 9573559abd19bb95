// SPDX-License-Identifier: Apache-2.0
#include "graph/saved/files.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "platform/error.h"
#include "platform/files.h"

namespace anyop {

void FailFile(const std::string& path, const std::string& what) {
  const std::string why = std::strerror(errno);
  Fail(errno == ENOMEM ? ANYOP_OUT_OF_MEMORY : ANYOP_NOT_AVAILABLE,
       path + " " + what + ": " + why + ".");
}

NewFile::NewFile(const std::string& path)
    : path_(path), file_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (file_ < 0) FailFile(path_, "cannot be written");
}
NewFile::~NewFile() {
  if (file_ >= 0) close(file_);
}

void NewFile::Write(const void* data, std::size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = write(file_, at, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) FailFile(path_, "cannot be written");
    at += n;
    bytes -= std::size_t(n);
  }
}

void NewFile::Close() {
  if (fsync(file_) || close(std::exchange(file_, -1))) FailFile(path_, "cannot be written");
}

void WriteText(const std::string& path, std::string_view text) {
  NewFile file(path);
  file.Write(text.data(), text.size());
  file.Close();
}

namespace {

int Opened(const std::string& path) {
  std::string why;
  const int file = OpenRegularFile(path, &why);
  if (file < 0) Fail(ANYOP_NOT_AVAILABLE, path + " cannot be read: " + why + ".");
  return file;
}

}  // namespace

std::string ReadText(const std::string& path) {
  constexpr std::size_t kLongest = 64 << 20, kStep = 1 << 16;
  const int file = Opened(path);
  std::string text;
  ssize_t n = 0;
  do {
    const std::size_t at = text.size();
    text.resize(at + kStep);
    n = read(file, text.data() + at, kStep);
    text.resize(at + std::size_t(std::max<ssize_t>(n, 0)));
  } while (n > 0 && text.size() <= kLongest);
  const int error = errno;  // of read, which close may change
  close(file);
  errno = error;
  if (n < 0) FailFile(path, "cannot be read");
  if (text.size() > kLongest) {
    Fail(ANYOP_INVALID_ARGUMENT, path + " is longer than 64 MiB, but no saved text is.");
  }
  return text;
}

MappedFile::MappedFile(const std::string& path) {
  const int file = Opened(path);
  struct stat facts {};
  bool is_right = fstat(file, &facts) == 0;
  bytes_ = is_right ? std::uint64_t(facts.st_size) : 0;
  if (is_right && bytes_) {
    void* memory = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
    is_right = memory != MAP_FAILED;
    if (is_right) data_ = static_cast<char*>(memory);
  }
  const int error = errno;
  close(file);
  errno = error;
  if (!is_right) FailFile(path, "cannot be mapped into memory");
}
MappedFile::~MappedFile() {
  if (data_) munmap(data_, bytes_);
}

NewFolder::NewFolder(const std::string& path) : target_(path), path_(path + ".new-XXXXXX") {
  if (!mkdtemp(path_.data())) FailFile(target_, "cannot be written");
  // mkdtemp's folders are their owner's alone; this one gets the rights of any new folder. A umask
  // can only be read by setting it.
  const mode_t mask = umask(0);
  umask(mask);
  chmod(path_.c_str(), 0777 & ~mask);
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void NewFolder::Commit() {
  const char *from = path_.c_str(), *to = target_.c_str();
  const bool is_done = renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0 ||
                       // Some file systems cannot; rename replaces nothing but an empty folder.
                       ((errno == EINVAL || errno == ENOSYS) && rename(from, to) == 0);
  if (!is_done) FailFile(target_, "cannot be written");
  path_.clear();
}

void NewFolder::Replace(const std::vector<std::string>& files) {
  const char *from = path_.c_str(), *to = target_.c_str();
  std::string old = path_;
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE)) {
    // A file system without exchange: for a moment there is nothing at the path.
    old = path_ + "-old";
    if (rename(to, old.c_str()) || rename(from, to)) FailFile(target_, "cannot be replaced");
  }
  path_.clear();
  for (const std::string& file : files) unlink((old + "/" + file).c_str());
  rmdir(old.c_str());
}

}  // namespace anyop
