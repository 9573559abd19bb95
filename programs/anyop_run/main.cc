// SPDX-License-Identifier: Apache-2.0
// anyop-run: generates tokens with a saved model, without Python. One number a line, as they come.
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "decoder.h"

namespace {

constexpr const char* kUsage =
    "Usage: anyop-run MODEL --ids 1,2,3 [--tokens 64] [--threads N] [--library FILE] "
    "[--no-verify]\n"
    "                 [--json]\n"
    "\n"
    "Prints the token ids that the model in the folder MODEL finds likeliest after the prompt, "
    "one\n"
    "a line, until it ends or there are enough.\n"
    "\n"
    "  --ids 1,2,3     the prompt\n"
    "  --tokens 64     the most tokens to generate\n"
    "  --threads N     threads to use; all cores if not given\n"
    "  --library FILE  loads an operator library first; may be repeated\n"
    "  --no-verify     does not compare the files with their digests, which reads all of them\n"
    "  --json          ends with one line of JSON\n";

struct Options {
  std::string model;
  std::vector<std::int64_t> ids;
  std::int64_t tokens = 64;
  int threads = 0;
  std::vector<std::string> libraries;
  anyop::LoadOptions load;
  bool as_json = false, is_help = false;
};

[[noreturn]] void Refuse(const std::string& text) {
  throw anyop::Error(ANYOP_INVALID_ARGUMENT, text + " Try anyop-run --help.");
}

std::int64_t Number(std::string_view text, const std::string& what) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    Refuse(what + " is '" + std::string(text) + "', but must be a whole number.");
  }
  return number;
}

std::vector<std::int64_t> Numbers(std::string_view text, const std::string& what) {
  std::vector<std::int64_t> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    numbers.push_back(Number(text.substr(begin, end - begin), what));
    begin = end + 1;
  }
  return numbers;
}

Options Read(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) Refuse(option + " needs a value.");
      return std::string(argv[++i]);
    };
    if (option == "--ids") {
      o.ids = Numbers(value(), option);
    } else if (option == "--tokens") {
      o.tokens = Number(value(), option);
      if (o.tokens < 0) Refuse("--tokens must be 0 or more.");
    } else if (option == "--threads") {
      const std::int64_t n = Number(value(), option);
      if (n < 1 || n > 256) Refuse("--threads must be from 1 to 256.");
      o.threads = int(n);
    } else if (option == "--library") {
      o.libraries.push_back(value());
    } else if (option == "--no-verify") {
      o.load.verify = false;
    } else if (option == "--json") {
      o.as_json = true;
    } else if (option == "--help" || option == "-h") {
      o.is_help = true;
    } else if (option.starts_with("-") || !o.model.empty()) {
      Refuse("'" + option + "' is no option.");
    } else {
      o.model = option;
    }
  }
  if (!o.is_help && o.model.empty()) Refuse("MODEL is missing.");
  if (!o.is_help && o.ids.empty()) Refuse("--ids is missing.");
  return o;
}

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

void PrintList(const char* key, const std::vector<std::int64_t>& ids) {
  std::printf("\"%s\": [", key);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    std::printf(i ? ", %lld" : "%lld", static_cast<long long>(ids[i]));
  }
  std::printf("], ");
}

void Run(const Options& o) {
  for (const std::string& library : o.libraries) anyop::Load(library);
  anyop::Scope scope;
  if (o.threads) scope.threads(o.threads);
  const double start = Now();
  anyop::Decoder decoder(o.model, o.load);
  const double loaded = Now();
  std::vector<std::int64_t> ids;
  double first = loaded, last = loaded;
  const std::int64_t room = decoder.max_tokens() - std::int64_t(o.ids.size()) + 1;
  const std::int64_t limit = std::min(o.tokens, std::max<std::int64_t>(room, 1));
  std::vector<std::int64_t> next = o.ids;
  while (std::int64_t(ids.size()) < limit) {
    const std::int64_t token = decoder.Append(next);
    if (decoder.IsEnd(token)) break;
    last = Now();
    if (ids.empty()) first = last;
    ids.push_back(token);
    next = {token};
    std::printf("%lld\n", static_cast<long long>(token));
    std::fflush(stdout);
  }
  const double speed = ids.size() > 1 ? double(ids.size() - 1) / (last - first) : 0;
  if (o.as_json) {
    std::printf("{");
    PrintList("prompt_ids", o.ids);
    PrintList("ids", ids);
    std::printf("\"load_s\": %.4f, \"first_token_s\": %.4f, \"tokens_per_s\": %.2f}\n",
                loaded - start, first - loaded, speed);
  }
  std::fprintf(stderr, "[%zu tokens, loaded in %.0f ms, first after %.0f ms, then %.1f tokens/s]\n",
               ids.size(), (loaded - start) * 1e3, (first - loaded) * 1e3, speed);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = Read(argc, argv);
  if (options.is_help) {
    std::fputs(kUsage, stdout);
  } else {
    Run(options);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "anyop-run: %s\n", error.what());
  return 1;
}
