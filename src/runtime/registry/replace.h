// SPDX-License-Identifier: Apache-2.0
// A library that was built again takes the place of the one that the process has loaded.
#pragma once
#include <string>

#include "runtime/registry/operator.h"

namespace anyop {

// Why `made` cannot take the place of `known`: hosts, graphs and compilers keep the contract and
// what graphs rewrite by (.means, .prepack, .commutes, .rowwise). "" if it can.
std::string WhyNotReplaced(const Operator& known, const Operator& made);

// From now on calls of `known` run `made`, those of graphs, gradients and frameworks too. Calls
// that are running end with the old code, which stays loaded.
void Replace(Operator& known, Operator& made);

// The operator that calls of `op` run: itself, or what took its place last.
Operator& Latest(Operator& op);
const Operator& Latest(const Operator& op);

}  // namespace anyop
