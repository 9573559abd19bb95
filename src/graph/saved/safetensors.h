// SPDX-License-Identifier: Apache-2.0
// Files of named tensors in the safetensors format: 8 bytes with the length of a JSON header, the
// header, then the elements without gaps. https://github.com/huggingface/safetensors
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "anyop/runtime.h"
#include "graph/saved/files.h"

namespace anyop {

// Told about long writes; nothing by default.
struct WriteProgress {
  void (*tell)(void* data, std::int64_t written_bytes, std::int64_t all_bytes) = nullptr;
  void* data = nullptr;
};

struct NamedArray {
  std::string name;
  Array array;
  bool is_state = false;  // who reads the file may write to it, in memory of its own
};

// Fingerprints (platform/hash_bytes.h) of a file: one of the header and one of each tensor, so that
// a tensor that nobody uses need not be read.
struct TensorHashes {
  std::uint64_t header = 0;
  std::map<std::string, std::uint64_t> tensors;
};

// Writes a new file and has the system put it on the disk. Those of 64 * k bytes come first, each
// aligned to 64 bytes, state behind the others; then the rest, aligned to their elements. Throws
// NotAvailable where the system refuses.
TensorHashes WriteTensors(const std::string& path, std::vector<NamedArray> arrays,
                          const WriteProgress& progress = {});

// A file of tensors, mapped into memory: pages are read when they are touched first and shared by
// all who map them.
class TensorFile {
 public:
  // Throws NotAvailable if it cannot be read, InvalidArgument if its header is not right: every
  // byte of the file must belong to one tensor.
  explicit TensorFile(const std::string& path);

  bool Has(const std::string& name) const { return entries_.contains(name); }
  std::vector<std::string> names() const;
  // Of what is in the file now. HashOf reads the whole tensor, and throws as Get does.
  std::uint64_t HashOfHeader() const;
  std::uint64_t HashOf(const std::string& name) const;
  // Shares the file's memory, which lives as long as one array of it. Read-only until
  // MakeWritable. Throws InvalidArgument without such a tensor.
  Array Get(const std::string& name) const;
  // From the page of this tensor to the end, writes go to private copies of pages.
  void MakeWritable(const std::vector<std::string>& names) const;

 private:
  struct Entry {
    DType dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin, end;  // in the data
  };

  const Entry& Find(const std::string& name) const;
  void ReadHeader();
  void CheckCoverage() const;
  [[noreturn]] void Refuse(const std::string& what) const;

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::uint64_t data_begin_ = 0;
  std::map<std::string, Entry> entries_;
};

}  // namespace anyop
