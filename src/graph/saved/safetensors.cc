// SPDX-License-Identifier: Apache-2.0
#include "graph/saved/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "graph/saved/files.h"
#include "graph/saved/json_text.h"
#include "platform/byte_count.h"
#include "platform/error.h"
#include "platform/hash_bytes.h"
#include "platform/safetensors_header.h"

namespace anyop {
namespace {

constexpr std::uint64_t kLongestHeader = 100 << 20;  // as the format's own library has it
constexpr std::int64_t kChunk = 8 << 20;

// The format has no gaps. Tensors of whole cache lines come first, so that all of these are aligned
// to lines. States lie together, because MakeWritable works by pages: few pages of other tensors
// become writable with them.
void SortForFile(std::vector<NamedArray>* arrays) {
  const auto key = [](const NamedArray& a) {
    const bool is_odd = a.array.bytes() % kSafetensorsAlignment != 0;
    return std::tuple(is_odd, !is_odd && a.is_state, -Bytes(a.array.dtype()));
  };
  std::stable_sort(arrays->begin(), arrays->end(),
                   [&](const NamedArray& a, const NamedArray& b) { return key(a) < key(b); });
}

}  // namespace

TensorHashes WriteTensors(const std::string& path, std::vector<NamedArray> arrays,
                          const WriteProgress& progress) {
  SortForFile(&arrays);
  SafetensorsHeader tensors("anyop");
  std::int64_t all = 0, written = 0;
  for (const NamedArray& a : arrays) {
    tensors.Add(a.name, a.array.dtype(), a.array.shape(), a.array.bytes());
    all += a.array.bytes();
  }
  const std::string header = tensors.Finish();
  NewFile file(path);
  TensorHashes hashes;
  hashes.header = HashBytes(header.data(), header.size());
  file.Write(header.data(), header.size());
  for (const NamedArray& a : arrays) {
    const Array dense = a.array.is_contiguous() ? a.array : a.array.Clone();
    hashes.tensors[a.name] = HashBytes(dense.data(), std::size_t(dense.bytes()));
    for (std::int64_t at = 0; at < dense.bytes(); at += kChunk) {
      const std::int64_t n = std::min(kChunk, dense.bytes() - at);
      file.Write(dense.data<char>() + at, std::size_t(n));
      written += n;
      if (progress.tell) progress.tell(progress.data, written, all);
    }
  }
  file.Close();
  return hashes;
}

void TensorFile::Refuse(const std::string& what) const {
  Fail(ANYOP_INVALID_ARGUMENT, path_ + ": " + what + " The file is damaged; save it again.");
}

TensorFile::TensorFile(const std::string& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  ReadHeader();
  CheckCoverage();
}

void TensorFile::ReadHeader() {
  std::uint64_t length;
  if (file_->bytes() < sizeof length) {
    Refuse("it holds " + std::to_string(file_->bytes()) + " bytes, but must hold a header.");
  }
  std::memcpy(&length, file_->data(), sizeof length);
  const std::uint64_t rest = file_->bytes() - sizeof length;
  if (length > std::min(rest, kLongestHeader)) {
    Refuse("its header is " + std::to_string(length) + " bytes long, but the file holds " +
           std::to_string(rest) + " bytes, of which a header is at most 100 MiB.");
  }
  data_begin_ = sizeof length + length;
  const std::string what = path_ + ": the header";
  const Json header = ParseJson({file_->data() + sizeof length, std::size_t(length)}, what);
  if (!header.is_object()) Refuse("its header is no JSON object.");
  for (const auto& [name, row] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string whose = what + ", " + name;
    const std::string dtype = JsonField<std::string>(row, "dtype", whose);
    const int number = FindSafetensorsName(dtype);
    if (number < 0) Refuse(name + " has the dtype '" + dtype + "', which is unknown.");
    Entry entry{DType(number), JsonNumbers(row, "shape", whose), 0, 0};
    const std::vector<std::int64_t> range = JsonNumbers(row, "data_offsets", whose);
    const std::uint64_t data = file_->bytes() - data_begin_;
    const bool is_range = range.size() == 2 && range[0] >= 0 && range[0] <= range[1];
    if (!is_range || std::uint64_t(range[1]) > data) {
      Refuse(name + " lies outside of the file, which holds " + std::to_string(data) +
             " bytes of tensors.");
    }
    entry.begin = std::uint64_t(range[0]), entry.end = std::uint64_t(range[1]);
    bool fits = entry.shape.size() <= std::size_t(Array::kMaxRank);
    for (const std::int64_t n : entry.shape) fits = fits && n >= 0;
    const std::int64_t bytes = fits ? TensorBytes(Bytes(entry.dtype), entry.shape) : -1;
    if (std::uint64_t(bytes) != entry.end - entry.begin) {
      Refuse(name + " has " + std::to_string(entry.end - entry.begin) +
             " bytes, which do not fit its shape.");
    }
    entries_.emplace(name, std::move(entry));
  }
}

void TensorFile::CheckCoverage() const {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const auto& [name, e] : entries_) ranges.emplace_back(e.begin, e.end);
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at)
      Refuse(begin < at ? "two tensors overlap." : "there is a gap before a tensor.");
    at = end;
  }
  if (at != file_->bytes() - data_begin_) {
    Refuse("the tensors take " + std::to_string(at) + " bytes, but the file holds " +
           std::to_string(file_->bytes() - data_begin_) + ".");
  }
}

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const TensorFile::Entry& TensorFile::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return found->second;
  Fail(ANYOP_INVALID_ARGUMENT,
       path_ + ": there is no tensor '" + name + "'." + DidYouMean(name, names()));
}

Array TensorFile::Get(const std::string& name) const {
  const Entry& e = Find(name);
  // The file lives as long as an array of it.
  std::shared_ptr<void> owner = std::make_shared<std::shared_ptr<const MappedFile>>(file_);
  return Array::Wrap(file_->data() + data_begin_ + e.begin, e.shape, e.dtype, {}, std::move(owner));
}

std::uint64_t TensorFile::HashOfHeader() const { return HashBytes(file_->data(), data_begin_); }

std::uint64_t TensorFile::HashOf(const std::string& name) const {
  const Entry& e = Find(name);
  return HashBytes(file_->data() + data_begin_ + e.begin, e.end - e.begin);
}

void TensorFile::MakeWritable(const std::vector<std::string>& names) const {
  const std::uint64_t page = std::uint64_t(sysconf(_SC_PAGESIZE));
  for (const std::string& name : names) {
    const Entry& e = entries_.at(name);
    const std::uint64_t begin = (data_begin_ + e.begin) / page * page, end = data_begin_ + e.end;
    if (e.begin == e.end) continue;
    if (mprotect(file_->data() + begin, end - begin, PROT_READ | PROT_WRITE)) {
      FailFile(path_, "cannot be made writable in memory");
    }
  }
}

}  // namespace anyop
