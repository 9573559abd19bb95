// SPDX-License-Identifier: Apache-2.0
// Writes JSON: what our files and reports need of it, and no more.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace anyop {

class JsonWriter {
 public:
  JsonWriter& Begin(char bracket) {
    Separate();
    text_ += bracket;
    needs_comma_ = false;
    return *this;
  }
  JsonWriter& End(char bracket) {
    text_ += bracket;
    needs_comma_ = true;
    return *this;
  }
  JsonWriter& Key(std::string_view key) {
    Separate();
    Quote(key);
    text_ += ": ";
    needs_comma_ = false;
    return *this;
  }
  JsonWriter& Field(std::string_view key, std::string_view value) {
    Key(key);
    Quote(value);
    needs_comma_ = true;
    return *this;
  }
  JsonWriter& Value(std::string_view value) {
    Separate();
    Quote(value);
    needs_comma_ = true;
    return *this;
  }
  JsonWriter& Number(std::int64_t value) {
    Separate();
    text_ += std::to_string(value);
    needs_comma_ = true;
    return *this;
  }
  JsonWriter& Number(std::string_view key, std::int64_t value) { return Key(key).Number(value); }
  JsonWriter& Flag(std::string_view key, bool value) {
    Key(key);
    text_ += value ? "true" : "false";
    needs_comma_ = true;
    return *this;
  }
  JsonWriter& Null(std::string_view key) {
    Key(key);
    text_ += "null";
    needs_comma_ = true;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void Separate() {
    if (needs_comma_) text_ += ", ";
  }
  void Quote(std::string_view s) {
    static constexpr char kHex[] = "0123456789abcdef";
    text_ += '"';
    for (char c : s) {
      if (c == '"' || c == '\\') {
        text_ += {'\\', c};
      } else if (c == '\n') {
        text_ += "\\n";
      } else if (static_cast<unsigned char>(c) < 0x20) {
        text_ += {'\\', 'u', '0', '0', kHex[c >> 4 & 15], kHex[c & 15]};
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool needs_comma_ = false;
};

}  // namespace anyop
