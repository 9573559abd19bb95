// SPDX-License-Identifier: Apache-2.0
#include "graph/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "graph/files.h"
#include "graph/json_text.h"
#include "runtime/error.h"

namespace anyop {
namespace {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian");

// By DType.
constexpr std::string_view kNames[kDTypes] = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2",
                                              "I64", "I32", "I16", "I8",   "U8",      "BOOL"};
constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kLongestHeader = 100 << 20;  // as the format's own library has it
constexpr std::int64_t kChunk = 8 << 20;

int FindName(const std::string& name) {
  for (int i = 0; i < kDTypes; ++i) {
    if (kNames[i] == name) return i;
  }
  return -1;
}

// Whole lines of the cache first: the format has no gaps. States lie together, so that few pages
// of the others become writable.
void Order(std::vector<NamedArray>* arrays) {
  const auto key = [](const NamedArray& a) {
    const bool is_odd = a.array.bytes() % std::int64_t(kAlignment) != 0;
    return std::tuple(is_odd, !is_odd && a.is_state, -Bytes(a.array.dtype()));
  };
  std::stable_sort(arrays->begin(), arrays->end(),
                   [&](const NamedArray& a, const NamedArray& b) { return key(a) < key(b); });
}

std::string Header(const std::vector<NamedArray>& arrays) {
  Json header = Json::object();
  header["__metadata__"] = {{"format", "anyop"}};
  std::int64_t at = 0;
  for (const NamedArray& a : arrays) {
    Json& entry = header[a.name];
    entry["dtype"] = kNames[int(a.array.dtype())];
    entry["shape"] = std::vector<std::int64_t>(a.array.shape().begin(), a.array.shape().end());
    entry["data_offsets"] = {at, at + a.array.bytes()};
    at += a.array.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 8 + kAlignment - 1) / kAlignment * kAlignment - 8, ' ');
  return text;
}

}  // namespace

void WriteTensors(const std::string& path, std::vector<NamedArray> arrays,
                  const WriteProgress& progress) {
  Order(&arrays);
  const std::string header = Header(arrays);
  std::int64_t all = 0, written = 0;
  for (const NamedArray& a : arrays) all += a.array.bytes();
  NewFile file(path);
  const std::uint64_t length = header.size();
  file.Write(&length, sizeof length);
  file.Write(header.data(), header.size());
  for (const NamedArray& a : arrays) {
    const Array dense = a.array.is_contiguous() ? a.array : a.array.Clone();
    for (std::int64_t at = 0; at < dense.bytes(); at += kChunk) {
      const std::int64_t n = std::min(kChunk, dense.bytes() - at);
      file.Write(dense.data<char>() + at, std::size_t(n));
      written += n;
      if (progress.tell) progress.tell(progress.data, written, all);
    }
  }
  file.Close();
}

TensorFile::Mapping::~Mapping() {
  if (memory) munmap(memory, bytes);
}

void TensorFile::Refuse(const std::string& what) const {
  Fail(ANYOP_INVALID_ARGUMENT, path_ + ": " + what + " The file is damaged; save it again.");
}

TensorFile::TensorFile(const std::string& path)
    : path_(path), mapping_(std::make_shared<Mapping>()) {
  Map();
  ReadHeader();
  CheckCoverage();
}

void TensorFile::Map() {
  const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) FailFile(path_, "cannot be read");
  struct stat facts {};
  const bool is_known = fstat(file, &facts) == 0;
  const std::uint64_t bytes = is_known ? std::uint64_t(facts.st_size) : 0;
  void* memory = MAP_FAILED;
  if (is_known && bytes >= 8) {
    memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
  }
  const int error = errno;
  close(file);
  if (bytes < 8) Refuse("it holds " + std::to_string(bytes) + " bytes, but must hold a header.");
  errno = error;
  if (memory == MAP_FAILED) FailFile(path_, "cannot be mapped into memory");
  mapping_->memory = static_cast<char*>(memory);
  mapping_->bytes = bytes;
}

void TensorFile::ReadHeader() {
  std::uint64_t length;
  std::memcpy(&length, mapping_->memory, sizeof length);
  const std::uint64_t rest = mapping_->bytes - sizeof length;
  if (length > std::min(rest, kLongestHeader)) {
    Refuse("its header is " + std::to_string(length) + " bytes long, but the file holds " +
           std::to_string(rest) + " bytes, of which a header is at most 100 MiB.");
  }
  data_begin_ = sizeof length + length;
  const std::string what = path_ + ": the header";
  const Json header = ParseJson({mapping_->memory + sizeof length, std::size_t(length)}, what);
  if (!header.is_object()) Refuse("its header is no JSON object.");
  for (const auto& [name, row] : header.items()) {
    if (name == "__metadata__") continue;
    const std::string whose = what + ", " + name;
    const std::string dtype = JsonField<std::string>(row, "dtype", whose);
    const int number = FindName(dtype);
    if (number < 0) Refuse(name + " has the dtype '" + dtype + "', which is unknown.");
    Entry entry{DType(number), JsonNumbers(row, "shape", whose), 0, 0};
    const std::vector<std::int64_t> range = JsonNumbers(row, "data_offsets", whose);
    const std::uint64_t data = mapping_->bytes - data_begin_;
    const bool is_range = range.size() == 2 && range[0] >= 0 && range[0] <= range[1];
    if (!is_range || std::uint64_t(range[1]) > data) {
      Refuse(name + " lies outside of the file, which holds " + std::to_string(data) +
             " bytes of tensors.");
    }
    entry.begin = std::uint64_t(range[0]), entry.end = std::uint64_t(range[1]);
    std::int64_t bytes = Bytes(entry.dtype);
    bool fits = entry.shape.size() <= std::size_t(Array::kMaxRank);
    for (const std::int64_t n : entry.shape) {
      fits = fits && n >= 0 && !__builtin_mul_overflow(bytes, n, &bytes);
    }
    if (!fits || std::uint64_t(bytes) != entry.end - entry.begin) {
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
  if (at != mapping_->bytes - data_begin_) {
    Refuse("the tensors take " + std::to_string(at) + " bytes, but the file holds " +
           std::to_string(mapping_->bytes - data_begin_) + ".");
  }
}

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

Array TensorFile::Get(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    Fail(ANYOP_INVALID_ARGUMENT,
         path_ + ": there is no tensor '" + name + "'." + DidYouMean(name, names()));
  }
  const Entry& e = found->second;
  return Array::Wrap(mapping_->memory + data_begin_ + e.begin, e.shape, e.dtype, {}, mapping_);
}

void TensorFile::MakeWritable(const std::vector<std::string>& names) const {
  const std::uint64_t page = std::uint64_t(sysconf(_SC_PAGESIZE));
  for (const std::string& name : names) {
    const Entry& e = entries_.at(name);
    const std::uint64_t begin = (data_begin_ + e.begin) / page * page, end = data_begin_ + e.end;
    if (e.begin == e.end) continue;
    if (mprotect(mapping_->memory + begin, end - begin, PROT_READ | PROT_WRITE)) {
      FailFile(path_, "cannot be made writable in memory");
    }
  }
}

}  // namespace anyop
