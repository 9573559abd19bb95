# SPDX-License-Identifier: Apache-2.0
"""What a host needs: the adapter that lets a framework call every operator of every library.

Nothing here knows a framework, and nothing here needs one. A host gives its arrays to the core and
takes what is common from these modules:

- `facts`: an operator as data, made by the core from its contract: parameters, results, variants.
- `binding`: the arguments of a call, what it writes and which results it leaves out.
- `shapes`: calls described without data, and the types of their results.
- `gradient`: what a call keeps for its gradient, and how that is called.
- `batching`: how one more batch dimension joins a call.
- `splitting`: which dimensions of a call may be divided between devices.
- `build`: a library of C++ that is built for the framework at hand, once per user.

`register` makes a framework's tensors known to every operator; `when_imported` starts a host, or a
part of it, once its framework is there; `not_installed` says that it is not there. `examples/host`
is a host, complete.

A framework that compiles programs keeps calls as texts: `bound_call` makes one, `find_bound_call`
finds it again, in any process. docs/hosts.md tells of both.
"""

from anyop._anyop import BoundCall, bound_call, bound_graph, bound_saved_graph, find_bound_call
from anyop.hosting._host import register
from anyop.hosting._installed import not_installed
from anyop.hosting._when_imported import when_imported

__all__ = [
    "BoundCall",
    "bound_call",
    "bound_graph",
    "bound_saved_graph",
    "find_bound_call",
    "not_installed",
    "register",
    "when_imported",
]
