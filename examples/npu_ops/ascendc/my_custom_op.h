// SPDX-License-Identifier: Apache-2.0
#ifndef NPU_OPS_ASCENDC_MY_CUSTOM_OP_H_
#define NPU_OPS_ASCENDC_MY_CUSTOM_OP_H_

extern void MyCustomOpKernelEntry(uint32_t blockDims, void *l2ctrl, void *aclStream, uint8_t *input,
                                  uint8_t *output, int32_t param1, int32_t param2, int32_t size);

#endif  // NPU_OPS_ASCENDC_MY_CUSTOM_OP_H_
