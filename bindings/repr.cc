// SPDX-License-Identifier: Apache-2.0
// How messages show objects and texts of the caller.
#include "python.h"

namespace anyop::python {
namespace {

constexpr Py_ssize_t kLongest = 60;                // characters
constexpr std::size_t kEnough = 4 * kLongest + 4;  // bytes of UTF-8 that surely hold so many

// A str in UTF-8. Surrogates, which have no code there, become escapes.
std::string ToShown(PyObject* text) {
  const Ref bytes(PyUnicode_AsEncodedString(text, "utf-8", "backslashreplace"));
  if (bytes) return {PyBytes_AS_STRING(bytes.get()), std::size_t(PyBytes_GET_SIZE(bytes.get()))};
  ClearOrPass();
  return "?";
}

// The beginning of repr(object). Of what may be long, no more is made than a message shows.
class Beginning {
 public:
  // Throws ErrorSet where repr() fails.
  std::string Of(PyObject* object) {
    Add(object);
    return std::move(text_);
  }

 private:
  bool IsFull() const { return text_.size() > kEnough; }

  // Exact types alone: a subclass may have a repr() of its own.
  void Add(PyObject* object) {
    if (PyList_CheckExact(object)) return AddItems(object, "[", "]");
    if (PyTuple_CheckExact(object)) {
      return AddItems(object, "(", PyTuple_GET_SIZE(object) == 1 ? ",)" : ")");
    }
    if (PyDict_CheckExact(object)) return AddDict(object);
    if (PyAnySet_CheckExact(object) && PySet_GET_SIZE(object)) return AddSet(object);
    // The slice and its quotes are longer than kLongest, so that Cut still ends it with "...".
    const bool is_text = PyUnicode_CheckExact(object) || PyBytes_CheckExact(object);
    if (is_text && PyObject_Size(object) > kLongest) {
      return AddRepr(Checked(PySequence_GetSlice(object, 0, kLongest)).get());
    }
    if (PyLong_CheckExact(object) && AddHugeInt(object)) return;
    AddRepr(object);
  }

  void AddRepr(PyObject* object) {
    const Ref repr = Checked(WithPython([&] { return PyObject_Repr(object); }));
    text_ += ToShown(repr.get());
  }

  // An int of many bits is shown by its size: making its digits takes a time that grows with the
  // square of their number.
  bool AddHugeInt(PyObject* object) {
    int overflow = 0;
    PyLong_AsLongLongAndOverflow(object, &overflow);
    if (!overflow) return false;
    const Ref bits = Checked(PyObject_CallMethod(object, "bit_length", nullptr));
    const long n = PyLong_AsLong(bits.get());
    if (n < 1024) return false;
    text_ += "an int of " + std::to_string(n) + " bits";
    return true;
  }

  // Runs f unless the object is being shown already: a list may hold itself.
  template <class F>
  void Within(PyObject* object, const char* begin, const char* end, F&& f) {
    text_ += begin;
    const int entered = Py_ReprEnter(object);
    if (entered < 0) throw ErrorSet{};
    if (entered) {
      text_ += "...";
    } else {
      struct Leave {
        PyObject* object;
        ~Leave() { Py_ReprLeave(object); }
      } leave{object};
      f();
    }
    text_ += end;
  }
  void Comma(bool is_first) { text_ += is_first ? "" : ", "; }

  // repr() of an item runs code of Python's, which may change the list: its size is asked each
  // time, and the item is held.
  void AddItems(PyObject* list, const char* begin, const char* end) {
    Within(list, begin, end, [&] {
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list) && !IsFull(); ++i) {
        Comma(i == 0);
        Add(Ref::Borrow(PySequence_Fast_GET_ITEM(list, i)).get());
      }
    });
  }
  void AddDict(PyObject* dict) {
    Within(dict, "{", "}", [&] {
      PyObject *key, *value;
      Py_ssize_t at = 0;
      for (bool is_first = true; !IsFull() && PyDict_Next(dict, &at, &key, &value);) {
        const Ref kept_key = Ref::Borrow(key), kept_value = Ref::Borrow(value);
        Comma(std::exchange(is_first, false));
        Add(key);
        text_ += ": ";
        Add(value);
      }
    });
  }
  // A set that changes meanwhile ends the iteration with an error, and is shown by its type.
  void AddSet(PyObject* set) {
    const bool is_frozen = PyFrozenSet_CheckExact(set);
    Within(set, is_frozen ? "frozenset({" : "{", is_frozen ? "})" : "}", [&] {
      const Ref items = Checked(PyObject_GetIter(set));
      for (bool is_first = true; !IsFull();) {
        const Ref item(PyIter_Next(items.get()));
        if (!item && PyErr_Occurred()) throw ErrorSet{};
        if (!item) return;
        Comma(std::exchange(is_first, false));
        Add(item.get());
      }
    });
  }

  std::string text_;
};

// The first characters of a text in UTF-8.
std::string Cut(const std::string& text) {
  std::size_t at = 0;
  for (Py_ssize_t n = 0; at < text.size(); ++at) {
    const bool begins_one = (text[at] & 0xC0) != 0x80;
    if (begins_one && n++ == kLongest) return text.substr(0, at) + "...";
  }
  return text;
}

}  // namespace

std::string Repr(PyObject* object) {
  try {
    return Cut(Beginning().Of(object));
  } catch (const ErrorSet&) {
    ClearOrPass();
    return std::string("a ") + Py_TYPE(object)->tp_name;
  }
}

Ref ToPython(std::string_view text) {
  return Checked(PyUnicode_DecodeUTF8(text.data(), Py_ssize_t(text.size()), "backslashreplace"));
}

std::string ToText(PyObject* object, const char* what) {
  if (!PyUnicode_Check(object)) {
    ThrowTypeError(std::string(what) + " is " + Repr(object) + ", but must be a str.");
  }
  Py_ssize_t n = 0;
  const char* s = PyUnicode_AsUTF8AndSize(object, &n);
  if (s && std::string_view(s, std::size_t(n)).find('\0') == std::string_view::npos) {
    return std::string(s, std::size_t(n));
  }
  ClearOrPass();
  ThrowValueError(std::string(what) + " is " + Repr(object) +
                  ", but must be a text that UTF-8 has codes for, without a null character.");
}

std::string ToNameShown(PyObject* text) { return PyUnicode_Check(text) ? ToShown(text) : "?"; }

std::string ToPath(PyObject* object, const char* what) {
  const Ref path(WithPython([&] { return PyOS_FSPath(object); }));
  if (!path) {
    ClearOrPass();
    ThrowTypeError(std::string(what) + " is " + Repr(object) + ", but must be a path.");
  }
  PyObject* bytes = nullptr;
  if (!PyUnicode_FSConverter(path.get(), &bytes)) {
    ClearOrPass();
    ThrowValueError(std::string(what) + " is " + Repr(object) +
                    ", but no file can have such a name.");
  }
  const Ref owned(bytes);
  return std::string(PyBytes_AS_STRING(bytes), std::size_t(PyBytes_GET_SIZE(bytes)));
}

}  // namespace anyop::python
