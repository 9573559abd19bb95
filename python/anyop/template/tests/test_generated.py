# SPDX-License-Identifier: Apache-2.0
"""Every kernel of every operator against its reference: what `anyop test` runs."""

import my_ops  # noqa: F401  (loads the library)
import pytest
from anyop import testing


@pytest.mark.parametrize("case", testing.cases("my_ops"), ids=str)
def test_operator(case: testing.Case) -> None:
    case.run()
