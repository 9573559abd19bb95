// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string_view>
#include <vector>

#include "anyop/op.h"

namespace anyop::ops {
namespace {

int ByteAt(const Tensor& t, std::int64_t at) { return t.base<const std::uint8_t>()[at]; }
int HalfOf(int byte, std::int64_t i) { return i % 2 ? byte >> 4 : byte & 15; }

// A row of x as the formula takes it: itself, or the values of its bytes.
std::vector<double> RowOfX(const Tensor& x, std::int64_t row, std::string_view input) {
  std::vector<double> values;
  float largest = 0;
  for (std::int64_t l = 0; l < x.row_size(); ++l) {
    values.push_back(Read(x, x.row_offset(row) + l));
    if (std::fabs(float(values.back())) > largest) largest = std::fabs(float(values.back()));
  }
  if (input == "exact") return values;
  const float inverse = 127 / largest;  // the steps in f32 decide which byte it is
  for (double& v : values) {
    const float q = float(v) * inverse;
    v = std::isnan(q) ? 0 : std::nearbyint(std::fmax(-127, std::fmin(q, 127)));
  }
  return values;
}
double ScaleOfX(const Tensor& x, std::int64_t row, std::string_view input) {
  float largest = 0;
  for (std::int64_t l = 0; l < x.row_size() && input == "int8"; ++l) {
    const float v = std::fabs(float(Read(x, x.row_offset(row) + l)));
    if (v > largest) largest = v;
  }
  return largest == 0 ? 1 : double(largest / 127);
}

// quant(j, l), scale(j, i) and zero(j, i) are those of feature j, input l and group i.
template <class Quant, class Scale, class Zero>
void Multiply(const Tensor& x, std::int64_t groups, const Tensor* bias, const Tensor* group_index,
              std::string_view input, const Tensor& y, Quant&& quant, Scale&& scale, Zero&& zero) {
  const std::int64_t k = x.row_size();
  for (std::int64_t i = 0; i < x.rows(); ++i) {
    const std::vector<double> row = RowOfX(x, i, input);
    const double scale_of_x = ScaleOfX(x, i, input);
    for (std::int64_t j = 0; j < y.row_size(); ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        const std::int64_t group = group_index ? ReadIndex(*group_index, l) : l / (k / groups);
        if (group < 0) continue;
        sum += row[std::size_t(l)] * (quant(j, l) - zero(j, group)) * scale(j, group);
      }
      y.row<double>(i)[std::size_t(j)] = sum * scale_of_x + (bias ? Read(*bias, j) : 0);
    }
  }
}

void LinearU4(const Context&, const Tensor& x, const Tensor& weight, const Tensor& scale,
              const Tensor* zero, const Tensor* bias, const Tensor* group_index,
              std::string_view input, const Tensor& y) {
  Multiply(
      x, scale.dim(1), bias, group_index, input, y,
      [&](std::int64_t j, std::int64_t l) {
        return HalfOf(ByteAt(weight, weight.row_offset(j) + l / 2), l);
      },
      [&](std::int64_t j, std::int64_t i) { return Read(scale, scale.row_offset(j) + i); },
      [&](std::int64_t j, std::int64_t i) {
        return zero ? ByteAt(*zero, zero->row_offset(j) + i) : 8;
      });
}

void LinearU4Packed(const Context&, const Tensor& x, const Tensor& packed, std::int64_t features,
                    const Tensor& scale, const Tensor* zero, const Tensor* bias,
                    const Tensor* group_index, std::string_view input, const Tensor& y) {
  Multiply(
      x, scale.dim(0), bias, group_index, input, y,
      [&](std::int64_t j, std::int64_t l) {
        return HalfOf(ByteAt(packed, (j / 16 * packed.dim(1) + l) * 8 + j % 16 / 2), j);
      },
      [&](std::int64_t j, std::int64_t i) { return Read(scale, scale.row_offset(i) + j); },
      [&](std::int64_t j, std::int64_t i) {
        if (!zero) return 8;
        if (zero->dim(1) == features) return ByteAt(*zero, zero->row_offset(i) + j);
        return HalfOf(ByteAt(*zero, zero->row_offset(i) + j / 2), j);
      });
}

int PlaceOf(std::string_view layout, std::int64_t i) {
  constexpr int kAwq[] = {0, 4, 1, 5, 2, 6, 3, 7};
  return layout == "awq" ? kAwq[i % 8] : int(i % 8);
}
int PlaceAt(const Tensor& words, std::int64_t row, std::int64_t column, int place) {
  return int(words.at<std::uint32_t>(row)[column] >> 4 * place & 15);
}

void RowsU4(const Context&, const Tensor& words, std::string_view layout, const Tensor& weight) {
  const auto quant = [&](std::int64_t j, std::int64_t l) {
    if (layout == "gptq") return PlaceAt(words, l / 8, j, PlaceOf(layout, l));
    if (layout == "awq") return PlaceAt(words, l, j / 8, PlaceOf(layout, j));
    if (layout == "rows") return PlaceAt(words, j, l / 8, PlaceOf(layout, l));
    return PlaceAt(words, j / 16, 2 * l + j / 8 % 2, PlaceOf(layout, j));
  };
  for (std::int64_t j = 0; j < weight.dim(0); ++j) {
    for (std::int64_t b = 0; b < weight.dim(1); ++b) {
      *weight.at<std::uint8_t>(j, b) = std::uint8_t(quant(j, 2 * b) | quant(j, 2 * b + 1) << 4);
    }
  }
}

void ZerosU4(const Context&, const Tensor& words, std::string_view layout, const Tensor& zero) {
  for (std::int64_t j = 0; j < zero.dim(0); ++j) {
    for (std::int64_t i = 0; i < zero.dim(1); ++i) {
      const int place = PlaceOf(layout, j);
      const int stored =
          layout == "rows" ? PlaceAt(words, j / 8, i, place) : PlaceAt(words, i, j / 8, place);
      *zero.at<std::uint8_t>(j, i) = std::uint8_t(stored + (layout == "gptq_v1" ? 1 : 0));
    }
  }
}

void PackU4(const Context&, const Tensor& weight, const Tensor& packed) {
  for (std::int64_t a = 0; a < packed.dim(0); ++a) {
    for (std::int64_t l = 0; l < packed.dim(1); ++l) {
      int halves[16] = {};
      for (std::int64_t r = 0; r < 16 && 16 * a + r < weight.dim(0); ++r) {
        halves[r] = HalfOf(*weight.at<std::uint8_t>(16 * a + r, l / 2), l);
      }
      for (int b = 0; b < 8; ++b) {
        packed.at<std::uint8_t>(a, l)[b] = std::uint8_t(halves[2 * b] | halves[2 * b + 1] << 4);
      }
    }
  }
}

void PackGroupsU4(const Context&, const Tensor& numbers, const Tensor& packed) {
  for (std::int64_t i = 0; i < packed.dim(0); ++i) {
    for (std::int64_t j = 0; j < packed.dim(1); ++j) {
      if (numbers.type() == DType::kU8) {
        *packed.at<std::uint8_t>(i, j) = *numbers.at<std::uint8_t>(j, i);
      } else {
        *packed.at<double>(i, j) = Read(numbers, numbers.row_offset(j) + i);
      }
    }
  }
}

}  // namespace

extern constinit const Reference linear_u4_reference{.op = "linear_u4", .run = Bind<&LinearU4>()};
extern constinit const Reference linear_u4_packed_reference{.op = "linear_u4_packed",
                                                            .run = Bind<&LinearU4Packed>()};
extern constinit const Reference rows_u4_reference{.op = "rows_u4", .run = Bind<&RowsU4>()};
extern constinit const Reference zeros_u4_reference{.op = "zeros_u4", .run = Bind<&ZerosU4>()};
extern constinit const Reference pack_u4_reference{.op = "pack_u4", .run = Bind<&PackU4>()};
extern constinit const Reference pack_groups_u4_reference{.op = "pack_groups_u4",
                                                          .run = Bind<&PackGroupsU4>()};

}  // namespace anyop::ops
