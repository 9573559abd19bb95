// SPDX-License-Identifier: Apache-2.0
#include "graph/saved/manifest.h"

#include <cctype>
#include <cstring>

#include "graph/saved/json_text.h"
#include "platform/error.h"
#include "platform/hash_bytes.h"

namespace anyop {
namespace {

constexpr const char* kFormat = "anyop graphs";
constexpr const char *kDigestBegin = "{\n \"digest\": \"", *kDigestEnd = "\",";

Json ToJson(const SavedValue& v) {
  if (!v.is_view) return v.tensor;
  return {{"memory", v.tensor},
          {"offset", v.offset},
          {"dtype", Name(v.dtype)},
          {"shape", v.shape},
          {"strides", v.strides}};
}

// Reads a text that may be damaged, member by member: every message says where.
class Reader {
 public:
  Reader(const Json& json, const std::string& path) : json_(json), path_(path) {}

  void CheckVersion() {
    if (JsonField<std::string>(json_, "format", path_) != kFormat) {
      Fail(ANYOP_INVALID_ARGUMENT, path_ + " is no manifest of saved graphs.");
    }
    const auto version = JsonField<std::int64_t>(json_, "version", path_);
    if (version == kSavedVersion) return;
    Fail(ANYOP_NOT_AVAILABLE,
         path_ + " is of format version " + std::to_string(version) + ", but this anyop reads " +
             std::to_string(kSavedVersion) + ". " +
             (version < kSavedVersion ? "Save the graph again." : "Try a newer anyop."));
  }

  Manifest Read() {
    Manifest m;
    m.anyop = JsonField<std::string>(json_, "anyop", path_);
    m.metadata = JsonField<Json>(json_, "metadata", path_).dump();
    for (const auto& [name, row] : Members("operators")) {
      const std::string what = path_ + ": operator " + name;
      m.operators.push_back({name, JsonField<std::string>(row, "hash", what),
                             JsonField<std::string>(row, "signature", what)});
    }
    for (const auto& [name, row] : Members("zeros")) {
      const std::string what = path_ + ": zeros " + name;
      m.zeros[name] = {DTypeOf(row, what), JsonNumbers(row, "shape", what)};
    }
    m.files = Texts("files");
    m.tensors = Texts("tensors");
    const auto graphs = JsonField<Json>(json_, "graphs", path_);
    if (!graphs.is_array()) Fail(ANYOP_INVALID_ARGUMENT, path_ + ": \"graphs\" must be a list.");
    for (const Json& row : graphs) {
      m.graphs.push_back(ReadGraph(JsonField<std::string>(row, "name", path_ + ": a graph"), row));
    }
    return m;
  }

 private:
  // Of a member that is an object.
  nlohmann::detail::iteration_proxy<Json::const_iterator> Members(const char* key) {
    const auto found = json_.find(key);
    if (found == json_.end() || !found->is_object()) {
      Fail(ANYOP_INVALID_ARGUMENT, path_ + ": \"" + key + "\" must be an object.");
    }
    return found->items();
  }
  std::map<std::string, std::string> Texts(const char* key) {
    std::map<std::string, std::string> texts;
    for (const auto& [name, text] : Members(key)) {
      if (!text.is_string()) {
        Fail(ANYOP_INVALID_ARGUMENT, path_ + ": " + key + " " + name + " must be a text.");
      }
      texts[name] = text.get<std::string>();
    }
    return texts;
  }
  static DType DTypeOf(const Json& row, const std::string& what) {
    const auto name = JsonField<std::string>(row, "dtype", what);
    const int number = FindDType(name);
    if (number >= 0) return DType(number);
    Fail(ANYOP_INVALID_ARGUMENT, what + " has the dtype '" + name + "', which is unknown.");
  }

  SavedGraph ReadGraph(const std::string& name, const Json& row) {
    const std::string what = path_ + ": graph " + name;
    if (!IsSavedName(name)) Fail(ANYOP_INVALID_ARGUMENT, what + " cannot be called so.");
    SavedGraph g{name, JsonField<std::string>(row, "returns", what) == "tuple", {}};
    const auto values = JsonField<Json>(row, "values", what);
    if (!values.is_object()) {
      Fail(ANYOP_INVALID_ARGUMENT, what + ": \"values\" must be an object.");
    }
    for (const auto& [value, where] : values.items()) {
      g.values[value] = ReadValue(where, what + ", " + value);
    }
    return g;
  }
  static SavedValue ReadValue(const Json& row, const std::string& what) {
    SavedValue v;
    v.is_view = !row.is_string();
    if (!v.is_view) {
      v.tensor = row.get<std::string>();
      return v;
    }
    v.tensor = JsonField<std::string>(row, "memory", what);
    v.dtype = DTypeOf(row, what);
    v.offset = JsonField<std::int64_t>(row, "offset", what);
    v.shape = JsonNumbers(row, "shape", what);
    v.strides = JsonNumbers(row, "strides", what);
    return v;
  }

  const Json& json_;
  const std::string& path_;
};

void CheckDigest(const std::string& text, const std::string& path) {
  const std::size_t at = std::strlen(kDigestBegin), end = at + 16;
  const std::size_t rest = end + std::strlen(kDigestEnd);
  const bool has_digest = text.starts_with(kDigestBegin) && text.size() >= rest &&
                          std::string_view(text).substr(end).starts_with(kDigestEnd);
  if (has_digest &&
      text.substr(at, 16) == DigestOf(HashBytes(text.data() + rest, text.size() - rest))) {
    return;
  }
  Fail(ANYOP_INVALID_ARGUMENT,
       path +
           " has changed since it was saved: its digest does not fit it. Save the graph again, "
           "or load it without verifying.");
}

}  // namespace

bool IsSavedName(const std::string& name) {
  if (name.empty() || name.front() == '.' || name.size() > 100) return false;
  for (const unsigned char c : name) {
    if (!std::isalnum(c) && c != '_' && c != '-' && c != '.') return false;
  }
  return true;
}

std::string ShowManifest(const Manifest& m) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kSavedVersion;
  json["anyop"] = m.anyop;
  json["operators"] = Json::object();
  for (const SavedOperator& op : m.operators) {
    json["operators"][op.name] = {{"hash", op.hash}, {"signature", op.signature}};
  }
  json["graphs"] = Json::array();
  for (const SavedGraph& g : m.graphs) {
    Json& row = json["graphs"].emplace_back();
    row["name"] = g.name;
    row["returns"] = g.returns_tuple ? "tuple" : "tensor";
    row["values"] = Json::object();
    for (const auto& [name, value] : g.values) row["values"][name] = ToJson(value);
  }
  json["zeros"] = Json::object();
  for (const auto& [name, z] : m.zeros) {
    json["zeros"][name] = {{"dtype", Name(z.dtype)}, {"shape", z.shape}};
  }
  json["files"] = m.files;
  json["tensors"] = m.tensors;
  json["metadata"] = ParseJson(m.metadata, "the metadata");
  // Words of a signature may be any bytes, but JSON is UTF-8: others are replaced, not refused.
  const std::string text = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  const std::string rest = text.substr(1);  // behind the brace
  return kDigestBegin + DigestOf(HashBytes(rest.data(), rest.size())) + kDigestEnd + rest;
}

Manifest ReadManifest(const std::string& text, const std::string& path, bool verify) {
  const Json json = ParseJson(text, path);
  Reader reader(json, path);
  reader.CheckVersion();
  if (verify) CheckDigest(text, path);
  return reader.Read();
}

}  // namespace anyop
