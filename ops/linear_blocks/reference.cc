// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

double Half(const std::uint8_t* p) {
  F16 h;
  std::memcpy(&h, p, 2);
  return double(float(h));
}

// Bytes of a block, and of the f16 numbers at its start (not q6_K's, which are at its end).
std::int64_t BlockBytes(std::string_view format) {
  if (format == "q5_0") return 22;
  if (format == "q5_1") return 24;
  if (format == "q4_K") return 144;
  if (format == "q5_K") return 176;
  if (format == "q6_K") return 210;
  return format == "q4_0" ? 18 : format == "q4_1" ? 20 : 34;
}
std::int64_t ElementsOf(std::string_view format) { return format.back() == 'K' ? 256 : 32; }
std::int64_t NumberBytes(std::string_view format) {
  if (format == "q6_K") return 0;
  return format == "q4_0" || format == "q5_0" || format == "q8_0" ? 2 : 4;
}

// Element j of 32 of a block, split: its value is d * quant + m.
struct Parts {
  double d, quant, m;
  double value() const { return d * quant + m; }
};
// Bits [first, first + count) of bytes that are one long number.
int BitsAt(const std::uint8_t* bytes, int first, int count) {
  int found = 0;
  for (int i = 0; i < count; ++i) found |= (bytes[(first + i) / 8] >> (first + i) % 8 & 1) << i;
  return found;
}
// Element i of a superblock.
Parts SuperPartsAt(const std::uint8_t* block, std::string_view format, int i) {
  if (format == "q6_K") {
    const int half = i / 128, line = i % 128 / 32, j = i % 32;
    const int low = BitsAt(block, 8 * (64 * half + 32 * (line & 1) + j) + 4 * (line >> 1), 4);
    const int high = BitsAt(block + 128, 8 * (32 * half + j) + 2 * line, 2);
    const double scale = double(std::int8_t(block[192 + i / 16]));
    return {Half(block + 208) * scale, double(low + 16 * high - 32), -0.0};
  }
  const int p = i / 32, j = i % 32;
  const std::uint8_t* scales = block + 4;
  int scale = BitsAt(scales, 8 * p, 6), minimum = BitsAt(scales, 8 * (p + 4), 6);
  if (p >= 4) {
    scale = BitsAt(scales, 8 * (p + 4), 4) + 16 * BitsAt(scales, 8 * (p - 4) + 6, 2);
    minimum = BitsAt(scales, 8 * (p + 4) + 4, 4) + 16 * BitsAt(scales, 8 * p + 6, 2);
  }
  const bool is_five = format == "q5_K";
  const std::uint8_t* q = block + (is_five ? 48 : 16);
  int quant = BitsAt(q, 8 * (p / 2 * 32 + j) + 4 * (p % 2), 4);
  if (is_five) quant += 16 * BitsAt(block + 16, 8 * j + p, 1);
  return {Half(block) * scale, double(quant), -(Half(block + 2) * minimum)};
}
Parts PartsAt(const std::uint8_t* block, std::string_view format, int j) {
  if (ElementsOf(format) == 256) return SuperPartsAt(block, format, j);
  if (format == "q5_0" || format == "q5_1") {
    const bool has_m = format == "q5_1";
    const std::uint8_t* high = block + (has_m ? 4 : 2);
    const int quant = BitsAt(high + 4, 8 * (j % 16) + 4 * (j / 16), 4) + 16 * BitsAt(high, j, 1);
    return {Half(block), double(has_m ? quant : quant - 16), has_m ? Half(block + 2) : -0.0};
  }
  const double d = Half(block), none = -0.0;  // leaves every number as it is, -0 too
  const double m = format == "q4_1" ? Half(block + 2) : none;
  const std::uint8_t* q = block + NumberBytes(format);
  if (format == "q8_0") return {d, double(std::int8_t(q[j])), none};
  const int bits = j < 16 ? q[j] & 15 : q[j - 16] >> 4;
  return {d, double(format == "q4_0" ? bits - 8 : bits), m};
}

