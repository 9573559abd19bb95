// SPDX-License-Identifier: Apache-2.0
#include "optest/kernel_run.h"

#include "optest/running.h"

namespace anyop::optest {
std::string WhyNot(const Operator& op, const OperatorKernel& kernel, const CheckedCall& checked,
                   Frame& frame) {
  if (!kernel.is_built) return "not built for this machine";
  if (!kernel.has_features) return "this machine has no " + kernel.missing;
  for (const Expression& condition : kernel.when) {
    const int node = condition.node[std::size_t(checked.form)];
    if (node < 0) return condition.text + " names what this form lacks";
    const Number n = Evaluate(*op.contract, checked.form, node, checked.bindings, frame.values());
    if (!n.known || (n.is_float ? n.f == 0 : n.i == 0)) return condition.text + " is not true";
  }
  const char* reason = kernel.data.accepts ? kernel.data.accepts(frame.values()) : nullptr;
  return reason ? reason : "";
}

KernelRun RunKernel(const Operator& op, const OperatorKernel& kernel,
                    const std::vector<Argument>& arguments, const Arrangement& arrangement,
                    ServicesOptions options) {
  KernelRun run;
  const CheckedCall checked = CheckArguments(op, arguments);
  Frame frame(op, arguments, arrangement);
  for (int r = 0; r < op.n_results; ++r) {
    const ResultShape& s = checked.results[r];
    frame.AddResult(r, s.dtype, {s.shape, s.shape + s.rank}, arrangement);
  }
  if (!WhyNot(op, kernel, checked, frame).empty()) return run;
  run.is_taken = true;
  if (!kernel.workspace.node.empty() && kernel.workspace.node[std::size_t(checked.form)] >= 0) {
    const Number n =
        Evaluate(*op.contract, checked.form, kernel.workspace.node[std::size_t(checked.form)],
                 checked.bindings, frame.values(), options.threads);
    options.workspace_bytes = n.known ? std::uint64_t(n.is_float ? n.f : double(n.i)) : 0;
  }
  options.kernel_data = kernel.data.data;
  options.poison = arrangement.poison;
  options.stop_pages = frame.PagesOf(options.stop.memory);
  Services services(options);
  const Running running("kernel " + kernel.name);
  frame.NoteMemories();
  services.NoteMemories();
  const int code = frame.HasSomethingToWrite() ? kernel.data.run(services.context(), frame.values())
                                               : int{ANYOP_OK};
  if (code != ANYOP_OK) run.defect = {"fails", "it fails: " + services.error()};
  if (!run.defect) run.defect = frame.FindDefect(true);
  if (!run.defect) run.defect = services.FindDefect();
  run.cut_regions = services.cut_regions();
  run.waits = services.waits();
  run.results = frame.Read();
  return run;
}

std::string CheckRefusal(const Operator& op, const std::vector<Argument>& arguments) {
  if (!op.data->check) return "";
  Frame frame(op, arguments);
  Services services({});
  const Running running("the .check of " + op.name);
  frame.NoteMemories();
  return op.data->check(services.context(), frame.values()) == ANYOP_OK ? "" : services.error();
}

}  // namespace anyop::optest
