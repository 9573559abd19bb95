// SPDX-License-Identifier: Apache-2.0
// run_where_it_can FEATURES PROGRAM [ARGUMENT...]: runs a test program that is compiled for an
// instruction set, or says that this processor lacks it. The program cannot ask for itself: what
// runs before its main() is compiled so too.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>

#include "platform/cpu.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "run_where_it_can FEATURES PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  const auto& has = anyop::MachineFeatures();
  std::istringstream needs(argv[1]);
  for (std::string need; std::getline(needs, need, ',');) {
    if (std::find(has.begin(), has.end(), need) != has.end()) continue;
    std::printf("[  SKIPPED ] 1 test, because this processor has no %s.\n", need.c_str());
    return 0;
  }
  execv(argv[2], argv + 2);
  std::perror(argv[2]);
  return 2;
}