// Row r of x as linear_blocks with input 'q8' takes it: quantized in f32, step by step.
std::vector<double> RowOf(const Tensor& x, std::int64_t r, bool quantized) {
  const std::int64_t k = x.row_size();
  std::vector<double> row(std::size_t(k), 0.0);
  for (std::int64_t l = 0; l < k; ++l) row[std::size_t(l)] = Read(x, x.row_offset(r) + l);
  for (std::int64_t b = 0; quantized && b < k; b += 32) {
    float largest = 0;
    for (int j = 0; j < 32; ++j)
      largest = std::fmax(largest, std::fabs(float(row[std::size_t(b + j)])));
    const float d = largest / 127.0f, inverse = d != 0 ? 1.0f / d : 0.0f;
    for (int j = 0; j < 32; ++j) {
      double& element = row[std::size_t(b + j)];
      const float v = float(element) * inverse;
      element = double(d) * std::trunc(v + std::copysign(0.5f, v));
    }
  }
  return row;
}

// weight(j, l): element l of row j.
template <class Weight>
void Multiply(const Tensor& x, bool quantized, std::int64_t n, const Tensor* bias, const Tensor& y,
              Weight&& weight) {
  const std::int64_t k = x.row_size();
  std::vector<double> w(std::size_t(n * k), 0.0);
  for (std::int64_t i = 0; i < n * k; ++i) w[std::size_t(i)] = weight(i / k, i % k);
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    const std::vector<double> row = RowOf(x, i, quantized);
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = bias ? Read(*bias, j) : 0;
      for (std::int64_t l = 0; l < k; ++l) sum += row[std::size_t(l)] * w[std::size_t(j * k + l)];
      y.base<double>()[y.row_offset(i) + j] = sum;
    }
  }
}

void LinearBlocks(const Context&, const Tensor& x, const Tensor& weight, const Tensor* bias,
                  std::string_view input, std::string_view format, const Tensor& y) {
  const std::int64_t elements = ElementsOf(format);
  Multiply(x, input == "q8", weight.dim(0), bias, y, [&](std::int64_t j, std::int64_t l) {
    const auto* row = weight.base<const std::uint8_t>() + weight.row_offset(j);
    return PartsAt(row + l / elements * BlockBytes(format), format, int(l % elements)).value();
  });
}

// Where bits [first, first + count) of a block of row 0 are in the packed block, the first of them.
struct Piece {
  std::int64_t from, to, count;
};
// Bit `bit` of byte `byte` of the packed 16 rows, in the four bytes `four` of row 0.
std::int64_t PackedBit(std::int64_t start, std::int64_t four, std::int64_t byte, std::int64_t bit) {
  return 8 * (16 * start + 64 * four + byte) + bit;
}
// The bytes [first, end) of a block as they are, four of a row at a time.
void PlaceBytes(std::int64_t first, std::int64_t end, std::vector<Piece>& pieces) {
  for (std::int64_t i = 0; i < end - first; ++i) {
    pieces.push_back({8 * (first + i), PackedBit(first, i / 4, i % 4, 0), 8});
  }
}
void PlaceNumbers(std::int64_t first, std::int64_t end, std::vector<Piece>& pieces) {
  for (std::int64_t i = 0; i < end - first; ++i) {
    pieces.push_back({8 * (first + i), 8 * (16 * first + i / 2 * 32 + i % 2), 8});
  }
}
// Element i of q4_K, q5_K and q6_K has its low bits at bit LowBitsOf of the bytes of quants, and
// the bits above them at bit HighBitsOf of those.
std::int64_t LowBitsOf(int i, bool is_six) {
  const int j = i % 32, pair = is_six ? i / 128 * 2 + i / 32 % 2 : i / 64;
  return 8 * (32 * pair + j) + (is_six ? i / 64 % 2 : i / 32 % 2) * 4;
}
std::int64_t HighBitsOf(int i, bool is_six) {
  return is_six ? 8 * (i / 128 * 32 + i % 32) + i / 32 % 4 * 2 : 8 * (i % 32) + i / 32;
}
// Where the low bits, and those above them, of element i of a packed block are: parts of 32 one
// after another, k and k + 16 in a byte.
std::int64_t PackedLow(std::int64_t start, int i) {
  const int part = i / 32, j = i % 32;
  return PackedBit(start, part * 4 + j % 16 / 4, j % 4, j / 16 * 4);
}
std::int64_t PackedFifth(std::int64_t start, int i) {
  return PackedBit(start, i / 32, i % 4, i % 32 / 4);
}
std::int64_t PackedPair(std::int64_t start, int i) {
  return PackedBit(start, i / 32 * 2 + i % 32 / 16, i % 4, i % 16 / 4 * 2);
}

