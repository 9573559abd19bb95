// SPDX-License-Identifier: Apache-2.0
#include "bindings/torch_unlinked/torch_schema.h"

#include <gtest/gtest.h>

namespace anyop::python::torch_schema_test {
namespace {

std::string Schema(std::string_view text, SchemaKind kind = SchemaKind::kFunctional) {
  return TorchSchema(*ParseContract(text), kind);
}

constexpr const char* kRmsNorm =
    "rms_norm(x: T[..., d], weight: T[d]?, eps: float = 1e-6) -> (y: T[..., d] over x)";

TEST(Schema, SpellsEveryKind) {
  EXPECT_EQ(Schema(kRmsNorm), "rms_norm(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor");
  EXPECT_EQ(
      Schema("f(a: mut T[n], b: mut T[n]?, l: mut U[n]*, m: U[n]*, i: int, o: int?, t: int[n], s: "
             "int[2] = "
             "[1, 1], g: float[]?, h: bool = True, w: 'x' | 'y' = 'y', to: dtype = bf16) -> (y: "
             "T[n], z: "
             "to[n]?)"),
      "f(Tensor(a!) a, Tensor(b!)? b, Tensor(c!)[] l, Tensor[] m, SymInt i, SymInt? o, SymInt[] t, "
      "SymInt[2] s=[1, 1], float[]? g=None, bool h=True, str w=\"y\", ScalarType to=bfloat16, "
      "bool[2]? output_mask=None) -> (Tensor y, Tensor z)");
  EXPECT_EQ(Schema("f(a: mut f32[n]) -> ()"), "f(Tensor(a!) a) -> ()");
}

TEST(Schema, OutVariantsTakeTheResults) {
  EXPECT_EQ(Schema(kRmsNorm, SchemaKind::kOut),
            "rms_norm.out(Tensor x, Tensor? weight=None, float eps=1e-6, *, Tensor(a!) out) -> "
            "Tensor(a!)");
  EXPECT_EQ(Schema("f(x: T[n]) -> (y: T[n], z: T[n])", SchemaKind::kOut),
            "f.out(Tensor x, *, Tensor(a!) out_y, Tensor(b!) out_z) -> ()");
  EXPECT_EQ(Schema("f(a: mut T[n]) -> (y: T[n])", SchemaKind::kOut),
            "f.out(Tensor(a!) a, *, Tensor(b!) out) -> ()");
  EXPECT_EQ(Schema("f(n: int) -> (y: f32[n])", SchemaKind::kOut),
            "f.out(SymInt n, *, Tensor(a!) out) -> Tensor(a!)");
  EXPECT_EQ(Schema("f(a: mut f32[n]) -> ()", SchemaKind::kOut), "");
}

TEST(Schema, InPlaceVariantsNeedOver) {
  EXPECT_EQ(Schema(kRmsNorm, SchemaKind::kInPlace),
            "rms_norm_(Tensor(a!) x, Tensor? weight=None, float eps=1e-6) -> Tensor(a!)");
  EXPECT_EQ(Schema("f(x: T[n]) -> (y: T[n])", SchemaKind::kInPlace), "");
  EXPECT_EQ(Schema("f(x: T[n], y: T[n]) -> (z: T[n] over y)", SchemaKind::kInPlace), "");
  EXPECT_EQ(Schema("f(x: T[n], y: mut T[n]) -> (z: T[n] over x)", SchemaKind::kInPlace), "");
  EXPECT_EQ(Schema("f(x: T[n]) -> (z: T[n]? over x)", SchemaKind::kInPlace), "");
}

TEST(Schema, ResultsThatMayBeDeclinedHaveAMask) {
  constexpr const char* text = "g(dy: T[n], w: T[n]?) -> (dx: T[n]?, dw: T[n]?)";
  EXPECT_EQ(Schema(text),
            "g(Tensor dy, Tensor? w=None, bool[2]? output_mask=None) -> (Tensor dx, Tensor dw)");
  EXPECT_EQ(Schema(text, SchemaKind::kOut),
            "g.out(Tensor dy, Tensor? w=None, bool[2]? output_mask=None, *, Tensor(a!) out_dx, "
            "Tensor(b!) out_dw) -> ()");
  EXPECT_EQ(Schema("g(dy: T[n]) -> (dx: T[n]?)", SchemaKind::kOut),
            "g.out(Tensor dy, *, Tensor(a!) out) -> Tensor(a!)");
}

TEST(Schema, IsTheUnionOfTheForms) {
  EXPECT_EQ(Schema("f(x: T[n], s: int[2] = [1, 2], w: 'a' = 'a') -> (y: T[n])\n"
                   "f(x: T[n], s: int[3], w: 'b') -> (y: T[1])"),
            "f(Tensor x, SymInt[] s=[1, 2], str w=\"a\") -> Tensor");
}

}  // namespace
}  // namespace anyop::python::torch_schema_test
