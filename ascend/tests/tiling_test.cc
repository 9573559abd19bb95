// SPDX-License-Identifier: Apache-2.0
// Tiling functions as op_host files write them, called through the C interface.
#include <gtest/gtest.h>

#include <string>

#include "on_core.h"
#include "stubs/exe_graph/runtime/tiling_context.h"
#include "stubs/register/op_def_registry.h"
#include "stubs/register/op_impl_registry.h"
#include "stubs/register/tilingdata_base.h"
#include "stubs/tiling/platform/platform_ascendc.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ScaleRowsTiling)
TILING_DATA_FIELD_DEF(uint32_t, rows)
TILING_DATA_FIELD_DEF(uint32_t, columns)
TILING_DATA_FIELD_DEF(float, factor)
TILING_DATA_FIELD_DEF(uint64_t, ub)
END_TILING_DATA_DEF;

static ge::graphStatus ScaleRows(gert::TilingContext* context) {
  ScaleRowsTiling tiling;
  const auto* shape = context->GetInputShape(0);
  if (shape == nullptr || shape->GetStorageShape().GetDimNum() != 2) return ge::GRAPH_FAILED;
  auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
  uint64_t ub = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
  const auto rows = static_cast<uint32_t>(shape->GetStorageShape().GetDim(0));
  const auto type = context->GetInputDesc(0)->GetDataType();
  tiling.set_rows(rows);
  tiling.set_columns(static_cast<uint32_t>(shape->GetOriginShape().GetDim(1)));
  tiling.set_factor(*context->GetAttrs()->GetAttrPointer<float>(1));
  tiling.set_ub(ub);
  const bool is_wide = *context->GetAttrs()->GetBool(0);
  context->SetTilingKey(type == ge::DT_BF16 ? 27 : is_wide ? 2 : 1);
  context->SetBlockDim(std::min(rows, platform.GetCoreNumAiv()));
  size_t* workspaces = context->GetWorkspaceSizes(1);
  workspaces[0] = platform.GetLibApiWorkSpaceSize() + rows;
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(),
                      context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}