std::vector<Piece> PiecesOf(std::string_view format) {
  std::vector<Piece> pieces;
  const bool is_super = ElementsOf(format) == 256, is_six = format == "q6_K";
  const bool is_five = format[1] == '5';
  const std::int64_t numbers = NumberBytes(format);
  if (!is_six) PlaceNumbers(0, numbers, pieces);
  if (!is_super && !is_five) {
    PlaceBytes(numbers, BlockBytes(format), pieces);
    return pieces;
  }
  if (is_six) {
    PlaceBytes(192, 208, pieces);
    PlaceNumbers(208, 210, pieces);
  } else if (is_super) {
    PlaceBytes(4, 16, pieces);
  }
  const std::int64_t high = is_six ? 128 : is_super ? 16 : numbers;
  const std::int64_t low = is_six ? 0 : is_five ? high + (is_super ? 32 : 4) : high;
  for (int i = 0; i < ElementsOf(format); ++i) {
    const std::int64_t from = is_super ? LowBitsOf(i, is_six) : 8 * (i % 16) + i / 16 * 4;
    pieces.push_back({8 * low + from, PackedLow(low, i), 4});
    if (is_six) pieces.push_back({8 * high + HighBitsOf(i, true), PackedPair(high, i), 2});
    if (is_five) {
      const std::int64_t at = is_super ? HighBitsOf(i, false) : i;
      pieces.push_back({8 * high + at, PackedFifth(high, i), 1});
    }
  }
  return pieces;
}
// The same for row r: numbers are two bytes apart, all else four.
std::int64_t BitOfRow(const Piece& piece, std::int64_t r, std::string_view format) {
  const bool is_last = format == "q6_K" && piece.from >= 8 * 208;
  return piece.to + 8 * r * (is_last || piece.from < 8 * NumberBytes(format) ? 2 : 4);
}
void CopyBits(const std::uint8_t* from, std::int64_t first, std::int64_t count, std::uint8_t* to,
              std::int64_t at) {
  for (std::int64_t i = 0; i < count; ++i) {
    const int bit = from[(first + i) / 8] >> (first + i) % 8 & 1;
    auto& byte = to[(at + i) / 8];
    byte = std::uint8_t((byte & ~(1 << (at + i) % 8)) | bit << (at + i) % 8);
  }
}

void LinearBlocksPacked(const Context&, const Tensor& x, const Tensor& packed,
                        std::int64_t features, const Tensor* bias, std::string_view format,
                        const Tensor& y) {
  const std::int64_t elements = ElementsOf(format);
  const std::vector<Piece> pieces = PiecesOf(format);
  std::uint8_t block[210] = {};
  Multiply(x, true, features, bias, y, [&](std::int64_t j, std::int64_t l) {
    const auto* group = packed.at<const std::uint8_t>(j / 16, l / elements);
    for (const Piece& piece : pieces) {
      if (l % elements) break;
      CopyBits(group, BitOfRow(piece, j % 16, format), piece.count, block, piece.from);
    }
    return PartsAt(block, format, int(l % elements)).value();
  });
}

void PackBlocks(const Context&, const Tensor& weight, std::string_view format,
                const Tensor& packed) {
  const std::int64_t bytes = BlockBytes(format);
  const std::vector<Piece> pieces = PiecesOf(format);
  const std::vector<std::uint8_t> none(std::size_t(bytes), 0);
  for (std::int64_t row = 0; row < 16 * packed.dim(0); ++row) {
    for (std::int64_t b = 0; b < packed.dim(1); ++b) {
      const std::uint8_t* block =
          row < weight.dim(0) ? weight.at<const std::uint8_t>(row, b * bytes) : none.data();
      for (const Piece& piece : pieces) {
        CopyBits(block, piece.from, piece.count, packed.at<std::uint8_t>(row / 16, b),
                 BitOfRow(piece, row % 16, format));
      }
    }
  }
}

