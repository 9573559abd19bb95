// SPDX-License-Identifier: Apache-2.0
// What a launch of the kernel gets: how many blocks, and the numbers of scale_tiling.h.
#include "register/op_def_registry.h"
#include "register/op_impl_registry.h"
#include "scale_tiling.h"
#include "tiling/platform/platform_ascendc.h"
namespace optiling {
static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  ScaleTilingData tiling;
  auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
  const uint32_t size = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
  tiling.set_size(size);
  tiling.set_factor(*context->GetAttrs()->GetAttrPointer<float>(0));
  context->SetBlockDim(std::min<uint32_t>((size + 255) / 256, platform.GetCoreNumAiv()));
  context->SetTilingKey(context->GetInputDesc(0)->GetDataType() == ge::DT_FLOAT ? 1 : 2);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(),
                      context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  context->GetWorkspaceSizes(1)[0] = 1024;
  return ge::GRAPH_SUCCESS;
}
}  // namespace optiling
namespace ops {
class Scale : public OpDef {
 public:
  explicit Scale(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Output("y")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Attr("factor").AttrType(OPTIONAL).Float(2.0);
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(Scale);
}  // namespace ops
