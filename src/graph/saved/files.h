// SPDX-License-Identifier: Apache-2.0
// Reading and writing whole files and folders, with errors that name the path.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace anyop {

// Throws NotAvailable with errno's text: "weights.bin cannot be read: No such file or directory."
[[noreturn]] void FailFile(const std::string& path, const std::string& what);

// A file that must not exist yet.
class NewFile {
 public:
  explicit NewFile(const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  void Write(const void* data, std::size_t bytes);
  void Close();  // when it returns, the content is on the disk

 private:
  const std::string path_;
  int file_;
};

void WriteText(const std::string& path, std::string_view text);
// Throws NotAvailable where it cannot be read, InvalidArgument beyond 64 MiB.
std::string ReadText(const std::string& path);

// A file mapped into memory, read-only.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // throws NotAvailable
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  char* data() const { return data_; }  // null where it is empty
  std::uint64_t bytes() const { return bytes_; }

 private:
  char* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// A folder that takes its final place whole, or is removed.
class NewFolder {
 public:
  // Beside `path`, which ends with no slash, on the same disk.
  explicit NewFolder(const std::string& path);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  const std::string& path() const { return path_; }
  // Takes the place of `path`, where nothing may be.
  void Commit();
  // Takes the place of the folder that is there, in one step. Of that one these files are removed;
  // where it holds another by now, it stays, under another name.
  void Replace(const std::vector<std::string>& files);

 private:
  const std::string target_;
  std::string path_;
};

}  // namespace anyop