void DequantizeBlocks(const Context&, const Tensor& weight, std::string_view format,
                      const Tensor& x) {
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    for (std::int64_t l = 0; l < x.dim(1); ++l) {
      const std::int64_t elements = ElementsOf(format), at = l / elements * BlockBytes(format);
      const auto* block = weight.at<const std::uint8_t>(i, at);
      *x.at<double>(i, l) = PartsAt(block, format, int(l % elements)).value();
    }
  }
}

void EmbeddingBlocks(const Context&, const Tensor& ids, const Tensor& weight,
                     std::string_view format, DType, const Tensor& y) {
  const std::int64_t elements = ElementsOf(format), n = ids.row_size();
  for (std::int64_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ReadIndex(ids, ids.row_offset(i / n) + i % n);
    for (std::int64_t l = 0; l < y.dim(-1); ++l) {
      const std::int64_t at = l / elements * BlockBytes(format);
      y.row<double>(i)[std::size_t(l)] =
          id < 0
              ? 0
              : PartsAt(weight.at<const std::uint8_t>(id, at), format, int(l % elements)).value();
    }
  }
}

// The numbers of a block and its quants from 32 floats.
struct Quants {
  float d, m;
  int quant[32];
};
Quants QuantsOf(const float* x, std::string_view format) {
  Quants r{};
  float largest = x[0], low = x[0], high = x[0];
  for (int j = 0; j < 32; ++j) {
    if (std::fabs(x[j]) > std::fabs(largest)) largest = x[j];
    low = std::min(low, x[j]);
    high = std::max(high, x[j]);
  }
  if (format == "q4_0") r.d = largest / -8;
  if (format == "q4_1") r.d = (high - low) / 15, r.m = low;
  if (format == "q8_0") r.d = std::fabs(largest) / 127;
  const float inverse = r.d != 0 ? 1 / r.d : 0;
  for (int j = 0; j < 32; ++j) {
    const float v = (x[j] - r.m) * inverse;
    if (format == "q4_0") r.quant[j] = int(std::fmin(15, std::trunc(v + 8.5f)));
    if (format == "q4_1") r.quant[j] = int(std::fmin(15, std::trunc(v + 0.5f)));
    if (format == "q8_0") r.quant[j] = int(std::trunc(v + std::copysign(0.5f, v)));
  }
  return r;
}

void QuantizeBlocks(const Context&, const Tensor& x, std::string_view format,
                    const Tensor& weight) {
  for (std::int64_t i = 0; i < x.dim(0); ++i) {
    for (std::int64_t b = 0; b < x.dim(1) / 32; ++b) {
      float values[32];
      for (int j = 0; j < 32; ++j) values[j] = float(Read(x, x.row_offset(i) + 32 * b + j));
      const Quants r = QuantsOf(values, format);
      auto* block = weight.at<std::uint8_t>(i, b * BlockBytes(format));
      const F16 numbers[2] = {F16(r.d), F16(r.m)};
      std::memcpy(block, numbers, std::size_t(NumberBytes(format)));
      std::uint8_t* q = block + NumberBytes(format);
      for (int j = 0; j < (format == "q8_0" ? 32 : 16); ++j) {
        q[j] = std::uint8_t(format == "q8_0" ? r.quant[j] : r.quant[j] | r.quant[j + 16] << 4);
      }
    }
  }
}

}  // namespace

extern constinit const Reference linear_blocks_reference{.op = "linear_blocks",
                                                         .run = Bind<&LinearBlocks>()};
extern constinit const Reference linear_blocks_packed_reference{.op = "linear_blocks_packed",
                                                                .run = Bind<&LinearBlocksPacked>()};
extern constinit const Reference pack_blocks_reference{.op = "pack_blocks",
                                                       .run = Bind<&PackBlocks>()};
extern constinit const Reference quantize_blocks_reference{.op = "quantize_blocks",
                                                           .run = Bind<&QuantizeBlocks>()};
extern constinit const Reference embedding_blocks_reference{.op = "embedding_blocks",
                                                            .run = Bind<&EmbeddingBlocks>()};
extern constinit const Reference dequantize_blocks_reference{.op = "dequantize_blocks",
                                                             .run = Bind<&DequantizeBlocks>()};

}  // namespace anyop::ops