struct GatherInfo {
  uint32_t cores = 0;
};
struct GatherTiling {
  int64_t sum;
  int64_t given;
  uint32_t cores;
};
static ge::graphStatus PrepareGather(gert::TilingParseContext* context) {
  auto* info = context->GetCompiledInfo<GatherInfo>();
  info->cores = platform_ascendc::PlatformAscendC(context->GetPlatformInfo()).GetCoreNumAiv();
  return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Gather(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<GatherTiling>();
  if (tiling == nullptr) return ge::GRAPH_FAILED;
  const gert::Tensor* sizes = context->GetInputTensor(1);
  tiling->sum = 0;
  for (int64_t i = 0; i < sizes->GetShapeSize(); ++i) tiling->sum += sizes->GetData<int64_t>()[i];
  const auto* axes = context->GetAttrs()->GetListInt(0);
  for (size_t i = 0; i < axes->GetSize(); ++i) tiling->sum += axes->GetData()[i];
  tiling->given = context->GetOptionalInputShape(2) != nullptr;
  tiling->cores = static_cast<const GatherInfo*>(context->GetCompileInfo())->cores;
  context->SetBlockDim(std::string(context->GetAttrs()->GetStr(1)) == "one" ? 1 : 2);
  return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(GatherSizes).Tiling(Gather).TilingParse<GatherInfo>(PrepareGather);

struct ListsTiling {
  uint64_t tensors;
  uint64_t ranks[2];
  uint64_t rank_behind;
  ge::DataType type;
};
// A list, and a tensor behind it.
static ge::graphStatus Lists(gert::TilingContext* context) {
  auto* tiling = context->GetTilingData<ListsTiling>();
  const auto* info = context->GetComputeNodeInfo()->GetInputInstanceInfo(0);
  if (context->GetComputeNodeInfo()->GetIrInputsNum() != 2 || info->GetInstanceStart() != 0 ||
      context->GetDynamicInputShape(0, 2) || context->GetComputeNodeInputNum() != 3) {
    return ge::GRAPH_FAILED;
  }
  tiling->tensors = info->GetInstanceNum();
  for (size_t i = 0; i < 2; ++i)
    tiling->ranks[i] = context->GetDynamicInputShape(0, i)->GetStorageShape().GetDimNum();
  tiling->rank_behind = context->GetRequiredInputShape(1)->GetStorageShape().GetDimNum();
  tiling->type = context->GetDynamicInputDesc(0, 1)->GetDataType();
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(Lists).Tiling(Lists);

static ge::graphStatus NoBlocks(gert::TilingContext*) { return ge::GRAPH_SUCCESS; }
IMPL_OP_OPTILING(NoBlocks).Tiling(NoBlocks);
static ge::graphStatus OneBlock(gert::TilingContext* context) {
  context->SetBlockDim(1);
  return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {
static graphStatus InferShape(gert::InferShapeContext* context) {
  *context->GetOutputShape(0) = *context->GetInputShape(0);
  return GRAPH_SUCCESS;
}
}  // namespace ge

namespace ops {
class ScaleRows : public OpDef {
 public:
  explicit ScaleRows(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16, ge::DT_BF16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND})
        .UnknownShapeFormat({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_BF16});
    this->Attr("wide").AttrType(OPTIONAL).Bool(true);
    this->Attr("factor").AttrType(REQUIRED).Float();
    this->SetInferShape(ge::InferShape);
    this->AICore().SetTiling(optiling::ScaleRows);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(ScaleRows);
// x and scale have the types of one place; any type goes with index; list takes any number.
class Typed : public OpDef {
 public:
  explicit Typed(const char* name) : OpDef(name) {
    this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_INT8});
    this->Input("scale").ParamType(REQUIRED).DataType({ge::DT_FLOAT16, ge::DT_FLOAT});
    this->Input("index").ParamType(OPTIONAL).DataTypeList({ge::DT_INT32, ge::DT_INT64});
    this->Input("list").ParamType(DYNAMIC).DataType({ge::DT_FLOAT16, ge::DT_FLOAT16});
    this->AICore().SetTiling(optiling::OneBlock);
  }
};
OP_ADD(Typed);
}  // namespace ops

namespace ascend_tests {
namespace {

anyop_ascend_attribute Attribute(const char* name, char kind) {
  anyop_ascend_attribute attribute{};
  attribute.name = name;
  attribute.kind = kind;
  return attribute;
}
template <class T>
anyop_ascend_tiling_call CallWith(T& data) {
  anyop_ascend_tiling_call call{};
  call.bytes = sizeof call;
  call.data = &data;
  call.capacity = sizeof data;
  return call;
}
struct ScaleCall {
  std::int64_t dims[2] = {70, 33};
  anyop_ascend_tensor x{1, 2, dims, nullptr, 0};
  anyop_ascend_attribute attributes[2] = {Attribute("factor", 'f'), Attribute("wide", 'b')};
  optiling::ScaleRowsTiling tiling;
  anyop_ascend_tiling_call call = CallWith(tiling);

  ScaleCall() {
    attributes[0].number = 2.5f;
    call.input = call.output = &x;
    call.inputs = call.outputs = 1;
    call.attribute = attributes;
    call.attributes = 2;
  }
};

TEST(Tiling, IsMadeByTheFunctionOfTheOperator) {
  ScaleCall scale;
  ASSERT_EQ(anyop_ascend_tiling("scale_rows", &scale.call), 0) << anyop_ascend_error();
  EXPECT_EQ(scale.tiling.rows, 70u);
  EXPECT_EQ(scale.tiling.columns, 33u);
  EXPECT_EQ(scale.tiling.factor, 2.5f);
  EXPECT_EQ(scale.tiling.ub, 192u * 1024);
  EXPECT_EQ(scale.call.data_bytes, sizeof scale.tiling);
  EXPECT_EQ(scale.call.tiling_key, 1u);
  EXPECT_EQ(scale.call.block_dim, 40u);
  EXPECT_EQ(scale.call.workspace_bytes, 16u * 1024 * 1024 + 70);
  EXPECT_EQ(scale.call.status, 0u);
}
TEST(Tiling, TakesDefaultsOfTheDefinition) {
  ScaleCall scale;
  scale.call.attributes = 1;
  ASSERT_EQ(anyop_ascend_tiling("ScaleRows", &scale.call), 0) << anyop_ascend_error();
  EXPECT_EQ(scale.call.tiling_key, 2u);
  scale.x.dtype = 27;
  ASSERT_EQ(anyop_ascend_tiling("ScaleRows", &scale.call), 0);
  EXPECT_EQ(scale.call.tiling_key, 27u);
}
TEST(Tiling, TakesAttributesWithoutNamesInTheirOrder) {
  ScaleCall scale;
  std::swap(scale.attributes[0], scale.attributes[1]);
  scale.attributes[0].integer = 1;
  scale.attributes[0].name = scale.attributes[1].name = nullptr;
  ASSERT_EQ(anyop_ascend_tiling("ScaleRows", &scale.call), 0) << anyop_ascend_error();
  EXPECT_EQ(scale.tiling.factor, 2.5f);
  EXPECT_EQ(scale.call.tiling_key, 2u);
}
TEST(Tiling, AsksTheSocThatIsConfigured) {
  Configure(false, 0, "ascend310p");
  ScaleCall scale;
  ASSERT_EQ(anyop_ascend_tiling("ScaleRows", &scale.call), 0);
  EXPECT_EQ(scale.tiling.ub, 256u * 1024);
  EXPECT_EQ(scale.call.block_dim, 8u);
  Configure(false, 0);
}
TEST(Tiling, ReadsValuesListsTextsAndWhatIsParsedBefore) {
  const std::int64_t sizes[] = {5, 6, 7}, three[] = {3}, axes[] = {100, 200};
  const anyop_ascend_tensor inputs[] = {
      {0, 1, three, nullptr, 0}, {9, 1, three, sizes, 0}, {-1, 0, nullptr, nullptr, 0}};
  anyop_ascend_attribute attributes[] = {Attribute(nullptr, 'I'), Attribute(nullptr, 's')};
  attributes[0].integers = axes;
  attributes[0].count = 2;
  attributes[1].text = "one";
  optiling::GatherTiling tiling{};
  auto call = CallWith(tiling);
  call.input = inputs;
  call.inputs = 3;
  call.attribute = attributes;
  call.attributes = 2;
  ASSERT_EQ(anyop_ascend_tiling("GatherSizes", &call), 0) << anyop_ascend_error();
  EXPECT_EQ(tiling.sum, 318);
  EXPECT_EQ(tiling.given, 0);
  EXPECT_EQ(tiling.cores, 40u);
  EXPECT_EQ(call.block_dim, 1u);
  EXPECT_EQ(call.data_bytes, sizeof tiling);
}
TEST(Tiling, CountsTensorsOfListsAndArguments) {
  const std::int64_t sizes[] = {5, 6, 7};
  const anyop_ascend_tensor inputs[] = {
      {0, 1, sizes, nullptr, 1}, {1, 2, sizes, nullptr, 0}, {9, 3, sizes, nullptr, 0}};
  optiling::ListsTiling tiling{};
  auto call = CallWith(tiling);
  call.input = inputs;
  call.inputs = 3;
  ASSERT_EQ(anyop_ascend_tiling("Lists", &call), 0) << anyop_ascend_error();
  EXPECT_EQ(tiling.tensors, 2u);
  EXPECT_EQ(tiling.ranks[0], 1u);
  EXPECT_EQ(tiling.ranks[1], 2u);
  EXPECT_EQ(tiling.rank_behind, 3u);
  EXPECT_EQ(tiling.type, ge::DT_FLOAT16);
}
TEST(Tiling, SaysWhatIsWrong) {
  ScaleCall scale;
  const auto error_of = [&](const char* op) {
    EXPECT_EQ(anyop_ascend_tiling(op, &scale.call), 1);
    return std::string(anyop_ascend_error());
  };
  EXPECT_EQ(
      error_of("Scale"),
      "Scale: no library that is loaded has a tiling function for it, but for GatherSizes, "
      "Lists, NoBlocks, ScaleRows, Typed. Try IMPL_OP_OPTILING or OP_ADD in the op_host file");
  EXPECT_EQ(error_of("NoBlocks"),
            "NoBlocks: the tiling function sets no number of blocks. Try SetBlockDim");
  scale.x.rank = 1;
  EXPECT_EQ(error_of("ScaleRows"), "ScaleRows: the tiling function has failed");
  EXPECT_EQ(scale.call.status, ge::GRAPH_FAILED);
  scale.x.rank = 2;
  scale.attributes[1].name = "widest";
  EXPECT_EQ(error_of("ScaleRows"), "ScaleRows: there is no attribute 'widest'");
  scale.call.attributes = 0;
  EXPECT_EQ(error_of("ScaleRows"),
            "ScaleRows: the attribute 'factor' is not given and has no default");
  scale.call.attributes = 1;
  scale.call.capacity = 8;
  EXPECT_EQ(error_of("ScaleRows"),
            "ScaleRows: the tiling data have 24 bytes, but there is room for 8");
  scale.call.bytes = 3;
  EXPECT_EQ(error_of("ScaleRows"),
            "anyop_ascend_tiling: a call of 3 bytes, but this runtime's have " +
                std::to_string(sizeof scale.call) + ". Compile against its kernel_table.h");
}
TEST(Tilings, AreListedWithWhatTheirDefinitionsSay) {
  const auto listed = nlohmann::json::parse(anyop_ascend_tilings());
  EXPECT_EQ(listed["ScaleRows"].dump(),
            R"({"attributes":[{"kind":"b","name":"wide","optional":true},)"
            R"({"kind":"f","name":"factor","optional":false}],"inputs":["x"],"outputs":["y"]})");
  EXPECT_EQ(listed["GatherSizes"].dump(), R"({"attributes":[],"inputs":[],"outputs":[]})");
}

// What a call with inputs of these types is told; "" where it is taken. The last ones are a list.
std::string SaidOf(const std::vector<int>& types, std::uint32_t listed = 0) {
  std::vector<anyop_ascend_tensor> inputs;
  const std::int64_t dim = 4;
  for (const int type : types) inputs.push_back({type, 1, &dim, nullptr, 0});
  for (std::uint32_t i = 1; i < listed; ++i) inputs[inputs.size() - 1 - i].more = i;
  int data = 0;
  auto call = CallWith(data);
  call.inputs = static_cast<std::uint32_t>(inputs.size());
  call.input = inputs.data();
  return anyop_ascend_tiling("Typed", &call) ? anyop_ascend_error() : "";
}
TEST(Tilings, TakeTheTypesOfTheirDefinition) {
  constexpr int kF32 = 0, kF16 = 1, kI8 = 2, kI32 = 3, kI64 = 9, kBf16 = 27, kAbsent = -1;
  EXPECT_EQ(SaidOf({kF16, kF16}), "");
  EXPECT_EQ(SaidOf({kI8, kF32, kI32}), "");
  EXPECT_EQ(SaidOf({kF16, kF16, kI64, kF16, kF16}, 2), "");
  EXPECT_EQ(SaidOf({kF16, kF16, kI64, kF16, kBf16}, 2),
            "Typed: 'list' is DT_BF16, but its definition takes DT_FLOAT16. Try one of these, or "
            "add the type to DataType of the definition");
  EXPECT_EQ(SaidOf({kF16, kF16, kI64, kI64}, 2),
            "Typed: the input 'index' is no list of tensors by its definition. Try DYNAMIC, or one "
            "tensor");
  EXPECT_EQ(SaidOf({kF16, kF16, kAbsent}), "");
  EXPECT_EQ(SaidOf({kBf16, kF16}),
            "Typed: 'x' is DT_BF16, but its definition takes DT_FLOAT16, DT_INT8. Try one of "
            "these, or add the type to DataType of the definition");
  EXPECT_EQ(SaidOf({kI8, kF16}),
            "Typed: 'x' is DT_INT8, 'scale' is DT_FLOAT16, but no place of the lists of DataType "
            "has these together. Try types of one place, or add a place to each list");
  EXPECT_EQ(SaidOf({kF16, kF16, kF32}),
            "Typed: 'index' is DT_FLOAT, but its definition takes DT_INT32, DT_INT64. Try one of "
            "these, or add the type to DataType of the definition");
  EXPECT_EQ(SaidOf({kF16}),
            "Typed: the input 'scale' is REQUIRED by its definition, but is not given. Inputs are "
            "the tensors that are no `out`, in order");
}

}  // namespace
}  // namespace ascend_tests
