# SPDX-License-Identifier: Apache-2.0
import unittest

import torch
import torch_npu  # noqa: F401

import custom_pypto  # noqa: F401


def add_custom(x, y, alpha=1.0):
    return torch.ops.custom_pypto.add_custom(x, y, alpha=alpha)


class TestAddCustom(unittest.TestCase):
    def setUp(self):
        self.x, self.y = torch.randn(37, 300), torch.randn(37, 300)

    def test_eager(self):
        z = add_custom(self.x.npu(), self.y.npu(), 2.0)
        torch.testing.assert_close(z.cpu(), self.x + 2.0 * self.y)

    def test_out(self):
        z = torch.empty_like(self.x.npu())
        torch.ops.custom_pypto.add_custom.out(self.x.npu(), self.y.npu(), out=z)
        torch.testing.assert_close(z.cpu(), self.x + self.y)

    def test_gradient(self):
        x = self.x.npu().requires_grad_()
        y = self.y.npu().requires_grad_()
        (add_custom(x, y, 3.0) * self.y.npu()).sum().backward()
        torch.testing.assert_close(x.grad.cpu(), self.y)
        torch.testing.assert_close(y.grad.cpu(), 3.0 * self.y)

    def test_compile(self):
        model = torch.compile(
            lambda x, y: torch.relu(add_custom(x, y, 0.5)) + y, backend="aot_eager", fullgraph=True
        )
        z = model(self.x.npu(), self.y.npu())
        torch.testing.assert_close(z.cpu(), torch.relu(self.x + 0.5 * self.y) + self.y)


if __name__ == "__main__":
    unittest.main()
