# SPDX-License-Identifier: Apache-2.0
"""A virtual device as a device of torch: tensors of torch in its memory.

torch's operators run on the device's threads with their CPU kernels, in the order of torch's
current stream.
"""

from anyop.torch.virtual_device.start import start

__all__ = ["start"]
