# SPDX-License-Identifier: Apache-2.0
"""Every rule of tools/house.py sees what it forbids, where it is, and nothing in a clean tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkout import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import house
from house_rules.tree import Cpp, Tree

C = "// SPDX-License-Identifier: Apache-2.0\n"
P = "# SPDX-License-Identifier: Apache-2.0\n"
PAGE = """// ramp: rises.
//
//   y[i] = max(x[i], 0)
//
// Numerics  Exact.
// Source    definition.
"""
OPERATOR = """#include "anyop/op.h"
#include "ops/common/rows.h"
constexpr Kernel kPortable{.name = "cpu_portable", .run = Bind<&Run>()};
extern constinit const Op ramp{.signature = "ramp(x: f32[n]) -> (y: f32[n])"};
"""
START = """def start():
    importlib.import_module("anyop.torch")
    importlib.import_module("anyop.jax")
    importlib.import_module("anyop.mindspore")
"""
ROOM = """[ARCHITECTURE.md](../../ARCHITECTURE.md) has more.

- `graph.h`, `ir/size.h`, `src/graph/{graph,ir/size}.h`, `ops/<name>/*.cc`, `src/`: paths.
- `n/2`, `torch.ops.<library>.<operator>`, `.cc`, [a site](https://example.com/gone.h): none.
"""
LONG = "word " * 30
CLEAN = {
    "README.md": "# A tree\n\nARCHITECTURE.md and `src/platform/log.cc` say more.\n",
    "ARCHITECTURE.md": "Short. [Graphs](src/graph/README.md)\n",
    "src/graph/README.md": ROOM,
    "python/anyop/template/README.md": "Nobody links it, and it names `gone/`.\n",
    "include/anyop/op.h": C + "#pragma once\n#include <cstdint>\n#define ANYOP_MOST 8\n",
    "include/anyop/runtime.h": C + "#pragma once\n",
    "src/platform/env.cc": C + 'const char* Path() { return std::getenv("ANYOP_TORCH"); }\n',
    "src/platform/error.h": C + "#pragma once\n",
    "src/signature/check.h": C + '#pragma once\n#include "platform/error.h"\n',
    "src/platform/log.cc": C + '#include <cstdio>\nvoid Log() { std::fprintf(stderr, "x"); }\n',
    "src/runtime/plan/plan.h": C + '#pragma once\n#include "signature/check.h"\nclass Plan {};\n',
    "src/graph/graph.h": C + '#pragma once\n#include "runtime/plan/plan.h"\n',
    "src/graph/ir/size.h": C + '#pragma once\n#include "runtime/plan/plan.h"\n',
    "src/graph/replay/run.h": C + '#pragma once\n#include "graph/ir/size.h"\n',
    "src/graph/ir/a_test.cc": C + '#include "graph/replay/run.h"\n',
    "ops/common/rows.h": C + "#pragma once\n",
    "ops/ramp/ramp.cc": C + PAGE + OPERATOR,
    "ops/ramp/cpu_avx2.cc": C + 'const Kernel ramp_avx2{.name = "cpu_avx2_f32"};\n',
    "ops/ramp/cuda.cu": C
    + '#include "devices/cuda/kernel.h"\nconst Kernel ramp{.name = "cuda_f32"};\n',
    "devices/cuda/kernel.h": C + '#pragma once\n#include "anyop/op.h"\n',
    "ops/ramp/test.cc": C + '#include "anyop/runtime.h"\n#include "optest/optest.h"\n',
    "optest/optest.h": C + "#pragma once\n",
    "bindings/python.h": C + "#pragma once\n#include <Python.h>\n",
    "bindings/calls/call.h": C + '#pragma once\n#include "bindings/python.h"\n',
    "bindings/calls/call.cc": C + '#include "call.h"\n#include "graph/graph.h"\n',
    "bindings/graphs/graph.cc": C + '#include "bindings/calls/call.h"\n',
    "bindings/torch/kernel.cc": C + '#include <ATen/Tensor.h>\n#include "runtime/plan/plan.h"\n',
    "python/anyop/__init__.py": P + "from anyop import _anyop\nfrom anyop._hosts import start\n",
    "python/anyop/_anyop.pyi": P,
    "python/anyop/_hosts.py": P + START,
    "python/anyop/jax/__init__.py": P + "import jax\nimport anyop\n",
    "python/anyop/torch/__init__.py": P + "import torch\nimport anyop\n",
    "python/anyop/mindspore/__init__.py": P + "import anyop\n",
    "python/anyop/torch/_lower/lower.py": P,
    "python/anyop/hosting/__init__.py": P + "from anyop import _anyop\n",
    "python/anyop/torch/patterns/aten.py": P + 'REGULAR = {"relu": "ramp"}\noperator("ramp")\n',
    "python/anyop/bench/__init__.py": P + 'def run():\n    """Runs."""\n',
    "python/anyop/cli/bench.py": P + "import anyop\nfrom anyop.bench import run\n",
    "cmake/ops.cmake": P,
}
LONG_PYTHON = "def long():\n" + "    x = 1\n" * 61
LONG_CPP = "void Long() {\n" + "  Step();\n" * 59 + "}\n"
NINE = ", ".join(f"a{i}" for i in range(9))

# rule, file, what it holds, the line that is wrong, and words of what is said about it
PLANTS = [
    ("licence", "src/graph/a.cc", "int x;\n", 1, "no SPDX line"),
    ("licence", "tools/a.py", "x = 1\n", 1, "no SPDX line"),
    ("licence", "ops/ramp/cuda.cu", "int x;\n", 1, "no SPDX line"),
    ("machine", "docs/a.md", "See\n/" + "root/x.\n", 2, "one machine only"),
    ("machine", "tools/a.py", P + "# issue " + "#12\n", 2, "one machine only"),
    ("unfinished", "src/graph/a.cc", C + "// TO" + "DO: more\n", 2, "unfinished"),
    ("file_length", "tools/a.py", P + "\n" * 500, 501, "501 lines, but at most 500"),
    ("document_length", "README.md", "\n" * 101, 101, "101 lines, but at most 100"),
    ("document_length", "ARCHITECTURE.md", "word " * 2501, 0, "2501 words, but at most 2500"),
    ("document_block", "ARCHITECTURE.md", f"# A\n\n- {LONG}\n- {LONG}\n  {LONG}\n", 4,
     "61 words in one block, but at most 60"),
    ("document_block", "src/graph/README.md", f"```\n{LONG * 3}\n```\n{LONG}\n{LONG}word\n", 4,
     "61 words"),
    ("document_block", "src/graph/README.md", f"| a |\n|---|\n| {LONG} | {LONG} |\n", 3,
     "63 words"),
    ("path_exists", "ARCHITECTURE.md", "A\n`src/graph/gone.h`\n", 2, "src/graph/gone.h, which"),
    ("path_exists", "src/graph/README.md", "`src/graph/{graph,gone}.h`\n", 1, "src/graph/gone.h"),
    ("path_exists", "src/graph/README.md", "`ops/<name>/gone*.cc`\n", 1, "names ops/*/gone*.cc"),
    ("path_exists", "src/graph/README.md", "\n`src/gone`\n", 2, "names src/gone"),
    ("path_exists", "src/graph/README.md", "`gone/`\n", 1, "names gone/"),
    ("path_exists", "src/graph/README.md", "[a](../gone.md#b)\n", 1, "names ../gone.md"),
    ("path_exists", "src/graph/README.md", "[a](graph/graph.h)\n", 1, "names graph/graph.h"),
    ("document_exists", "src/graph/README.md", "[a](../ARCHITECTURE.md)\n", 1, "../ARCHI"),
    ("room_linked", "src/runtime/README.md", "", 0, "is not linked in ARCHITECTURE.md"),
    ("code_width", "docs/a.md", "x" * 101 + "\n```\n" + "x" * 101, 3, "101 columns of code, but"),
    ("operator_elsewhere", "python/anyop/a.py", P + 'x = 1  # x\ny = "ramp"\n', 3, "operator ramp"),
    ("operator_elsewhere", "python/anyop/a.py", P + "#\nanyop.ramp(x)\n", 3, "operator ramp"),
    ("operator_elsewhere", "python/anyop/a.py", P + "\ntorch.ops.anyop.ramp\n", 3, "ramp"),
    ("operator_elsewhere", "tools/a.py", P + "from anyop import ramp\n", 2, "operator ramp"),
    ("operator_elsewhere", "tools/a.py", P + 'x = "a\\nanyop.ramp of"\n', 2, "operator ramp"),
    ("operator_elsewhere", "src/graph/a.cc", C + '// ramp\nFind("ramp");\n', 3, "operator ramp"),
    ("operator_elsewhere", "ops/common/a.cc", C + "\nops::ramp;\n", 3, "only ops/ramp/ may"),
    ("operator_elsewhere", "cmake/a.cmake", P + "add(ops/ramp/ramp.cc)\n", 2, "operator ramp"),
    ("operator_elsewhere", "python/anyop/_graph/traced.py", P, 0, "see OTHER_MEANINGS"),
    ("operator_elsewhere", "python/anyop/bench/commands/a.py", P + "anyop.ramp(x)\n", 2, "ramp"),
    ("operator_in_comment", "src/graph/a.cc", C + "/* As\n anyop.ramp: */\n", 3, "names ramp for"),
    ("operator_in_comment", "python/anyop/cli/a.py", P + '"""So:\n\n    anyop.ramp(x)\n"""\n', 4,
     "names ramp for an example: try rms_norm"),
    ("operator_in_comment", "python/anyop/a.py", P + "x = 1  # anyop.ramp\n", 2, "names ramp"),
    ("dead_row", "python/anyop/torch/patterns/nn.py", P + 'OPERATORS = {"A": {"b": "gone"}}\n', 2,
     "names the operator gone, which is not there"),
    ("dead_row", "python/anyop/torch/patterns/nn.py", P + "torch.ops.anyop.gone.default\n", 2,
     "gone"),
    ("dead_row", "python/anyop/torch/patterns/nn.py", P + 'def f():\n    operator("gone")(x)\n', 3,
     "gone"),
    ("loose_operator", "ops/ramp/a.cc", C + "\nconst Op other{\n};\n", 3, "extern constinit"),
    ("loose_operator", "ops/ramp/a.cc", C + "static const Reference ramp{};\n", 2, "const Ref"),
    ("loose_operator", "ops/slope/slope.cc", C, 0, "ops/slope defines no operator"),
    ("sample", "ops/samples.txt", "# some\nsome: ramp gone\n", 2, "some names ops/gone, which"),
    ("function_length", "tools/a.py", P + LONG_PYTHON, 2, "long has 61 lines"),
    ("parameters", "tools/a.py", P + f"def f({NINE}): pass\n", 2, "takes 9 arguments"),
    ("parameters", "tools/a.py", P + f"class A:\n    def f(self, {NINE}): pass\n", 3, "takes 10"),
    ("names", "tools/a.py", P + "def CamelCase(): pass\n", 2, "not written in snake_case"),
    ("names", "tools/a.py", P + "class A:\n    def f(self, xY): pass\n", 3, "argument xY of f"),
    ("names", "tools/a.py", P + "def f(*, xY=1, **zZ): pass\n", 2, "argument zZ of f"),
    ("names", "tools/a.py", P + "\nclass snake_case: pass\n", 3, "not written in CamelCase"),
    ("names", "tools/a.py", P + "class CallManager: pass\n", 2, "the empty word Manager"),
    ("names", "tools/a.py", P + "async def call_helper(): pass\n", 2, "the empty word helper"),
    ("docstring", "python/anyop/a.py", P + "\ndef f(): pass\n", 3, "f is public, but has no doc"),
    ("docstring", "python/anyop/bench/a.py", P + "class A: pass\n", 2, "A is public, but"),
    ("budgets", "tools/check.py", P + 'BUDGETS = {\n "a": 40.0,  # a\n "b": 0.5,  # b\n}\n', 2,
     "BUDGETS are 40.5 minutes, but at most 40. Leave more to --all."),
    ("budgets", "tools/check.py", P + 'BUDGETS = {\n    "a": 1.5,\n}\n', 3, "without its reason"),
    ("budgets", "tools/check.py", P + 'BUDGETS = {"a": 1}  # a\npytest(tally, "b")\n', 3,
     'the step "b" has no budget'),
    ("header_guard", "src/graph/a.h", C + "// #pragma once\nint x;\n", 1, "no '#pragma once'"),
    ("public_includes", "include/anyop/a.h", C + "#pragma once\n#include <regex>\n", 3, "<regex>"),
    ("public_macros", "include/anyop/a.h", C + "#pragma once\n#define MOST 3\n", 3, "defines MOST"),
    ("environment", "src/graph/a.cc", C + '\nchar* x = std::getenv("X");\n', 3, "only src/pl"),
    ("prints", "src/graph/a.cc", C + 'void F() {\n  std::printf("x");\n}\n', 3, "printf prints"),
    ("prints", "ops/ramp/a.cc", C + "void F() { std::cerr << 1; }\n", 2, "cerr prints"),
    ("aborts", "bindings/a.cc", C + "void F() { std::abort(); }\n", 2, "abort ends the process"),
    ("thread_objects", "src/graph/a.cc", C + "static thread_local std::vector<int*> seen;\n", 2,
     "a std::vector<int*> of a thread ends before its last call"),
    ("thread_objects", "src/graph/a.cc", C + "thread_local T* t; thread_local T u;\n", 2, "a T of"),
    ("openmp", "ops/ramp/a.cc", C + "\n#pragma omp parallel for\n", 3, "uses OpenMP"),
    ("frames", "src/graph/a.cc", C + "void F() {\n  v.tag = ANYOP_INT;\n}\n", 3,
     "'.tag = ANYOP_INT' fills a frame by hand"),
    ("frames", "bindings/a.cc", C + "void F() { at->tag = Of(kind); }\n", 2, "->tag = "),
    ("frames", "bindings/a.cc", C + "void F() { SetHead(&v, ANYOP_INT); }\n", 2, "SetHead("),
    ("frames", "optest/a.cc", C + "\nDLDevice host{1, 0};\n", 3, "'{1, 0}' fills a frame"),
    ("frames", "include/anyop/a.h", C + "#pragma once\nbool b = t.device.device_type == 1;\n", 3,
     "device_type == 1"),
    ("type_names", "src/graph/a.h", C + "#pragma once\nclass GraphHelper {};\n", 3, "word Helper"),
    ("meanings", "src/graph/a.h", C + "#pragma once\nstruct BoundNode {\n};\n", 3, "BoundNode"),
    ("meanings", "bindings/host/bound_host.h", C + "#pragma once\n", 0, "word bound means"),
    ("type_names", "src/graph/a.h", C + "#pragma once\nstruct NodeBase : Node {\n};\n", 3, "Base"),
    ("kernel_names", "ops/ramp/ramp.cc", C + PAGE + OPERATOR.replace("_portable", ""), 10,
     "the kernel cpu is not called cpu_portable"),
    ("kernel_names", "ops/ramp/cpu_avx512.cc", C + 'const Kernel k{\n    .name = "cpu_avx2"};\n', 3,
     "not called cpu_avx512"),
    ("kernel_names", "examples/my_ops/ops/ramp/ramp.cc",
     C + 'const Kernel k{.name = "cpu_f32"};\n', 2, "cpu_f32 is not called cpu_portable"),
    ("kernel_names", "examples/device/a.cc",
     C + '.word = "toy"\nconst Kernel k{.name = "cpu_a"};\n', 3, "cpu_a is not called toy or"),
    ("kernel_names", "python/anyop/template/ops/ramp/ramp.cc",
     C + 'const Kernel k{.name = "cpu_f32"};\n', 2, "cpu_f32 is not called cpu_portable"),
    ("kernel_names", "ops/ramp/cuda.cu", C + 'const Kernel k{.name = "cpu_cuda"};\n', 2,
     "cpu_cuda is not called cuda or cuda_<variant>"),
    ("cpp_function_length", "src/graph/a.cc", C + LONG_CPP, 2, "Long has 61 lines"),
    ("cpp_function_length", "ops/ramp/cuda.cu", C + LONG_CPP, 2, "Long has 61 lines"),
    ("cpp_function_length", "src/graph/a.cc",
     C + f"namespace a {{\nstruct A {{\n{LONG_CPP}}};\n}}\n", 4, "Long has 61 lines"),
    ("cpp_function_length", "src/graph/a.cc",
     C + LONG_CPP.replace("Long()", "Long(A a = {}, B b = {1})"), 2, "has 61 lines"),
    ("cpp_function_length", "src/graph/a.cc",
     C + LONG_CPP.replace("void Long()", "A::A() : a_{1}, b_{F(2)}"), 2, "has 61 lines"),
    ("layers", "src/signature/a.cc", C + '\n#include "runtime/plan/plan.h"\n', 3,
     "src/runtime/plan/plan.h, but src/signature may include itself and include/anyop, src/pl"),
    ("layers", "src/platform/a.cc", C + '#include "signature/check.h"\n', 2, "signature/check.h"),
    ("layers", "src/runtime/a_test.cc", C + '#include "graph/graph.h"\n', 2, "src/graph/graph.h"),
    ("layers", "src/graph/ir/a.cc", C + '#include "graph/replay/run.h"\n', 2, "graph/replay/run.h"),
    ("layers", "src/graph/ir/a.cc", C + '#include "graph/graph.h"\n', 2, "src/graph/graph.h"),
    ("layers", "include/anyop/a.h", C + '#pragma once\n#include "graph/graph.h"\n', 3, "graph.h"),
    ("layers", "ops/ramp/a.cc", C + '#include "runtime/plan/plan.h"\n', 2, "runtime/plan/plan.h"),
    ("layers", "ops/ramp/a.cc", C + '#include "devices/cuda/kernel.h"\n', 2, "devices/cuda/"),
    ("layers", "ops/ramp/cuda.cu", C + '#include "runtime/plan/plan.h"\n', 2, "devices/cuda/ker"),
    ("layers", "ops/ramp/a.cc", C + '#include "anyop/runtime.h"\n', 2, "reference.h and simd.h"),
    ("layers", "ops/ramp/a.cc", C + '#include "optest/optest.h"\n', 2, "optest/optest.h"),
    ("layers", "ops/slope/a.cc", C + '#include "ops/ramp/test.cc"\n', 2, "ops/ramp/test.cc"),
    ("layers", "ops/ramp/a.cc", C + '#include "ramp/test.cc"\n', 2, "below no root"),
    ("layers", "src/graph/a.cc", C + '#include "graph.h"\n', 2, "below no root"),
    ("layers", "bindings/torch/a.cc", C + '#include "graph/graph.h"\n', 2, "src/graph/graph.h"),
    ("layers", "bindings/a.cc", C + '#include "bindings/torch/kernel.cc"\n', 2, "torch/kernel.cc"),
    ("layers", "bindings/host/a.cc", C + '#include "call.h"\n', 2, "below no root"),
    ("layers", "src/runtime/memory/a.cc", C + '#include "runtime/plan/plan.h"\n', 2,
     "src/runtime/memory may include itself and"),
    ("layers", "src/runtime/plan/tuned.h", C + '#pragma once\n#include "runtime/run/call.h"\n', 3,
     "below no root"),
    ("include_cycles", "src/runtime/plan/tuned.cc", C, 0,
     "includes nothing of src/runtime/run: see CALLS_UP"),
    ("rooms", "bindings/host/a.h", C + '#pragma once\n#include "bindings/calls/call.h"\n', 3,
     "bindings/calls/call.h, of a higher room"),
    ("rooms", "bindings/host/a.cc", C + '#include "bindings/calls/call.h"\n', 2,
     "bindings/calls/call.h, of a higher room"),
    ("rooms", "bindings/a.h", C + '#pragma once\n#include "bindings/calls/call.h"\n', 3,
     "bindings/calls/call.h, of a higher room"),
    ("rooms", "bindings/attic/a.cc", C, 0, "bindings/attic, which is no room"),
    ("layers", "programs/a.cc", C + '#include "runtime/plan/plan.h"\n', 2, "src/runtime/plan"),
    ("layers", "elsewhere/a.cc", C + '#include "runtime/plan/plan.h"\n', 2, "lies in no layer"),
    ("frameworks", "src/runtime/a.cc", C + "#include <torch/library.h>\n", 2, "only bindings"),
    ("frameworks", "src/runtime/a.cc", C + "\nenum Host { kNumpy, kTorch };\n", 3, "says Torch"),
    ("frameworks", "src/graph/a.cc", C + "int x;  // as JAX has it\n", 2, "says JAX"),
    ("frameworks", "src/graph/a.cc", C + "#include <numpy/arrayobject.h>\n", 2, "bindings/ may"),
    ("frameworks", "bindings/a.cc", C + "#include <c10/core/Scalar.h>\n", 2, "bindings/torch/ may"),
    ("frameworks", "bindings/functions/a.cc", C + "// of torch\nbool b = &h == &TorchHost();\n", 3,
     "names Torch, but bindings/functions serves every host"),
    ("layers", "bindings/calls/a.cc", C + '#include "bindings/torch/texts.h"\n', 2,
     "bindings/torch/texts.h"),
    ("frameworks", "python/anyop/a.py", P + "from torch import nn\n", 2, "only anyop.torch may"),
    ("frameworks", "python/anyop/a.py", P + "import jax\n", 2, "only anyop.jax may"),
    ("without_googletest", "optest/a.cc", C + "#include <gtest/gtest.h>\n", 2, "no GoogleTest is"),
    ("without_googletest", "optest/a.h", C + '#pragma once\n#include "optest/optest.h"\n', 3,
     "includes optest/optest.h"),
    ("python_layers", "python/anyop/_a.py", P + "import anyop.torch\n", 2, "anyop lies below it"),
    ("python_layers", "python/anyop/_a.py", P + "def f():\n    from anyop.cli import bench\n", 3,
     "imports anyop.cli.bench"),
    ("python_layers", "python/anyop/_a.py", P + 'importlib.import_module("anyop.bench")\n', 2,
     "imports anyop.bench"),
    ("python_layers", "python/anyop/hosting/a.py", P + "import anyop.torch\n", 2,
     "imports anyop.torch, but anyop.hosting lies below it"),
    ("python_layers", "python/anyop/_a.py", P + "import anyop.hosting\n", 2, "anyop lies below it"),
    ("python_layers", "python/anyop/torch/_a.py", P + "from ..bench import run\n", 2, "bench"),
    ("python_layers", "python/anyop/torch/_nodes/a.py", P + "from .._lower import lower\n", 2,
     "imports anyop.torch._lower.lower, but anyop.torch._nodes lies below it"),
    ("python_layers", "python/anyop/bench/_a.py", P + "from anyop.cli import bench\n", 2, "cli"),
    ("private", "tools/a.py", P + "from anyop import _hosts\n", 2, "anyop._hosts, which is"),
    ("private", "tools/a.py", P + "import anyop._hosts as hosts\n", 2, "anyop._hosts"),
    ("private", "ops/ramp/bench.py", P + "from anyop import _anyop\n", 2, "anyop._anyop"),
    ("private", "python/anyop/cli/a.py", P + "from anyop.bench import _run\n", 2, "bench._run"),
    ("import_cycles", "python/anyop/_hosts.py", P + 'import_module("anyop.jax")\n'
     'def start():\n    import_module("anyop.jax")\n', 0, "anyop.torch any more: see LATE"),
    ("import_cycles", "python/anyop/_hosts.py", P + "import anyop.torch\n", 2, "not late"),
    ("document_exists", "src/graph/a.cc", C + "\n// As docs/gone.md says.\n", 3, "docs/gone.md"),
    ("document_exists", "src/graph/a.cc", C + '// See SIGNATURES "Overlap".\n', 2, "SIGNATURES"),
    ("document_exists", "tools/a.py", P + '"""Text.\n\nAs the catalogue says.\n"""\n', 4,
     "the catalogue"),
    ("document_exists", "tools/a.py", P + "x = 1  # GONE.m" + "d\n", 2, "names GONE"),
    ("document_exists", "docs/a.md", "\nSee gone.md.\n", 2, "gone.md"),
    ("file_exists", "src/graph/a.cc", C + "// As in runtime/gone.h.\n", 2, "runtime/gone.h"),
    ("file_exists", "docs/a.md", "\n`graph/plan.h` holds it\n", 2, "graph/plan.h"),
    ("page", "ops/ramp/ramp.cc", C + PAGE.replace(".\n", "\n// on.\n", 1) + OPERATOR, 2,
     "does not begin with a line 'ramp: <one sentence>.'"),
    ("page", "ops/ramp/ramp.cc", C + PAGE.replace("Source", "From") + OPERATOR, 2, "no 'Source'"),
    ("page", "ops/ramp/ramp.cc", C + PAGE.replace(", 0", ",\n//   0") + OPERATOR, 4, "bracket"),
    ("page", "ops/ramp/ramp.cc", C + PAGE.replace("act.", "act.\n// too.") + OPERATOR, 7,
     "'too.' stands below a heading, but not 10 columns in"),
    ("page", "ops/ramp/ramp.cc", C + PAGE.replace("max", "max" * 40) + OPERATOR, 4, "columns, but"),
]  # fmt: skip
FIRST, SECOND = "python/anyop/bench/_a.py", "python/anyop/bench/_b.py"
IMPORT = "from anyop.bench import _b\n"
# rule, files, and what is said about them
CIRCLES = [
    ("include_cycles", {"src/graph/a.h": C + '#pragma once\n#include "graph/a.h"\n'},
     "src/graph/a.h -> src/graph/a.h (src/graph/a.h:3)"),
    ("include_cycles", {"ops/common/a.h": C + '#pragma once\n#include "ops/ramp/test.cc"\n'},
     "ops/common -> ops/ramp (ops/common/a.h:3), ops/ramp -> ops/common (ops/ramp/ramp.cc:9)"),
    *(
        ("import_cycles", {FIRST: P + text, SECOND: P + "from anyop.bench import _a\n"},
         f"anyop.bench._a -> anyop.bench._b ({FIRST}:{line}), "
         f"anyop.bench._b -> anyop.bench._a ({SECOND}:2)")
        for text, line in (
            (IMPORT, 2), ("def f():\n    " + IMPORT, 3), ("if TYPE_CHECKING:\n    " + IMPORT, 3),
            ('def f():\n    importlib.import_module("anyop.bench._b")\n', 3),
        )
    ),
]  # fmt: skip
# rule, what is compiled and how, and words of what is said about it
BUILT = [
    ("weak_symbol", "CMakeFiles/anyop_ops.dir/ops/ramp/cpu_avx2.cc.o", "-c",
     "void shared<int>() is in ramp/cpu_avx2.cc.o, ramp/ramp.cc.o: make it"),
    ("hardening", "lib/libanyop.so", "-shared -Wl,-z,norelro", "stay writable"),
    ("hardening", "lib/libanyop.so", "-shared -Wl,-z,execstack", "has an executable stack"),
    ("hardening", "lib/libanyop.so", "-shared", "without -fstack-protector-strong"),
    ("hardening", "lib/libanyop.so", "-shared", "without _FORTIFY_SOURCE"),
    ("search_path", "bin/anyop-run", "-shared -Wl,-rpath,$ORIGIN:", "directory: '$ORIGIN:'"),
    ("exports", "lib/anyop_ops.so", "-shared", "shows _Z6sharedIiEvv, which is not ours"),
    ("exports", "lib/torch_adapter-9.so", "-shared", "shows _Z6sharedIiEvv, which is not ours"),
    ("exports", "lib/another.so", "-shared", "has no row in EXPORTED"),
]  # fmt: skip
SOURCE = """
template <class T> [[gnu::noinline]] void shared() { asm volatile(""); }
extern "C" void anyop_library() { shared<int>(); }
"""


def planted(root: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Tree(root)


def compiled(root: Path, name: str, options: str) -> None:
    path = root / "build" / "release" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    command = ["c++", "-xc++", "-", "-o", path, "-fPIC", "-fno-stack-protector", *options.split()]
    subprocess.run(command, input=SOURCE, text=True, check=True, timeout=60)


def test_a_clean_tree_has_no_breach(tmp_path: Path) -> None:
    tree = planted(tmp_path, CLEAN)
    assert [str(b) for b in house.breaches(tree)] == []


@pytest.mark.parametrize(
    ("rule", "file", "text", "line", "said"), PLANTS, ids=lambda v: v if v in house.RULES else ""
)
def test_a_breach_is_seen(
    tmp_path: Path, rule: str, file: str, text: str, line: int, said: str
) -> None:
    found = house.breaches(planted(tmp_path, {**CLEAN, file: text}), [rule])
    assert (file, line) in {(b.file, b.line) for b in found if said in b.text}, found
    assert {b.rule for b in found} == {rule}


@pytest.mark.parametrize(("rule", "files", "said"), CIRCLES)
def test_a_circle_is_seen(tmp_path: Path, rule: str, files: dict[str, str], said: str) -> None:
    found = house.breaches(planted(tmp_path, {**CLEAN, **files}), [rule])
    assert [b.text for b in found] == [f"closes a circle: {said}"]


def test_what_a_sample_of_operators_lacks_is_seen(tmp_path: Path) -> None:
    files = {
        "ops/slope/slope.cc": C + PAGE + OPERATOR.replace("ramp", "slope"),
        "ops/ramp/test.cc": C + 'Call a("ramp"), b("slope", 1);\n',
        "ops/samples.txt": "some: ramp\nmore: ramp slope\n",
    }
    found = house.breaches(planted(tmp_path, {**CLEAN, **files}), ["sample"])
    assert [(b.line, b.text) for b in found] == [
        (1, "some lacks ops/slope, which ops/ramp/test.cc calls")
    ]


def test_a_header_of_one_kernel_alone_is_seen(tmp_path: Path) -> None:
    files = {
        "ops/ramp/kernel.h": C + "#pragma once\n",
        "ops/ramp/cpu.cc": C + '#include "ops/ramp/kernel.h"\n#include "ops/common/rows.h"\n',
    }
    found = house.breaches(planted(tmp_path, {**CLEAN, **files}), ["lone_header"])
    assert [(b.file, b.text) for b in found] == [
        ("ops/ramp/kernel.h", "is included by ops/ramp/cpu.cc alone: write it there")
    ]
    files["ops/ramp/cpu_avx2.cc"] = C + '#include "ops/ramp/kernel.h"\n'
    assert house.breaches(planted(tmp_path / "two", {**CLEAN, **files}), ["lone_header"]) == []


def test_a_late_import_that_closes_no_circle_is_seen(tmp_path: Path) -> None:
    tree = planted(tmp_path, {**CLEAN, "python/anyop/torch/__init__.py": P})
    assert [str(b) for b in house.breaches(tree)] == [
        "python/anyop/_hosts.py:3: imports anyop.torch late, but they form no circle: see LATE "
        "[import_cycles]"
    ]


@pytest.mark.parametrize(("rule", "name", "options", "said"), BUILT)
def test_a_breach_in_what_was_built_is_seen(
    tmp_path: Path, rule: str, name: str, options: str, said: str
) -> None:
    tree = planted(tmp_path, CLEAN)
    compiled(tmp_path, name, options)
    if name.endswith(".o"):
        assert house.breaches(tree, [rule]) == []
        compiled(tmp_path, name.replace("cpu_avx2", "ramp"), options)
    found = house.breaches(Tree(tmp_path), [rule])
    assert [b for b in found if said in b.text], [str(b) for b in found]
    assert {b.file for b in found} == {f"build/release/{name}"}


def test_a_library_that_is_as_it_should_be_passes(tmp_path: Path) -> None:
    tree = planted(tmp_path, CLEAN)
    compiled(tmp_path, "lib/anyop_ops.so", "-shared -fvisibility=hidden -Wl,-z,relro,-z,now")
    said = [str(b) for b in house.breaches(tree, ["hardening", "search_path"])]
    assert said == []


def test_an_operator_that_the_library_lacks_is_seen(tmp_path: Path) -> None:
    tree = planted(tmp_path, CLEAN)
    table = tmp_path / "build" / "release" / "anyop_ops_table.cc"
    table.parent.mkdir(parents=True)
    table.write_text("extern const Op ramp;\n")
    assert house.breaches(tree, ["library_table"]) == []
    table.write_text("extern const Op other;\n")
    assert [b.text for b in house.breaches(tree, ["library_table"])] == [
        "other is defined or listed, but not both", "ramp is defined or listed, but not both",
    ]  # fmt: skip


def test_every_rule_is_tried() -> None:
    tried = {plant[0] for plants in (PLANTS, CIRCLES, BUILT) for plant in plants}
    tried |= {"library_table", "lone_header"}
    assert tried == set(house.RULES)
    assert all(rule.__doc__ for rule in house.RULES.values())


def test_comments_and_strings_of_cpp_are_told_apart() -> None:
    cpp = Cpp('a; // "b"\n/* c\n */ "// d" R"(e " f)" 1\'000 \'"\' g')
    assert [(c.line, c.text) for c in cpp.comments] == [(1, '// "b"'), (2, "/* c\n */")]
    assert "// d" in cpp.code and 'R"(e " f)"' in cpp.code and '"b"' not in cpp.code
    assert "d" not in cpp.bare and "e" not in cpp.bare and cpp.bare.endswith("g")
    assert cpp.bare.count("\n") == cpp.code.count("\n") == 2


def run_house(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "tools" / "house.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_the_command_fails_and_says_where(tmp_path: Path) -> None:
    planted(tmp_path, {**CLEAN, "src/graph/a.cc": "int x;\n"})
    done = run_house("--root", tmp_path)
    assert done.returncode == 1
    assert done.stdout == "src/graph/a.cc:1: no SPDX line [licence]\n"
    done = run_house("--root", tmp_path, "--json", "licence", "names")
    assert done.returncode == 1
    assert json.loads(done.stdout) == [
        {"file": "src/graph/a.cc", "line": 1, "text": "no SPDX line", "rule": "licence"}
    ]
    done = run_house("--root", tmp_path, "names")
    assert (done.returncode, done.stdout) == (0, "1 operators, 1 rules, no breach\n")
    done = run_house("--root", tmp_path, "nmes")
    assert done.returncode == 2 and "no rule is called nmes" in done.stderr
    assert run_house("--list").stdout.count("\n") == len(house.RULES)


@pytest.mark.skipif(not shutil.which("clang-format"), reason="clang-format is not installed")
def test_the_formatter_leaves_pages_alone(tmp_path: Path) -> None:
    text = PAGE.replace("max", "the largest of all that is in any of the two, " * 2)
    text = text.replace("Exact.", "Exact. " * 14 + "Exact.") + "int x;\n"
    assert max(map(len, text.split("\n"))) > 100
    path = tmp_path / "ramp.cc"
    path.write_text(text)
    command = ["clang-format", f"--style=file:{ROOT / '.clang-format'}", str(path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == text
