// dlbridge.hpp: the C interface of dlbridge for C++17 and later. Header-only, on top of dlbridge.h.
//
//   #include <dlbridge.hpp>
//   #include <iostream>
//
//   int main() {
//     auto x = dlbridge::tensor::lend(std::vector<float>{1, 2, 3, 4, 5, 6}).reshape({2, 3});
//     auto column = x.slice({dlbridge::all, 1}); // x[:, 1], on the same memory
//     column.data<float>()[0] = 42;
//     std::cout << x << '\n'; // float32[2 3] on cpu [[1 42 3] [4 5 6]]
//   }
//
// A message, which needs the library with Go:
//
//   #include <dlbridge.hpp>
//   #include <iostream>
//
//   int main() {
//     auto x = dlbridge::tensor::lend(std::vector<float>{1.5f, 2.5f, 3.5f, 4.5f}, {2, 2});
//     dlbridge::message_fields fields;
//     fields.names = {"x"}; // one name for each tensor
//     auto sent = dlbridge::message::encode({std::move(x)}, fields);
//     auto received = dlbridge::message::decode(sent.packed()); // one block of bytes, as in a file
//     auto row = received["x"].slice({-1}).convert<int>();
//     std::cout << row << '\n'; // int32[2] on cpu [3 4]
//     auto answer = dlbridge::message::encode(std::move(row)).frames(); // ready to be sent
//   }
//
// Owners. A tensor, frame, message, elements object or file owns its raw pointer or struct, and
// releases it in its destructor. Owners can be moved, but not copied. tensor::copy copies the
// elements. x.slice() makes a second owner of the same memory. As with std::unique_ptr, get() lends
// the raw pointer, release() gives it away, and adopt() takes over a raw pointer. A
// default-constructed or moved-from owner is empty. An owner has no lock: a thread must not move or
// destroy it while another thread uses it. The memory of a tensor may be released on any thread.
//
// Errors. If memory runs out, a function throws std::bad_alloc. For any other error it throws
// dlbridge::error with the code and text of the library. Unless the comment of the function says
// otherwise, the arguments are then unchanged and the caller still owns them. Even a function whose
// comment names no exception can throw std::bad_alloc. Destructors and noexcept functions do not
// throw.
//
// Without exceptions (-fno-exceptions, or DLBRIDGE_NO_EXCEPTIONS defined before this header), a
// function that would throw writes the text of the error to stderr and calls std::abort. To go on
// after an error, call the function of dlbridge.h instead: dlb_dtype_parse(&type, text, &e). Files
// with and without exceptions can be linked into one program.
//
// Lists and views. Shapes, strides and indexes may be lists in braces or any container of integers.
// shape() returns `sizes`, which owns its numbers. In C++20,
// `std::span<const std::int64_t> s = shape` is a view of these numbers. values() returns a view,
// which must not be used after the tensor has ended. A view of a temporary does not compile.
// Neither do data() and similar functions of a temporary tensor. std::begin, std::end and std::data
// accept a temporary such as `x.shape()`, but their results must not be used after the statement.
//
// The rules of dlbridge.h about threads, forked children and functions that need Go apply here too.
// There is no global state. A program that uses only tensors can be linked with libdlbridge_tensor.
#ifndef DLBRIDGE_HPP_
#define DLBRIDGE_HPP_

#include "dlbridge.h"

#if __cplusplus < 201703L
#error "dlbridge.hpp needs C++17; dlbridge.h serves C++11"
#endif

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>
#if __has_include(<version>)
#include <version>
#endif
#ifdef __cpp_lib_span
#include <span>
#endif
#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif
#if defined(__STDCPP_FLOAT16_T__) || defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

#if !defined(DLBRIDGE_NO_EXCEPTIONS) && !defined(__cpp_exceptions)
#define DLBRIDGE_NO_EXCEPTIONS
#endif
#ifdef DLBRIDGE_NO_EXCEPTIONS
#include <cstdio>
#include <cstdlib>
#endif

// Makes clang warn if a result outlives the object to which the result refers.
#if defined(__clang__) && __has_cpp_attribute(clang::lifetimebound)
#define DLBRIDGE_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define DLBRIDGE_LIFETIMEBOUND
#endif

namespace dlbridge {
#ifdef DLBRIDGE_NO_EXCEPTIONS
inline namespace no_exceptions {  // linker names differ from those in files with exceptions
#endif

// An error of the library: a code DLB_ERROR_* and its text. The code DLB_ERROR_MEMORY is thrown as
// std::bad_alloc instead.
class error : public std::runtime_error {
 public:
  // The text is copied. Throws std::bad_alloc.
  error(std::int32_t code, const std::string &text) : std::runtime_error(text), code_(code) {}

  // Returns the code, such as DLB_ERROR_DTYPE.
  std::int32_t code() const noexcept { return code_; }

 private:
  std::int32_t code_;
};

// Base classes of the classes below. This namespace must have no functions: argument-dependent
// lookup would find them for every argument of these classes.
namespace bases {

// The owner of a C object, and the base class of tensor, message and elements. The function `end`
// releases the object.
template <class Owner, class Raw, void (*end)(Raw *)>
class owner {
 public:
  // Takes over an object. NULL makes an empty owner.
  static Owner adopt(Raw *raw) noexcept { return Owner(raw); }

  // Lends the raw pointer, or NULL if this owner is empty. The owner keeps the object.
  Raw *get() const noexcept DLBRIDGE_LIFETIMEBOUND { return raw_; }

  // Gives the object to the caller, who must release it. This owner is then empty.
  Raw *release() noexcept { return std::exchange(raw_, nullptr); }

  explicit operator bool() const noexcept { return raw_ != nullptr; }

 protected:
  owner() noexcept = default;
  explicit owner(Raw *raw) noexcept : raw_(raw) {}
  owner(owner &&other) noexcept : raw_(other.release()) {}
  owner &operator=(owner &&other) noexcept {
    end(std::exchange(raw_, other.release()));
    return *this;
  }
  ~owner() { end(raw_); }

  Raw *raw_ = nullptr;
};

}  // namespace bases

namespace detail {

// Throws an error. In a program without exceptions, ends the program.
[[noreturn]] inline void fail(std::int32_t code, const std::string &text) {
#ifdef DLBRIDGE_NO_EXCEPTIONS
  std::fprintf(stderr, "dlbridge: error %s: %s\n", dlb_error_name(code), text.c_str());
  std::abort();
#else
  if (code == DLB_ERROR_MEMORY) throw std::bad_alloc();
  throw error(code, text);
#endif
}

inline void check(std::int32_t code, const dlb_error &e) {
  if (code != DLB_OK) fail(code, e.message);
}

// Calls a function whose output is its first argument and whose error is its last.
template <class Out, class... Parameters, class... Arguments>
Out call(std::int32_t (*function)(Out *, Parameters...), Arguments... arguments) {
  Out out{};
  dlb_error e;
  check(function(&out, arguments..., &e), e);
  return out;
}

// Returns the text that a function of dlbridge.h writes into a buffer, without its NUL.
template <class... Parameters, class... Arguments>
std::string text(std::int32_t (*function)(std::size_t *, char *, std::size_t, Parameters...),
                 Arguments... arguments) {
  std::string out(call(function, static_cast<char *>(nullptr), std::size_t{0}, arguments...), '\0');
  out.resize(call(function, out.data(), out.size(), arguments...) - 1);
  return out;
}

// Returns a name as a C string. Throws error if the name has a NUL, which would end the C string.
inline const char *c_string(const std::string &name, std::int32_t code, const char *function) {
  if (name.find('\0') != std::string::npos)
    detail::fail(code,
                 std::string(function) + ": the name has a NUL: " + name.c_str() + "\\x00...");
  return name.c_str();
}

inline std::string_view view(dlb_bytes b) noexcept { return {b.data, b.size}; }
inline dlb_bytes bytes(std::string_view s) noexcept { return {s.data(), s.size()}; }

template <class Owner>
void destroy(void *owner) {
  delete static_cast<Owner *>(owner);
}

template <class T>
using plain = std::remove_cv_t<std::remove_reference_t<T>>;
template <class T>
inline constexpr bool never = false;

// Makes compilation fail if the program asks a temporary tensor for an address.
template <class T>
constexpr void temporary_tensor() {
  static_assert(never<T>,
                "dlbridge: the tensor is a temporary, which may be the last owner of the memory: "
                "give the tensor a name first.");
}
#ifdef __cpp_lib_span
template <class T>
inline constexpr bool is_view = std::ranges::enable_borrowed_range<T>;
#else
template <class T>
inline constexpr bool is_view = false;  // set below for the types that own nothing
#endif
template <class T>
inline constexpr bool is_list = false;  // set below for list_of

// Whether the elements may outlive an object of this type. An example is a view class of the
// program.
template <class T>
inline constexpr bool may_be_view = std::is_class_v<T> && std::is_trivially_copyable_v<T>;
template <class T, std::size_t Size>
inline constexpr bool may_be_view<std::array<T, Size>> = false;

template <class T, class = void>
inline constexpr bool has_data = false;
template <class T>
inline constexpr bool has_data<
    T, std::enable_if_t<std::is_pointer_v<decltype(std::data(std::declval<T &>()))>>> = true;
template <class T, class = void>
inline constexpr bool has_begin = false;
template <class T>
inline constexpr bool has_begin<T, std::void_t<decltype(std::begin(std::declval<T &>()))>> = true;

template <class Enable, class... Call>
inline constexpr bool is_void_call = false;
template <class... Call>
inline constexpr bool is_void_call<
    std::enable_if_t<std::is_void_v<typename std::invoke_result<Call...>::type>>, Call...> = true;

// Whether T is probably a function that frees memory: a function, a std::function, a lambda, or
// another object whose call returns nothing. The call has no arguments, or only the pointer. Other
// callable objects, such as matrices, can be owners. A lambda is recognised by its single
// operator() without an assignment operator.
template <class T, class Pointer, class = void>
inline constexpr bool is_deleter = std::is_function_v<std::remove_pointer_t<T>> ||
                                   is_void_call<void, T &> || is_void_call<void, T &, Pointer>;
template <class T, class Pointer>
inline constexpr bool is_deleter<
    T, Pointer,
    std::enable_if_t<!std::is_move_assignable_v<T>, std::void_t<decltype(&T::operator())>>> = true;
template <class Call, class Pointer>
inline constexpr bool is_deleter<std::function<Call>, Pointer, void> = true;

// Whether objects of this type keep nothing alive, because their destructor has no effect. Examples
// are a number, a std::reference_wrapper and a list.
template <class T>
inline constexpr bool is_inert =
    (std::is_trivially_destructible_v<T> && !std::is_null_pointer_v<T>) || is_list<T>;

// Whether T can be the type of a number in a shape, axes or an index. It must be an integer type,
// except bool and the character types.
template <class T>
inline constexpr bool is_number =
    std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char> &&
    !std::is_same_v<T, wchar_t> && !std::is_same_v<T, char16_t> &&
#ifdef __cpp_char8_t
    !std::is_same_v<T, char8_t> &&
#endif
    !std::is_same_v<T, char32_t>;

// Compiles only if lend() accepts an argument of this type. Otherwise the compiler's message says
// what to pass instead.
template <class Argument>
constexpr bool lendable() {
  using Container = plain<Argument>;
  static_assert(!std::is_pointer_v<std::decay_t<Argument>>,
                "dlbridge: lend: a pointer owns no memory: use lend(data, shape, owner) with an "
                "owner that keeps the memory.");
  static_assert(!is_view<Container>,
                "dlbridge: lend: a view owns no memory: use lend(data, shape, owner) with an owner "
                "that keeps the memory.");
  static_assert(!std::is_lvalue_reference_v<Argument>,
                "dlbridge: lend: the container must be moved into the tensor or frame: write "
                "lend(std::move(x)).");
  static_assert(
      !std::is_const_v<std::remove_reference_t<Argument>>,
      "dlbridge: lend: a const container cannot be moved; drop its const, or lend a copy of it.");
  static_assert(
      !std::is_same_v<Container, std::vector<bool>>,
      "dlbridge: lend: std::vector<bool> stores bits and not bools: use std::vector<std::uint8_t>, "
      "or lend(data, shape, owner) with a std::unique_ptr<bool[]>.");
  static_assert(has_data<Container> || std::is_pointer_v<std::decay_t<Argument>>,
                "dlbridge: lend: the elements must lie in one block, as those of std::vector do: "
                "copy a std::list or std::deque into one.");
  return true;
}

// Compiles only if an object of this type keeps memory alive.
template <class Argument, class Pointer>
constexpr bool keeps() {
  using Owner = std::decay_t<Argument>;
  static_assert(std::is_constructible_v<Owner, Argument>,
                "dlbridge: lend: this owner cannot be copied: pass std::move(owner), which is "
                "moved into the tensor.");
  static_assert(!is_deleter<Owner, Pointer>,
                "dlbridge: lend: the owner is destroyed and never called: to call a function, pass "
                "std::shared_ptr<void>(data, function); if this object owns the memory and can "
                "also be called, pass std::make_unique<Owner>(std::move(owner)).");
  static_assert(!std::is_pointer_v<Owner> || is_deleter<Owner, Pointer>,
                "dlbridge: lend: a pointer keeps no memory alive: pass its smart pointer or its "
                "container, or nullptr for memory that is never freed.");
  static_assert(!is_view<Owner>,
                "dlbridge: lend: a view keeps no memory alive: pass the container, or nullptr for "
                "memory that is never freed.");
  static_assert(
      !is_inert<Owner> || std::is_pointer_v<Owner> || is_view<Owner> || is_deleter<Owner, Pointer>,
      "dlbridge: lend: an object of this type keeps no memory alive: pass a smart pointer or a "
      "container, or nullptr for memory that is never freed; strides and flags come after the "
      "owner.");
  static_assert(!std::is_lvalue_reference_v<Argument> || is_inert<Owner> ||
                    !(has_begin<Owner> || has_data<Owner>),
                "dlbridge: lend: the tensor would keep a copy of this container, with other "
                "elements than those at data: pass std::move(x), or a std::shared_ptr of the "
                "container, or, if copies share their elements, a copy: Owner(x).");
  return true;
}

// Moves a container into a new object, and passes this object to `lend`, which must take over the
// object or throw. If `lend` throws, the container is moved back.
template <class Container, class Lend>
auto lend_container(Container &container, Lend lend) {
  struct keeper {
    Container &from;
    std::unique_ptr<Container> owner;
    ~keeper() {
      if (owner != nullptr) from = std::move(*owner);
    }
  } kept{container, std::make_unique<Container>(std::move(container))};
  auto lent = lend(*kept.owner);
  kept.owner.release();
  return lent;
}

}  // namespace detail

// A view of elements of the type T in consecutive memory. It is like std::span, but for C++17. In
// C++20 it converts to std::span. A view must not be used after its memory is freed.
template <class T>
class array_view {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  constexpr array_view() noexcept = default;
  constexpr array_view(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <class Container, class Data = decltype(std::data(std::declval<Container &>())),
            std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<Data> (*)[], T (*)[]> &&
                                 !detail::may_be_view<detail::plain<Container>>, int> = 0>
  constexpr array_view(Container &&container DLBRIDGE_LIFETIMEBOUND) noexcept
      : array_view(std::data(container), std::size(container)) {
    static_assert(!detail::is_list<Container>,
                  "dlbridge: this list is a temporary, so its address becomes invalid at once: "
                  "give the list a name first.");
  }
  template <class View, class Data = decltype(std::data(std::declval<const View &>())),
            std::enable_if_t<std::is_convertible_v<std::remove_pointer_t<Data> (*)[], T (*)[]> &&
                                 detail::may_be_view<View>,
                             int> = 0>
  constexpr array_view(const View &view) noexcept : array_view(std::data(view), std::size(view)) {}

  constexpr T *data() const noexcept { return data_; }
  constexpr std::size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T *begin() const noexcept { return data_; }
  constexpr T *end() const noexcept { return data_ + size_; }
  constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T *data_ = nullptr;
  std::size_t size_ = 0;
};

// A list that owns its elements: numbers, subscripts or texts. A parameter of this type accepts a
// list in braces, and every container with elements of the type T. A list of numbers accepts
// containers of any integer type. The list allocates memory only for more than 8 elements.
template <class T>
class list_of {
 public:
  using value_type = T;
  // This type is not a pointer. With a pointer, a constructor of std::span would accept even a
  // temporary list.
  using const_iterator = std::reverse_iterator<std::reverse_iterator<const T *>>;

  list_of() noexcept = default;
  list_of(const list_of &) = default;  // no move: it would empty many_ but keep size_
  list_of &operator=(const list_of &) = default;
  list_of(std::initializer_list<T> list) : list_of(list.begin(), list.size()) {}
  list_of(const T *data, std::size_t size) { assign(data, data + size); }

  // Throw error (DLB_ERROR_OVERFLOW for an integer outside the range of T).
  template <class Number, std::enable_if_t<std::is_arithmetic_v<Number>, int> = 0>
  list_of(std::initializer_list<Number> list) {
    assign(list.begin(), list.end());
  }
  template <class Container,
            std::enable_if_t<detail::has_begin<Container> &&
                                 !std::is_same_v<detail::plain<Container>, list_of>,
                             int> = 0>
  list_of(Container &&container) {
    using Reference = decltype(*std::begin(container));
    constexpr bool kept = std::is_reference_v<Reference> &&
                          (std::is_lvalue_reference_v<Container> || detail::is_view<Container>);
    static_assert(!std::is_same_v<T, std::string_view> ||
                      std::is_trivially_copyable_v<detail::plain<Reference>> || kept,
                  "dlbridge: these texts are temporary, and the list does not copy them: give "
                  "their container a name first.");
    assign(std::begin(container), std::end(container));
  }
  template <class Number,
            std::enable_if_t<std::is_arithmetic_v<Number> || std::is_same_v<Number, T>, int> = 0>
  list_of(Number) {
    static_assert(detail::never<Number>,
                  "dlbridge: a list is written in braces, even if it has a single number: {3}.");
  }

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  const T &operator[](std::size_t i) const & noexcept DLBRIDGE_LIFETIMEBOUND { return data()[i]; }
  T operator[](std::size_t i) const && noexcept { return list()[i]; }
  const T *data() const & noexcept DLBRIDGE_LIFETIMEBOUND {
    return size_ > few ? many_.data() : few_.data();
  }
  const_iterator begin() const & noexcept DLBRIDGE_LIFETIMEBOUND { return iterator_at(data()); }
  const_iterator end() const & noexcept DLBRIDGE_LIFETIMEBOUND {
    return iterator_at(data() + size_);
  }
#ifdef __cpp_lib_span
  operator std::span<const T>() const & noexcept DLBRIDGE_LIFETIMEBOUND { return {data(), size_}; }
#endif

  // Taking an address in a temporary list does not compile.
  const T *data() const && noexcept { return refuse(); }
  const_iterator begin() const && noexcept { return iterator_at(refuse()); }
  const_iterator end() const && noexcept { return iterator_at(refuse()); }
#ifdef __cpp_lib_span
  operator std::span<const T>() const && noexcept { return {refuse(), size_}; }
#endif

  // Report whether two lists have equal elements: `x.shape() == dlbridge::sizes{2, 3}`, or
  // `== std::vector<std::size_t>{2, 3}`.
  friend bool operator==(const list_of &a, const list_of &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator!=(const list_of &a, const list_of &b) { return !(a == b); }

 private:
  static constexpr std::size_t few = 8;

  template <class Iterator>
  void assign(Iterator first, Iterator last) {
    size_ = static_cast<std::size_t>(std::distance(first, last));
    if (size_ > few) many_.resize(size_);
    T *out = size_ > few ? many_.data() : few_.data();
    for (; first != last; ++first) *out++ = converted(*first);
  }

  template <class Element>
  static T converted(const Element &element) {
    if constexpr (std::is_integral_v<T>) {
      static_assert(detail::is_number<Element>,
                    "dlbridge: shapes, strides, axes and indexes are lists of integers.");
      if constexpr (detail::is_number<Element> && !std::is_same_v<Element, T>) {
        const T number = static_cast<T>(element);
        if (static_cast<Element>(number) != element || (number < 0) != (element < Element{}))
          detail::fail(DLB_ERROR_OVERFLOW, "dlbridge::list_of: " + std::to_string(element) +
                                               " is out of range for a signed integer of " +
                                               std::to_string(8 * sizeof(T)) + " bits");
        return number;
      } else {
        return static_cast<T>(element);
      }
    } else {
      static_assert(std::is_constructible_v<T, Element>,
                    "dlbridge: an element of this list has the wrong type: a subscript is an "
                    "integer, a range or a constant such as all.");
      return T(element);
    }
  }

  static const_iterator iterator_at(const T *p) noexcept {
    return const_iterator(std::reverse_iterator<const T *>(p));
  }
  const list_of &list() const noexcept { return *this; }
  static const T *refuse() noexcept {
    static_assert(detail::never<T>,
                  "dlbridge: this list is a temporary, so its address becomes invalid at once: "
                  "give the list a name first.");
    return nullptr;
  }

  std::size_t size_ = 0;
  std::array<T, few> few_{};
  std::vector<T> many_;  // all elements, if they do not fit into few_
};

// Writes the elements of a list like the elements of a tensor: "[2 3]".
template <class T>
std::ostream &operator<<(std::ostream &out, const list_of<T> &list) {
  out << '[';
  for (std::size_t i = 0; i < list.size(); i++) out << (i == 0 ? "" : " ") << list[i];
  return out << ']';
}

namespace detail {
template <class T>
inline constexpr bool is_list<list_of<T>> = true;
template <class T>
inline constexpr bool is_view<array_view<T>> = true;
template <class T>
inline constexpr bool is_view<std::basic_string_view<T>> = true;
template <class T>
inline constexpr bool is_view<std::initializer_list<T>> = true;
template <class T>
inline constexpr bool is_view<std::weak_ptr<T>> = true;

// Returns the size of a list as a number of dimensions. A size that is too large becomes INT32_MAX,
// which the library refuses.
template <class List>
std::int32_t rank_of(const List &list) noexcept {
  return static_cast<std::int32_t>(std::min<std::size_t>(list.size(), INT32_MAX));
}

}  // namespace detail

using sizes = list_of<std::int64_t>;     // a shape, strides, or an index of each dimension
using axes = list_of<std::int32_t>;      // numbers of dimensions; negatives count from the end
using texts = list_of<std::string_view>;  // texts that the caller keeps

#ifdef __cpp_lib_span
template <class T>
using span = std::span<T>;
#else
template <class T>
using span = array_view<T>;
#endif

// ---- data types and devices ----

// A DLPack data type and a DLPack device for C++, with ==, !=, << and to_string. They convert to
// and from the C structs.
struct data_type : DLDataType {
  constexpr data_type(DLDataType type) noexcept : DLDataType(type) {}
  friend constexpr bool operator==(const data_type &a, const data_type &b) noexcept {
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
  }
  friend constexpr bool operator!=(const data_type &a, const data_type &b) noexcept {
    return !(a == b);
  }
};

struct device : DLDevice {
  constexpr device(DLDevice d) noexcept : DLDevice(d) {}
  friend constexpr bool operator==(const device &a, const device &b) noexcept {
    return a.device_type == b.device_type && a.device_id == b.device_id;
  }
  friend constexpr bool operator!=(const device &a, const device &b) noexcept { return !(a == b); }
};

// dtype_of<T>::value is the DLPack data type of the C++ type T. T is bool, std::byte, float,
// double, std::complex of float or double, std::float16_t or std::bfloat16_t. T may also be an
// integer type of up to 64 bits, except char, wchar_t and char8_t to char32_t. A program may
// specialise dtype_of for its own types.
template <class T, class = void>
struct dtype_of {
  static_assert(detail::never<T>,
                "DLPack has no type for T. Characters are text: use std::int8_t, std::uint8_t or "
                "std::byte. For a type of your own, specialise dlbridge::dtype_of.");
};

template <class T>
struct dtype_of<T, std::enable_if_t<detail::is_number<T> && sizeof(T) <= 8>> {
  static constexpr DLDataType value = {std::is_signed_v<T> ? kDLInt : kDLUInt,
                                       static_cast<std::uint8_t>(8 * sizeof(T)), 1};
};
template <>
struct dtype_of<bool> {
  static constexpr DLDataType value = {kDLBool, 8, 1};
};
template <>
struct dtype_of<std::byte> {
  static constexpr DLDataType value = {kDLUInt, 8, 1};
};
template <>
struct dtype_of<float> {
  static constexpr DLDataType value = {kDLFloat, 32, 1};
};
template <>
struct dtype_of<double> {
  static constexpr DLDataType value = {kDLFloat, 64, 1};
};
template <>
struct dtype_of<std::complex<float>> {
  static constexpr DLDataType value = {kDLComplex, 64, 1};
};
template <>
struct dtype_of<std::complex<double>> {
  static constexpr DLDataType value = {kDLComplex, 128, 1};
};
#ifdef __STDCPP_FLOAT16_T__
template <>
struct dtype_of<std::float16_t> {
  static constexpr DLDataType value = {kDLFloat, 16, 1};
};
#endif
#ifdef __STDCPP_BFLOAT16_T__
template <>
struct dtype_of<std::bfloat16_t> {
  static constexpr DLDataType value = {kDLBfloat, 16, 1};
};
#endif

// The data type of T or const T.
template <class T>
inline constexpr data_type dtype = dtype_of<std::remove_cv_t<T>>::value;

// Returns the number of bits of an element with all its lanes: 4 for int4.
inline std::int32_t bits_of(DLDataType type) noexcept { return dlb_dtype_bits(type); }

// Returns the name of a data type: "float32". Throws std::bad_alloc.
inline std::string to_string(DLDataType type) { return detail::text(dlb_dtype_format, type); }

// Returns the name of a device: "cuda:1". Throws std::bad_alloc.
inline std::string to_string(DLDevice d) { return detail::text(dlb_device_format, d); }

// Write the text of to_string.
inline std::ostream &operator<<(std::ostream &out, const data_type &type) {
  return out << to_string(type);
}
inline std::ostream &operator<<(std::ostream &out, const device &d) { return out << to_string(d); }

// Reads the name of a data type, as dlb_dtype_parse does. Throws error (DLB_ERROR_DTYPE).
inline data_type parse_dtype(const std::string &name) {
  return detail::call(dlb_dtype_parse, detail::c_string(name, DLB_ERROR_DTYPE, "dlb_dtype_parse"));
}

// Reads the name of a device, as dlb_device_parse does. Throws error (DLB_ERROR_DEVICE).
inline device parse_device(const std::string &name) {
  return detail::call(dlb_device_parse,
                      detail::c_string(name, DLB_ERROR_DEVICE, "dlb_device_parse"));
}

// ---- tensors ----

// A subscript of tensor::slice: an index, which removes the dimension, or one of the constants and
// functions below.
struct subscript : dlb_index {
  constexpr subscript() noexcept : dlb_index DLB_ALL {}
  constexpr subscript(dlb_index index) noexcept : dlb_index(index) {}
  template <class Number, std::enable_if_t<detail::is_number<Number>, int> = 0>
  constexpr subscript(Number index) noexcept : dlb_index DLB_AT(index) {}
};
static_assert(sizeof(subscript) == sizeof(dlb_index), "an array of subscripts is one of dlb_index");

inline constexpr subscript all = dlb_index DLB_ALL;            // :
inline constexpr subscript ellipsis = dlb_index DLB_ELLIPSIS;  // ..., the remaining dimensions
inline constexpr subscript new_axis = dlb_index DLB_NEW_AXIS;  // None, a new dimension of size 1
// Return start:stop:step, start:, :stop and ::step, by the rules of Python.
constexpr subscript range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) noexcept {
  return dlb_index DLB_RANGE_STEP(start, stop, step);
}
constexpr subscript from(std::int64_t start) noexcept { return dlb_index DLB_FROM(start); }
constexpr subscript until(std::int64_t stop) noexcept { return dlb_index DLB_UNTIL(stop); }
constexpr subscript every(std::int64_t step) noexcept { return dlb_index DLB_STEP(step); }

// The owner of a DLManagedTensorVersioned of this library or another. The owner calls the deleter
// once. After release(), the caller must call the deleter.
class [[nodiscard]] tensor
    : public bases::owner<tensor, DLManagedTensorVersioned, dlb_tensor_release> {
 public:
  tensor() noexcept = default;

  // Takes over a legacy tensor. `flags` adds flags that the legacy form lacks. Throws error; the
  // caller then still owns `raw`.
  static tensor from_legacy(DLManagedTensor *raw, std::uint64_t flags = 0) {
    return adopt(detail::call(dlb_tensor_from_legacy, raw, flags));
  }

  // Gives the tensor to the caller in the legacy form. This owner is then empty. Throws error
  // (DLB_ERROR_READONLY, or DLB_ERROR_DTYPE for elements that are padded to whole bytes).
  DLManagedTensor *release_legacy() {
    DLManagedTensor *legacy = detail::call(dlb_tensor_to_legacy, raw_);
    raw_ = nullptr;
    return legacy;
  }

  // Releases the tensor of this owner, and takes over `raw` unless it is NULL.
  void reset(DLManagedTensorVersioned *raw = nullptr) noexcept {
    dlb_tensor_release(std::exchange(raw_, raw));
  }

  // Turns a tensor of another library into a tensor of this library on the same memory. Then the
  // program can make views of it. Throws error.
  tensor imported() && {
    tensor out(detail::call(dlb_tensor_import, raw_));
    raw_ = nullptr;
    return out;
  }

  // Returns a new row-major tensor of zeros on the CPU. Throws error.
  static tensor zeros(DLDataType type, const sizes &shape) {
    return adopt(detail::call(dlb_tensor_alloc, type, detail::rank_of(shape), shape.data()));
  }
  template <class T>
  static tensor zeros(const sizes &shape) {
    return zeros(dlbridge::dtype<T>, shape);
  }

  // Returns a tensor of zeros in memory of `allocator`: see dlb_tensor_alloc_with. Throws error.
  static tensor zeros(DLDataType type, const sizes &shape, const dlb_allocator &allocator) {
    return adopt(detail::call(dlb_tensor_alloc_with, type, detail::rank_of(shape), shape.data(),
                              &allocator));
  }

  // Returns a new row-major tensor on the CPU, whose elements are undefined until they are written.
  // Throws error.
  static tensor empty(DLDataType type, const sizes &shape) {
    return adopt(detail::call(dlb_tensor_empty, type, detail::rank_of(shape), shape.data()));
  }
  template <class T>
  static tensor empty(const sizes &shape) {
    return empty(dlbridge::dtype<T>, shape);
  }

  // Returns a tensor on the elements of a container such as std::vector. The container is moved
  // into the tensor. When nothing refers to its memory any more, the container is destroyed, on any
  // thread. Throws error.
  template <class Container>
  static tensor lend(Container &&container) {
    static_assert(detail::lendable<Container>());
    const auto size = static_cast<std::int64_t>(std::size(container));
    return lend(std::move(container), sizes{size});
  }

  // As above, with a shape. The elements are row-major. Throws error (DLB_ERROR_LAYOUT if the
  // container does not have as many elements as the shape).
  template <class Container>
  static tensor lend(Container &&container, const sizes &shape) {
    static_assert(detail::lendable<Container>());
    return detail::lend_container(container, [&shape](Container &owner) {
      if (count_of(shape) != static_cast<std::int64_t>(std::size(owner)))
        detail::fail(DLB_ERROR_LAYOUT, "dlbridge::tensor::lend: the container has " +
                                           std::to_string(std::size(owner)) +
                                           " elements, but the shape has " +
                                           std::to_string(count_of(shape)));
      return lend_raw(std::data(owner), shape, {}, 0, detail::destroy<Container>, &owner);
    });
  }

  // Returns a tensor on the memory at `data`. `owner`, such as a smart pointer or a matrix, keeps
  // the memory alive. Pass nullptr for memory that is never freed. The owner is moved or copied
  // into the tensor. When nothing refers to the memory any more, this owner is destroyed, on any
  // thread. `lend(p.get(), {4}, std::move(p))` is correct: the owner is moved after all arguments
  // are evaluated. The call does not compile if the owner keeps nothing alive, such as a number, a
  // pointer, a view or a copy of a container. Empty strides mean row-major. With a pointer to
  // const, the tensor is READ_ONLY. Throws error (DLB_ERROR_ARGUMENT if the elements are inside the
  // owner object); the owner is then unchanged.
  template <class T, class Owner>
  static tensor lend(T *data, const sizes &shape, Owner &&owner, const sizes &strides = {},
                     std::uint64_t flags = 0) {
    using Kept = std::optional<std::decay_t<Owner>>;
    static_assert(detail::keeps<Owner, std::remove_cv_t<T> *>());
    const auto first = reinterpret_cast<std::uintptr_t>(data),
               object = reinterpret_cast<std::uintptr_t>(std::addressof(owner));
    if (first >= object && first - object < sizeof owner)
      detail::fail(DLB_ERROR_ARGUMENT,
                   "dlbridge::tensor::lend: the elements lie in the owner itself, so data would be "
                   "invalid after a move: use lend(std::move(x), shape) for a container, or keep "
                   "the object in a std::unique_ptr");
    auto kept = std::make_unique<Kept>();
    tensor out = lend_raw(data, shape, strides, flags, detail::destroy<Kept>, kept.get());
    kept.release()->emplace(std::forward<Owner>(owner));
    return out;
  }

  // Describe the tensor. Strides count elements. Some libraries omit the strides of a row-major
  // tensor; strides() is then empty. A negative axis counts from the last axis. Throw error
  // (DLB_ERROR_NULL if this owner is empty, DLB_ERROR_ARGUMENT for an axis out of range).
  const DLTensor &dl_tensor() const & DLBRIDGE_LIFETIMEBOUND {
    if (raw_ == nullptr)
      detail::fail(
          DLB_ERROR_NULL,
          "dlbridge::tensor: the owner is empty: it was moved from, released or never set");
    return raw_->dl_tensor;
  }
  template <class T = void>
  const DLTensor &dl_tensor() const && {
    return detail::temporary_tensor<T>(), dl_tensor();
  }
  std::int32_t ndim() const { return dl_tensor().ndim; }
  sizes shape() const { return {dl_tensor().shape, static_cast<std::size_t>(ndim())}; }
  std::int64_t shape(std::int32_t axis) const { return dl_tensor().shape[axis_of(axis)]; }
  sizes strides() const {
    return {dl_tensor().strides,
            dl_tensor().strides == nullptr ? 0 : static_cast<std::size_t>(ndim())};
  }
  data_type dtype() const { return dl_tensor().dtype; }
  dlbridge::device device() const { return dl_tensor().device; }
  std::uint64_t flags() const { return dl_tensor(), raw_->flags; }
  bool read_only() const { return (flags() & DLPACK_FLAG_BITMASK_READ_ONLY) != 0; }

  // Return the number of elements, and the size of all elements in bytes, without gaps. Throw
  // error.
  std::int64_t size() const { return detail::call(dlb_tensor_count, get()); }
  std::int64_t nbytes() const { return detail::call(dlb_tensor_nbytes, get()); }

  // Checks the description without accessing the memory. Throws error.
  void validate() const {
    dlb_error e;
    detail::check(dlb_tensor_validate(raw_, &e), e);
  }

  // Reports whether the elements are row-major without gaps. Throws error.
  bool is_contiguous() const { return detail::call(dlb_tensor_is_contiguous, get()) != 0; }

  // Returns the address of element (0, ..., 0). The other elements follow this element only if
  // is_contiguous(). In any layout, at() finds an element. The address is valid until the last
  // owner of the memory ends. Throws error unless the elements have the type T, are aligned, and
  // are in memory that the host can read. If T is not const, the elements must also be writable.
  template <class T>
  T *data() const & {
    const DLTensor &t = dl_tensor();
    const auto fail = [](std::int32_t code, const std::string &text) {
      detail::fail(code, "dlbridge::tensor::data: " + text);
    };
    if (t.dtype != dlbridge::dtype<T>)
      fail(DLB_ERROR_DTYPE, "the elements are " + to_string(t.dtype) + ", not " +
                                to_string(dlbridge::dtype<T>) + "; convert() changes their type");
    // The rule is that of dlbcore_host_readable, which the library does not export.
    if (t.device.device_type != kDLCPU && t.device.device_type != kDLCUDAHost &&
        t.device.device_type != kDLROCMHost)
      fail(DLB_ERROR_DEVICE, "the host cannot read memory of " + to_string(t.device));
    if (!std::is_const_v<T> && read_only())
      fail(DLB_ERROR_READONLY,
           "the tensor is read-only; data<const T>() reads it, copy() makes a writable one");
    const auto address =
        reinterpret_cast<std::uintptr_t>(t.data) + static_cast<std::uintptr_t>(t.byte_offset);
    if (address % alignof(T) != 0)
      fail(DLB_ERROR_UNALIGNED, "the elements are not aligned to " + std::to_string(alignof(T)) +
                                    " bytes; copy() aligns them");
    return reinterpret_cast<T *>(address);
  }
  template <class T>
  T *data() const && {
    return detail::temporary_tensor<T>(), nullptr;
  }

  // Returns all elements of a contiguous tensor: a std::span in C++20, an array_view in C++17. The
  // view is valid until the last owner of the memory ends. Throws error as data() does, and
  // DLB_ERROR_LAYOUT if the elements have gaps.
  template <class T>
  dlbridge::span<T> values() const & DLBRIDGE_LIFETIMEBOUND {
    T *first = data<T>();
    require_contiguous("values");
    return {first, static_cast<std::size_t>(size())};
  }
  template <class T>
  dlbridge::span<T> values() const && {
    return detail::temporary_tensor<T>(), dlbridge::span<T>();
  }

  // Returns one element: `x.at<float>({1, 2}) = 3`. The reference is valid until the last owner of
  // the memory ends. For a temporary tensor, the result is a copy of the element. Throws error as
  // data() does, and DLB_ERROR_ARGUMENT if the index is negative, is out of range or has the wrong
  // number of dimensions.
  template <class T>
  T &at(const sizes &index) const & {
    T *element = data<T>();
    const array_view<const std::int64_t> extents(raw_->dl_tensor.shape,
                                                 static_cast<std::size_t>(ndim()));
    const std::int64_t *const steps = raw_->dl_tensor.strides;
    bool inside = index.size() == extents.size();
    std::int64_t next = 1;
    for (std::size_t d = index.size(); inside && d-- > 0; next *= extents[d]) {
      inside = index[d] >= 0 && index[d] < extents[d];
      if (inside) element += index[d] * (steps == nullptr ? next : steps[d]);
    }
    if (!inside) {
      std::ostringstream text;
      text << "dlbridge::tensor::at: index " << index << " is not valid for shape " << shape();
      detail::fail(DLB_ERROR_ARGUMENT, text.str());
    }
    return *element;
  }
  template <class T>
  const std::remove_cv_t<T> at(const sizes &index) const && {
    return at<const T>(index);
  }

  // Returns the address of the element with these first indexes, as dlb_tensor_address does. The
  // elements may have any type. The address is valid until the last owner of the memory ends.
  // Throws error.
  void *address(const sizes &index = {}) const & {
    return detail::call(dlb_tensor_address, get(), detail::rank_of(index), index.data());
  }
  template <class T = void>
  void *address(const sizes & = {}) const && {
    return detail::temporary_tensor<T>(), nullptr;
  }

#ifdef __cpp_lib_mdspan
  // Returns a std::mdspan of the elements, which is valid until the last owner of the memory ends.
  // Throws error as data() does. Throws DLB_ERROR_LAYOUT if the number of dimensions is not Rank,
  // or if the tensor does not fit Layout. For std::layout_right, the tensor must be contiguous; for
  // std::layout_left, the transposed tensor must be contiguous. For std::layout_stride, strides
  // must not be negative, and elements must not be repeated.
  template <class T, std::size_t Rank, class Layout = std::layout_stride>
  std::mdspan<T, std::dextents<std::int64_t, Rank>, Layout> mdspan() const & {
    static_assert(std::is_same_v<Layout, std::layout_stride> ||
                      std::is_same_v<Layout, std::layout_right> ||
                      std::is_same_v<Layout, std::layout_left>,
                  "dlbridge: mdspan: the layout must be std::layout_stride, std::layout_right or "
                  "std::layout_left.");
    T *first = data<T>();
    const sizes extents = shape(), steps = strides();
    if (extents.size() != Rank)
      detail::fail(DLB_ERROR_LAYOUT, "dlbridge::tensor::mdspan: the tensor has " +
                                         std::to_string(extents.size()) + " dimensions, not " +
                                         std::to_string(Rank));
    std::array<std::int64_t, Rank> sizes_of{}, strides_of{};
    std::copy(extents.begin(), extents.end(), sizes_of.begin());
    const std::dextents<std::int64_t, Rank> all_extents(sizes_of);
    if constexpr (std::is_same_v<Layout, std::layout_right>) {
      require_contiguous("mdspan");
      return std::mdspan<T, std::dextents<std::int64_t, Rank>, Layout>(first, all_extents);
    } else if constexpr (std::is_same_v<Layout, std::layout_left>) {
      if (!transpose().is_contiguous())
        detail::fail(DLB_ERROR_LAYOUT,
                     "dlbridge::tensor::mdspan: the tensor is not column-major without gaps; "
                     "transpose().contiguous().transpose() makes it so");
      return std::mdspan<T, std::dextents<std::int64_t, Rank>, Layout>(first, all_extents);
    } else {
      const bool row_major = is_contiguous();  // also true if the tensor has no elements
      std::int64_t next = 1;
      for (std::size_t d = Rank; d-- > 0; next *= std::max<std::int64_t>(extents[d], 1))
        strides_of[d] = row_major ? next : extents[d] == 1 ? 1 : steps[d];
      if (!row_major) require_unique(extents, strides_of);
      return {first, std::layout_stride::mapping<std::dextents<std::int64_t, Rank>>(
                         all_extents, strides_of)};
    }
  }
  template <class T, std::size_t Rank, class Layout = std::layout_stride>
  std::mdspan<T, std::dextents<std::int64_t, Rank>, Layout> mdspan() const && {
    return detail::temporary_tensor<T>(),
           std::mdspan<T, std::dextents<std::int64_t, Rank>, Layout>();
  }
#endif

  // A view is another owner of the same memory. The memory is valid until its last owner ends. This
  // tensor must belong to this library; see imported(). Each function throws error
  // (DLB_ERROR_ARGUMENT or DLB_ERROR_LAYOUT). index() returns the elements with the given first
  // indexes. transpose() and flip() without an argument reverse all dimensions. In reshape(), one
  // size may be -1.
  tensor share() const { return adopt(detail::call(dlb_tensor_share, get())); }  // all elements
  tensor slice(const list_of<subscript> &index = {}) const {
    return adopt(detail::call(dlb_tensor_slice, get(), detail::rank_of(index),
                              static_cast<const dlb_index *>(index.data())));
  }
  tensor index(const sizes &first) const { return list(dlb_tensor_index, first); }
  tensor transpose(const axes &order = {}) const { return list(dlb_tensor_transpose, order); }
  tensor reshape(const sizes &shape) const { return list(dlb_tensor_reshape, shape); }
  tensor broadcast_to(const sizes &shape) const { return list(dlb_tensor_broadcast_to, shape); }
  tensor flip(const axes &reversed = {}) const { return list(dlb_tensor_flip, reversed); }
  tensor expand(const axes &added) const { return list(dlb_tensor_expand, added); }
  tensor squeeze(const axes &removed = {}) const { return list(dlb_tensor_squeeze, removed); }

  // Returns a row-major tensor: a view if this tensor is row-major, otherwise a copy. Throws error.
  tensor contiguous() const { return adopt(detail::call(dlb_tensor_contiguous, get())); }

  // Returns a row-major copy. Throws error.
  tensor copy() const { return adopt(detail::call(dlb_tensor_copy, get())); }

  // Return a row-major copy with another data type, by the rules of dlb_tensor_convert. Throw
  // error.
  tensor convert(DLDataType type) const {
    return adopt(detail::call(dlb_tensor_convert, get(), type));
  }
  template <class T>
  tensor convert() const {
    return convert(dlbridge::dtype<T>);
  }

  // Copies the elements into the memory of `dst`, as dlb_tensor_copy_into does. Repeats them to the
  // shape of `dst`, and converts them. To write to a part of a tensor, pass a view:
  // x.copy_into(y.slice({0})). Throws error.
  void copy_into(const tensor &dst) const {
    dlb_error e;
    detail::check(dlb_tensor_copy_into(dst.get(), get(), &e), e);
  }

  // Copies the elements into the memory of `dst`, converts them, and replaces each number x by
  // x * scale + shift, as dlb_tensor_convert_scaled does. Pass one scale for all elements, one
  // scale for each index of an axis of `dst`, or no scale ({}). Pass shifts in the same way.
  // Throws error.
  void convert_scaled(const tensor &dst, const list_of<double> &scale,
                      const list_of<double> &shift = {}, std::int32_t axis = -1) const {
    dlb_error e;
    detail::check(dlb_tensor_convert_scaled(
                      dst.get(), get(), axis, static_cast<std::int64_t>(scale.size()), scale.data(),
                      static_cast<std::int64_t>(shift.size()), shift.data(), &e),
                  e);
  }

  // Sets every element to a value, converted to the data type of the tensor. Throws error.
  template <class T>
  void fill(const T &value) const {
    dlb_error e;
    detail::check(dlb_tensor_fill(get(), dlbridge::dtype<T>, &value, &e), e);
  }

 private:
  friend owner;
  explicit tensor(DLManagedTensorVersioned *raw) noexcept : owner(raw) {}

  // Returns the number of elements of a shape. Returns -1 if a size before the first 0 is negative,
  // or if the product of these sizes overflows.
  static std::int64_t count_of(const sizes &shape) noexcept {
    std::int64_t count = 1;
    for (std::int64_t n : shape) {
      if (n == 0) return 0;
      if (n < 0 || count > INT64_MAX / n) return -1;
      count *= n;
    }
    return count;
  }

  std::size_t axis_of(std::int32_t axis) const {
    const std::int32_t positive = axis < 0 ? axis + ndim() : axis;
    if (positive < 0 || positive >= ndim())
      detail::fail(DLB_ERROR_ARGUMENT, "dlbridge::tensor::shape: axis " + std::to_string(axis) +
                                           " is out of bounds for " + std::to_string(ndim()) +
                                           " dimensions");
    return static_cast<std::size_t>(positive);
  }

  template <class T>
  using view_function = std::int32_t(DLManagedTensorVersioned **, const DLManagedTensorVersioned *,
                                     std::int32_t, const T *, dlb_error *);

  template <class T>
  tensor list(view_function<T> *view, const list_of<T> &numbers) const {
    return adopt(detail::call(view, get(), detail::rank_of(numbers), numbers.data()));
  }

  template <class T>
  static tensor lend_raw(T *data, const sizes &shape, const sizes &strides, std::uint64_t flags,
                         void (*release)(void *), void *owner) {
    if (!strides.empty() && strides.size() != shape.size())
      detail::fail(DLB_ERROR_LAYOUT, "dlbridge::tensor::lend: strides has " +
                                         std::to_string(strides.size()) +
                                         " entries, but shape has " + std::to_string(shape.size()));
    DLTensor view{};
    view.data = const_cast<std::remove_cv_t<T> *>(data);
    view.device.device_type = kDLCPU;
    view.ndim = detail::rank_of(shape);
    view.dtype = dlbridge::dtype<T>;
    view.shape = const_cast<std::int64_t *>(shape.data());  // dlb_tensor_lend copies the lists
    view.strides = strides.empty() ? nullptr : const_cast<std::int64_t *>(strides.data());
    if (std::is_const_v<T>) flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    return adopt(
        detail::call(dlb_tensor_lend, static_cast<const DLTensor *>(&view), flags, release, owner));
  }

  void require_contiguous(const char *function) const {
    if (!is_contiguous())
      detail::fail(DLB_ERROR_LAYOUT,
                   std::string("dlbridge::tensor::") + function +
                       ": the tensor is not row-major without gaps; contiguous() makes it so");
  }

#ifdef __cpp_lib_mdspan
  // Checks the precondition of std::layout_stride. If the dimensions are sorted by stride, each
  // stride must be at least the previous dimension's stride times its size.
  template <std::size_t Rank>
  static void require_unique(const sizes &extents, const std::array<std::int64_t, Rank> &steps) {
    std::array<std::size_t, Rank> order{};
    for (std::size_t d = 0; d < Rank; d++) order[d] = d;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return steps[a] != steps[b] ? steps[a] < steps[b] : extents[a] < extents[b];
    });
    std::int64_t least = 1;
    for (std::size_t d : order) {
      if (steps[d] < least)
        detail::fail(DLB_ERROR_LAYOUT, "dlbridge::tensor::mdspan: strides[" + std::to_string(d) +
                                           "] = " + std::to_string(steps[d]) +
                                           " repeats or reverses elements; use copy()");
      least = steps[d] * extents[d];
    }
  }
#endif
};

// Returns the type, shape and elements of a tensor as text, as dlb_tensor_format does. Throws
// error.
inline std::string to_string(const tensor &t) {
  return detail::text(dlb_tensor_format, t.get());
}

// Writes the text of to_string.
inline std::ostream &operator<<(std::ostream &out, const tensor &t) { return out << to_string(t); }

// Reports whether two tensors have the same data type, shape and elements, as dlb_tensor_equal
// does. Throws error.
inline bool equal(const tensor &a, const tensor &b, std::uint64_t flags = 0) {
  return detail::call(dlb_tensor_equal, a.get(), b.get(), flags) != 0;
}

// ---- functions of Go plugins ----

namespace detail {
// An argument for a function of a plugin: a number, or a tensor that the function takes over.
template <class Argument>
auto given(Argument &&argument) noexcept {
  if constexpr (std::is_same_v<plain<Argument>, tensor>) {
    static_assert(!std::is_lvalue_reference_v<Argument>,
                  "dlbridge: call: the function takes the tensors over: call(f, std::move(x)).");
    return argument.release();
  } else {
    static_assert(std::is_arithmetic_v<plain<Argument>>,
                  "dlbridge: call: the arguments must be tensors or numbers.");
    return argument;
  }
}
}  // namespace detail

// Calls a function of a Go plugin, such as
// `DLManagedTensorVersioned *sums(DLManagedTensorVersioned *x, dlb_error *e)`:
// `tensor y = call(sums, std::move(x))`. Pass all arguments except the last. See examples/plugin.
// The function takes over the tensors, even on error. The result is imported, so that the program
// can make views of it. The result is empty if the function has none:
// `(void)call(f, std::move(x))`. Throws the error of the function.
template <class... Parameters, class... Arguments>
tensor call(DLManagedTensorVersioned *(*function)(Parameters...), Arguments &&...arguments) {
  static_assert(
      sizeof...(Parameters) == sizeof...(Arguments) + 1,
      "dlbridge: call: pass all arguments of the function but the last, which is its dlb_error *.");
  if (function == nullptr)
    detail::fail(DLB_ERROR_NULL,
                 "dlbridge::call: the function is NULL: dlsym, for example, has not found it");
  dlb_error e{};
  tensor out = tensor::adopt(function(detail::given(std::forward<Arguments>(arguments))..., &e));
  detail::check(e.code, e);
  return out ? std::move(out).imported() : tensor();
}

// ---- shared memory ----

namespace detail {
// Returns the description of a row-major tensor on the host. The tensor begins at this offset in
// bytes.
inline DLTensor row_major(DLDataType type, const sizes &shape, std::uint64_t offset = 0) {
  return {nullptr, {kDLCPU, 0}, rank_of(shape), type, const_cast<std::int64_t *>(shape.data()),
          nullptr, offset};
}
}  // namespace detail

// Tensors in segments, which other processes can map too. They need Linux 5.1 or later. See "shared
// memory" in dlbridge.h.
namespace shm {

// Returns a row-major tensor of zeros in a new segment. Throws error.
inline tensor zeros(DLDataType type, const sizes &shape) {
  return tensor::adopt(detail::call(dlb_shm_alloc, type, detail::rank_of(shape), shape.data()));
}
template <class T>
tensor zeros(const sizes &shape) {
  return zeros(dlbridge::dtype<T>, shape);
}

// Copies a tensor in any layout into a new segment. The copy is row-major. Throws error.
inline tensor copy(const tensor &t) {
  return tensor::adopt(detail::call(dlb_shm_copy, t.get()));
}

// Reports whether all elements lie in a segment, as dlb_shm_is_shared does. Throws error.
inline bool is_shared(const tensor &t) {
  return detail::call(dlb_shm_is_shared, t.get()) != 0;
}

// Maps the memory once more, without write permission, and returns a read-only tensor in the new
// mapping. Writing to this mapping ends the process. Throws error (DLB_ERROR_ARGUMENT for private
// memory, which copy() copies into a segment).
inline tensor read_only(const tensor &t) {
  return tensor::adopt(detail::call(dlb_shm_readonly, t.get()));
}

// A timeout without limit, for send() and recv().
constexpr std::chrono::milliseconds forever{INT64_MAX};

// Sends tensors in segments through a connected Unix socket of the type SOCK_STREAM. The caller
// still owns the tensors. `flags` is 0 or DLB_SHM_WRITABLE. Throws error (DLB_ERROR_SYSTEM after a
// timeout). After DLB_ERROR_CLOSED, DLB_ERROR_SYSTEM or std::bad_alloc, close the socket.
inline void send(int fd, array_view<const tensor> tensors, std::uint64_t flags = 0,
                 std::chrono::milliseconds timeout = forever) {
  std::vector<DLManagedTensorVersioned *> raw;
  raw.reserve(tensors.size());
  for (const tensor &t : tensors) raw.push_back(t.get());
  dlb_error e;
  detail::check(dlb_shm_send(fd, raw.data(), raw.size(), std::int64_t{timeout.count()}, flags, &e),
                e);
}
inline void send(int fd, const tensor &t, std::uint64_t flags = 0,
                 std::chrono::milliseconds timeout = forever) {
  send(fd, array_view<const tensor>(&t, 1), flags, timeout);
}

// Receives the tensors of one send(), at most `room`. A file that another process can make smaller
// is copied; all other files are mapped. If the copies need more than `copy_unsealed` bytes in all,
// the message is refused. Throws error (DLB_ERROR_CLOSED at the end of the connection,
// DLB_ERROR_ROOM for more than `room` tensors, which are lost, DLB_ERROR_SYSTEM after a timeout).
// After an error other than DLB_ERROR_ROOM, close the socket.
inline std::vector<tensor> recv(int fd, std::size_t room = 253, std::uint64_t copy_unsealed = 0,
                                std::chrono::milliseconds timeout = forever) {
  std::vector<DLManagedTensorVersioned *> raw(room);
  std::vector<tensor> out;
  out.reserve(room);  // so that nothing throws between the call and the owners
  const std::size_t count = detail::call(dlb_shm_recv, raw.data(), room, std::int32_t{fd},
                                         copy_unsealed, std::int64_t{timeout.count()});
  for (std::size_t i = 0; i < count; i++) out.push_back(tensor::adopt(raw[i]));
  return out;
}

// A handle of a segment. Another process on the same machine fetches the segment with this handle.
// The program may send the handle by any means, as a struct or field by field.
using handle = dlb_shm_handle;

// Offers the segment of a tensor until the timeout. One process of the same user can fetch the
// segment, once. The caller still owns the tensor. `flags` is 0 or DLB_SHM_WRITABLE. While a
// segment is offered, a thread of the library answers requests. Throws error.
inline handle offer(const tensor &t, std::chrono::milliseconds timeout, std::uint64_t flags = 0) {
  return detail::call(dlb_shm_offer, t.get(), std::int64_t{timeout.count()}, flags);
}

// Returns a row-major tensor in the segment of a handle. The handle may be from this process or
// another process. `flags` is 0 or DLPACK_FLAG_BITMASK_READ_ONLY. `copy_unsealed` is as for recv().
// Throws error: DLB_ERROR_CLOSED if the handle was used before, its time is over, or its process
// has ended or is in another network namespace; DLB_ERROR_SYSTEM as for dlb_shm_fetch.
inline tensor fetch(const handle &h, DLDataType type, const sizes &shape,
                    std::chrono::milliseconds timeout = std::chrono::seconds(5),
                    std::uint64_t flags = 0, std::uint64_t copy_unsealed = 0) {
  const DLTensor view = detail::row_major(type, shape);
  return tensor::adopt(
      detail::call(dlb_shm_fetch, &h, &view, flags, copy_unsealed, std::int64_t{timeout.count()}));
}
template <class T>
tensor fetch(const handle &h, const sizes &shape,
             std::chrono::milliseconds timeout = std::chrono::seconds(5), std::uint64_t flags = 0,
             std::uint64_t copy_unsealed = 0) {
  return fetch(h, dlbridge::dtype<T>, shape, timeout, flags, copy_unsealed);
}

// Returns a row-major tensor from a POSIX shared memory object that another program has made under
// this name. The elements begin at the byte `offset` of the object. The tensor is a copy, or with
// DLB_SHM_TRUST_PEER in `options`, a view of the object itself: see dlb_shm_attach. `flags` is 0 or
// DLPACK_FLAG_BITMASK_READ_ONLY. Throws error.
inline tensor attach(const std::string &name, DLDataType type, const sizes &shape,
                     std::uint64_t offset = 0, std::uint64_t flags = 0, std::uint64_t options = 0,
                     const std::string &directory = "/dev/shm") {
  const char *const in = detail::c_string(directory, DLB_ERROR_ARGUMENT, "dlb_shm_attach");
  const char *const object = detail::c_string(name, DLB_ERROR_ARGUMENT, "dlb_shm_attach");
  const DLTensor view = detail::row_major(type, shape, offset);
  return tensor::adopt(detail::call(dlb_shm_attach, in, object, &view, flags, options));
}
template <class T>
tensor attach(const std::string &name, const sizes &shape, std::uint64_t offset = 0,
              std::uint64_t flags = 0, std::uint64_t options = 0,
              const std::string &directory = "/dev/shm") {
  return attach(name, dlbridge::dtype<T>, shape, offset, flags, options, directory);
}

}  // namespace shm

// ---- frames and messages ----

// The owner of a dlb_frame: bytes, and a function that releases them.
class [[nodiscard]] frame {
 public:
  frame() noexcept = default;
  frame(frame &&other) noexcept : raw_(other.release()) {}
  frame &operator=(frame &&other) noexcept {
    frame old(std::exchange(raw_, other.release()));
    return *this;
  }
  ~frame() {
    if (raw_.release != nullptr) raw_.release(raw_.ctx);
  }

  // Takes over a frame, and calls its release once.
  static frame adopt(const dlb_frame &raw) noexcept { return frame(raw); }

  // Returns a frame on the bytes of a container such as std::vector<std::byte> or std::string. The
  // container is moved into the frame. When nothing refers to its bytes any more, the container is
  // destroyed, on any thread. Tensors on the frame are writable. Throws std::bad_alloc.
  template <class Container>
  static frame lend(Container &&container) {
    static_assert(detail::lendable<Container>());
    using Element = std::remove_pointer_t<decltype(std::data(container))>;
    static_assert(std::is_trivially_copyable_v<Element>,
                  "a frame holds plain bytes, so its elements must be trivially copyable");
    return detail::lend_container(container, [](Container &owner) {
      dlb_frame raw{};
      raw.data = std::data(owner);
      raw.size = std::size(owner) * sizeof(Element);
      raw.release = detail::destroy<Container>;
      raw.ctx = &owner;
      raw.flags = std::is_const_v<Element> ? 0 : DLB_FRAME_WRITABLE;
      return adopt(raw);
    });
  }

  // Lends the raw frame. This owner keeps it.
  const dlb_frame &get() const noexcept DLBRIDGE_LIFETIMEBOUND { return raw_; }

  // Gives the frame to the caller, who must call its release. This owner is then empty.
  dlb_frame release() noexcept { return std::exchange(raw_, dlb_frame{}); }

  // Return the bytes of the frame, which are valid until the frame is released.
  const std::byte *data() const noexcept DLBRIDGE_LIFETIMEBOUND {
    return static_cast<const std::byte *>(raw_.data);
  }
  std::size_t size() const noexcept { return raw_.size; }
  const std::byte *begin() const noexcept DLBRIDGE_LIFETIMEBOUND { return data(); }
  const std::byte *end() const noexcept DLBRIDGE_LIFETIMEBOUND { return data() + size(); }

 private:
  explicit frame(const dlb_frame &raw) noexcept : raw_(raw) {}

  dlb_frame raw_{};
};

// A member of a JSON object for json(): a name and a value. The value is a text in UTF-8, a number
// or a bool.
class json_member {
 public:
  json_member(std::string_view name, std::string_view text)
      : text_(quoted(name) + ":" + quoted(text)) {}
  json_member(std::string_view name, std::nullptr_t) = delete; /* a null pointer is not a text */

  // Throws error (DLB_ERROR_ARGUMENT for infinity and NaN, which JSON lacks).
  template <class Number,
            std::enable_if_t<detail::is_number<Number> || std::is_floating_point_v<Number> ||
                                 std::is_same_v<Number, bool>,
                             int> = 0>
  json_member(std::string_view name, Number number) : text_(quoted(name) + ":") {
    if constexpr (std::is_same_v<Number, bool>) {
      text_ += number ? "true" : "false";
    } else {
      if constexpr (std::is_floating_point_v<Number>)
        if (!std::isfinite(number))
          detail::fail(DLB_ERROR_ARGUMENT,
                       "dlbridge::json: member " + quoted(name) + " is not a finite number");
      std::array<char, 128> digits;
      text_.append(digits.data(),
                   std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
    }
  }

  const std::string &text() const noexcept { return text_; }

 private:
  static std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (char c : text) {
      if (static_cast<unsigned char>(c) < ' ') {
        out += "\\u00";
        out += "01"[c >> 4];
        out += "0123456789abcdef"[c & 15];
        continue;
      }
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
    return out + '"';
  }

  std::string text_;
};

// Returns a JSON object: json({{"name", "x"}, {"run", 7}}) is {"name":"x","run":7}. Texts must be
// UTF-8. The function that encodes the object checks this.
inline std::string json(std::initializer_list<json_member> members) {
  std::string out;
  for (const json_member &m : members) out += (out.empty() ? "{" : ",") + m.text();
  return out.empty() ? "{}" : out + '}';
}

// The fields of a message to encode. The label and metadata are JSON objects, such as json()
// returns. An empty label adds no attributes, and empty metadata mean {}. tensor_metadata[i]
// belongs to tensor i, and holds texts, numbers and bools; an empty text means no metadata.
// names[i] is the name of tensor i for message::operator[]; an empty text means no name. Both lists
// may be shorter than the list of tensors. A tensor of more than `spread` bytes is cut into several
// parts, unless `spread` is 0. `relay` is a decoded message to send on, with the same or other
// tensors: see dlb_message_encode. encode() borrows this message. An empty tensor stands for a
// tensor that the message cannot return.
struct message_fields {
  dlb_header header{};
  std::string label{};
  std::string metadata{};
  std::vector<std::string> tensor_metadata{};
  std::vector<std::string> names{};
  std::uint64_t spread = 0;
  const class message *relay = nullptr;
};

// The owner of a message. Tensors and frames made from it stay valid after the owner has ended.
class [[nodiscard]] message : public bases::owner<message, dlb_message, dlb_message_free> {
 public:
  message() noexcept = default;

  // Decode frames, or one packed frame, which the message takes over. `options` are those of
  // dlb_message_decode, such as DLB_LIMIT. Payloads are not copied. These functions throw
  // error, and leave the frames unchanged in this case.
  static message decode(std::vector<frame> &&frames, std::uint64_t options = 0) {
    const std::vector<dlb_frame> raw = lent(frames);
    message out(detail::call(dlb_message_decode, raw.data(), raw.size(), options));
    for (frame &f : frames) f.release();
    frames.clear();
    return out;
  }
  static message decode(frame &&packed, std::uint64_t options = 0) {
    message out(detail::call(dlb_message_decode_packed, &packed.get(), options));
    packed.release();
    return out;
  }

  // A tensor in a list in braces. The tensor is moved only after all steps that can fail.
  class moved_tensor {
   public:
    moved_tensor(tensor &&t) noexcept : tensor_(&t) {}
    template <class Kept, std::enable_if_t<std::is_same_v<Kept, tensor>, int> = 0>
    moved_tensor(const Kept &) {
      static_assert(detail::never<Kept>,
                    "dlbridge: message::encode: the message takes the tensors over: "
                    "encode({std::move(x)}, fields).");
    }

   private:
    friend message;
    tensor *tensor_ = nullptr;
  };

  // Encodes tensors, which the message takes over: `encode({std::move(x), std::move(y)}, fields)`.
  // Tensors without gaps are not copied. Throws error; the tensors are then unchanged.
  static message encode(std::initializer_list<moved_tensor> tensors,
                        const message_fields &fields = {}) {
    std::vector<tensor *> each;
    each.reserve(tensors.size());
    for (const moved_tensor &t : tensors) each.push_back(t.tensor_);
    return encode_each(each.data(), each.size(), fields);
  }
  static message encode(std::vector<tensor> &&tensors, const message_fields &fields = {}) {
    std::vector<tensor *> each;
    each.reserve(tensors.size());
    for (tensor &t : tensors) each.push_back(&t);
    message out = encode_each(each.data(), each.size(), fields);
    tensors.clear();
    return out;
  }

  // As above, without fields: `encode(std::move(x), std::move(y))`.
  template <class First, class... Others,
            std::enable_if_t<std::is_same_v<detail::plain<First>, tensor>, int> = 0>
  static message encode(First &&first, Others &&...others) {
    static_assert((std::is_same_v<detail::plain<Others>, tensor> && ...),
                  "dlbridge: message::encode: only tensors follow a tensor; with fields, the "
                  "tensors are a list: encode({std::move(x)}, fields).");
    static_assert(
        !std::is_lvalue_reference_v<First> && (!std::is_lvalue_reference_v<Others> && ...),
        "dlbridge: message::encode: the message takes the tensors over: encode(std::move(x)).");
    tensor *const each[] = {&first, &others...};
    return encode_each(each, 1 + sizeof...(others), {});
  }

  // Encodes a label and payload parts. The label may be any bytes. The message takes over the
  // parts. Throws error; the parts are then unchanged.
  static message encode_parts(const dlb_header &header, std::string_view label,
                              std::vector<frame> &&parts) {
    const std::vector<dlb_frame> raw = lent(parts);
    message out(detail::call(dlb_message_encode_parts, &header, detail::bytes(label), raw.data(),
                             raw.size()));
    for (frame &f : parts) f.release();
    parts.clear();
    return out;
  }

  // Return the fields of the message. The texts are valid as long as the message. Metadata are JSON
  // texts, or std::nullopt if the message has none. Throw error (DLB_ERROR_NULL if this owner is
  // empty, DLB_ERROR_ARGUMENT for an index out of range).
  dlb_header header() const { return detail::call(dlb_message_header, raw_); }
  std::string_view label() const DLBRIDGE_LIFETIMEBOUND {
    return detail::view(detail::call(dlb_message_label, raw_));
  }
  std::optional<std::string_view> metadata() const DLBRIDGE_LIFETIMEBOUND {
    return optional(detail::call(dlb_message_metadata, raw_));
  }
  std::optional<std::string_view> tensor_metadata(std::size_t index) const DLBRIDGE_LIFETIMEBOUND {
    return optional(detail::call(dlb_message_tensor_metadata, raw_, index));
  }

  // Returns the name of tensor `index` in its metadata, or std::nullopt. The name is valid as long
  // as the message. Throws error as the functions above do.
  std::optional<std::string_view> name(std::size_t index) const DLBRIDGE_LIFETIMEBOUND {
    return optional(detail::call(dlb_message_tensor_name, raw_, index));
  }

  // Returns the index of the tensor with the given name. Throws error (DLB_ERROR_NULL if this owner
  // is empty, DLB_ERROR_ARGUMENT if no tensor has the name, DLB_ERROR_FORMAT if several tensors
  // have it, such as the pieces of one tensor without DLB_DECODE_JOIN).
  std::size_t find(std::string_view name) const {
    const std::string text(name);
    return detail::call(dlb_message_find, raw_,
                        detail::c_string(text, DLB_ERROR_ARGUMENT, "dlbridge::message::find"));
  }

  // Return the number of tensors, payload parts and frames; 0 if this owner is empty.
  std::size_t size() const noexcept { return dlb_message_tensor_count(raw_); }
  std::size_t part_count() const noexcept { return dlb_message_part_count(raw_); }
  std::size_t frame_count() const noexcept { return dlb_message_frame_count(raw_); }

  // Returns tensor `index`, which shares the memory of its part unless DLB_DECODE_JOIN has copied
  // it. Throws error (DLB_ERROR_NULL if this owner is empty, DLB_ERROR_ARGUMENT for an index out of
  // range, DLB_ERROR_FORMAT for a tensor whose packing is not "dense", DLB_ERROR_METADATA for a
  // tensor that is only metadata).
  tensor operator[](std::size_t index) const {
    return tensor::adopt(detail::call(dlb_message_tensor_at, raw_, index));
  }

  // Returns the tensor with the given name: `m["x"]`. Throws the errors of find() and of the
  // function above.
  tensor operator[](std::string_view name) const { return (*this)[find(name)]; }

  // Returns payload part `index` as a tensor of uint8 on the memory of the part. Throws error
  // (DLB_ERROR_NULL if this owner is empty, DLB_ERROR_ARGUMENT for an index out of range).
  tensor part(std::size_t index) const {
    return tensor::adopt(detail::call(dlb_message_part, raw_, index));
  }

  // Returns the index of the first part of tensor `index`, or 0 if there is no tensor `index`.
  std::size_t part_of(std::size_t index) const noexcept {
    return dlb_message_tensor_part(raw_, index);
  }
  // Reports whether encode() or DLB_DECODE_JOIN copied tensor `index`. Returns false if there is no
  // tensor `index`.
  bool copied(std::size_t index) const noexcept { return dlb_message_copied(raw_, index) != 0; }

  // Return one frame or all frames, ready to be sent. Payloads are not copied. Throw error.
  frame frame_at(std::size_t index) const {
    return frame::adopt(detail::call(dlb_message_frame, raw_, index));
  }
  std::vector<frame> frames() const {
    std::vector<dlb_frame> raw(frame_count());
    std::vector<frame> out(raw.size());
    dlb_error e;
    detail::check(dlb_message_frames(raw.data(), raw.size(), raw_, &e), e);
    for (std::size_t i = 0; i < out.size(); i++) out[i] = frame::adopt(raw[i]);
    return out;
  }

  // Returns all frames in one block of new memory, without gaps. Tensors decoded from this block
  // may be unaligned. data() and at() refuse unaligned tensors, and copy() makes an aligned copy.
  // Tensors in separate frames stay aligned. Throws error.
  frame packed() const { return frame::adopt(detail::call(dlb_message_encode_packed, raw_)); }

  // Iterates over the tensors: `for (dlbridge::tensor t : message)`. Dereferencing an iterator
  // returns a new owner, and can throw error. begin() throws error (DLB_ERROR_NULL) if the owner of
  // the message is empty.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = tensor;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = tensor;
    iterator() noexcept = default;
    tensor operator*() const { return (*message_)[index_]; }
    iterator &operator++() noexcept { return ++index_, *this; }
    iterator operator++(int) noexcept { return {message_, index_++}; }
    friend bool operator==(const iterator &a, const iterator &b) noexcept {
      return a.index_ == b.index_;
    }
    friend bool operator!=(const iterator &a, const iterator &b) noexcept {
      return a.index_ != b.index_;
    }

   private:
    friend class message;
    iterator(const message *m, std::size_t index) noexcept : message_(m), index_(index) {}
    const message *message_ = nullptr;
    std::size_t index_ = 0;
  };
  iterator begin() const {
    if (raw_ == nullptr)
      detail::fail(
          DLB_ERROR_NULL,
          "dlbridge::message: the owner is empty: it was moved from, released or never set");
    return {this, 0};
  }
  iterator end() const noexcept { return {this, size()}; }

 private:
  friend owner;
  explicit message(dlb_message *raw) noexcept : owner(raw) {}

  static void check_count(const char *what, std::size_t given, std::size_t count) {
    if (given > count)
      detail::fail(DLB_ERROR_ARGUMENT, "dlbridge::message::encode: there are " + std::string(what) +
                                           " of " + std::to_string(given) + " tensors, but only " +
                                           std::to_string(count) + " tensors");
  }

  static message encode_each(tensor *const *tensors, std::size_t count,
                             const message_fields &fields) {
    check_count("metadata", fields.tensor_metadata.size(), count);
    check_count("names", fields.names.size(), count);
    std::vector<dlb_message_tensor> raw(count);
    for (std::size_t i = 0; i < count; i++) {
      raw[i].tensor = tensors[i]->get();
      if (i < fields.tensor_metadata.size())
        raw[i].metadata = detail::bytes(fields.tensor_metadata[i]);
      if (i < fields.names.size())
        raw[i].name =
            detail::c_string(fields.names[i], DLB_ERROR_ARGUMENT, "dlbridge::message::encode");
    }
    dlb_message_fields plain{};
    plain.header = fields.header;
    plain.label = detail::bytes(fields.label);
    plain.metadata = detail::bytes(fields.metadata);
    plain.spread = fields.spread;
    plain.relay = fields.relay == nullptr ? nullptr : fields.relay->get();
    message out(detail::call(dlb_message_encode, &plain, raw.data(), count));
    for (std::size_t i = 0; i < count; i++) tensors[i]->release();
    return out;
  }

  static std::vector<dlb_frame> lent(const std::vector<frame> &frames) {
    std::vector<dlb_frame> raw;
    raw.reserve(frames.size());
    for (const frame &f : frames) raw.push_back(f.get());
    return raw;
  }

  static std::optional<std::string_view> optional(dlb_bytes b) noexcept {
    if (b.data == nullptr) return std::nullopt;
    return detail::view(b);
  }
};

namespace bases {

// A frame that several calls read in sequence. The results of the calls keep the frame alive.
class shared_frame {
 public:
  // Returns the offset in bytes at which the next message or tensor begins in the frame.
  std::size_t offset() const noexcept { return offset_; }

 protected:
  shared_frame(frame &&f, std::uint64_t options)
      : frame_(std::make_shared<frame>(std::move(f))), options_(options) {}

  bool at_end() const noexcept { return offset_ == frame_->size(); }

  // Calls a C function that reads the frame from the offset. `read` passes the outputs to this
  // function. Throws the error of the function.
  template <class Read>
  void advance(Read read) {
    dlb_frame raw = frame_->get();
    auto share = std::make_unique<std::shared_ptr<frame>>(frame_);
    raw.release = detail::destroy<std::shared_ptr<frame>>;
    raw.ctx = share.get();
    std::size_t next = 0;
    dlb_error e;
    detail::check(read(&next, &raw, offset_, options_, &e), e);
    share.release();
    offset_ = next;
  }

 private:
  std::shared_ptr<frame> frame_;
  std::uint64_t options_;
  std::size_t offset_ = 0;
};

}  // namespace bases

// Takes over a frame of messages in the packed form, and reads them:
// `for (auto m = in.next(); m; m = in.next())`. `options` are those of dlb_message_decode_next.
// Payloads are not copied.
class message_reader : public bases::shared_frame {
 public:
  explicit message_reader(frame &&packed, std::uint64_t options = 0)
      : shared_frame(std::move(packed), options) {}

  // Returns the next message, or an empty owner at the end of the frame. The message keeps the
  // frame alive. The limit applies to each call separately. Throws error; the next call then throws
  // the same error again.
  message next() {
    dlb_message *out = nullptr;
    if (!at_end()) advance([&](auto... rest) { return dlb_message_decode_next(&out, rest...); });
    return message::adopt(out);
  }
};

// ---- values: formats with one tensor, or one list of elements, in a message ----

// The owner of decoded elements: a tensor of a type that DLPack lacks, such as strings or images.
class [[nodiscard]] elements : public bases::owner<elements, dlb_elements, dlb_elements_free> {
 public:
  elements() noexcept = default;

  // Return the type, the shape and the number of the elements, and the bytes and the format of
  // element `index` in row-major order. The format of images, audio and video is a text such as
  // "png". Other elements have an empty format. The views are valid as long as this owner. Throw
  // error (DLB_ERROR_NULL if this owner is empty, DLB_ERROR_ARGUMENT for an index out of range).
  std::string_view type() const DLBRIDGE_LIFETIMEBOUND {
    return detail::view(checked(nullptr).type);
  }
  sizes shape() const {
    return {checked(nullptr).shape, static_cast<std::size_t>(checked(nullptr).ndim)};
  }
  std::size_t size() const { return checked(nullptr).count; }
  std::string_view operator[](std::size_t index) const DLBRIDGE_LIFETIMEBOUND {
    return detail::view(checked(&index).values[index]);
  }
  std::string_view format(std::size_t index) const DLBRIDGE_LIFETIMEBOUND {
    const dlb_elements &e = checked(&index);
    return e.formats == nullptr ? std::string_view() : detail::view(e.formats[index]);
  }

 private:
  friend owner;
  explicit elements(dlb_elements *raw) noexcept : owner(raw) {}

  const dlb_elements &checked(const std::size_t *index) const {
    if (raw_ == nullptr)
      detail::fail(
          DLB_ERROR_NULL,
          "dlbridge::elements: the owner is empty: it was moved from, released or never set");
    if (index != nullptr && *index >= raw_->count)
      detail::fail(DLB_ERROR_ARGUMENT, "dlbridge::elements: index " + std::to_string(*index) +
                                           " is out of bounds for size " +
                                           std::to_string(raw_->count));
    return *raw_;
  }
};

// Elements to encode. All texts are borrowed: they must outlive the call.
struct elements_view {
  std::string_view type;  // "string", "image", "qint8"
  sizes shape;
  texts values;     // in row-major order
  texts formats{};  // of images, audio and video
};

// A decoded tensor, decoded elements, or std::monostate if there was nothing to decode.
struct [[nodiscard]] value {
  std::variant<std::monostate, tensor, elements> object{};
  std::size_t size = 0;  // the number of bytes of the value in the frame
  bool copied = false;   // a copy: the elements in the frame are unaligned or in another form
};

namespace detail {

inline value adopt(const dlb_value &raw) {
  value out;
  if (raw.tensor != nullptr) out.object = tensor::adopt(raw.tensor);
  if (raw.elements != nullptr) out.object = elements::adopt(raw.elements);
  out.size = raw.size;
  out.copied = raw.copied != 0;
  return out;
}

// A dlb_value that borrows the tensor or elements to encode.
class borrowed_value {
 public:
  borrowed_value(const tensor &t) noexcept { raw_.tensor = t.get(); }
  borrowed_value(const elements &e) noexcept { raw_.elements = e.get(); }
  borrowed_value(const value &v) noexcept {
    if (const tensor *t = std::get_if<tensor>(&v.object)) raw_.tensor = t->get();
    if (const elements *e = std::get_if<elements>(&v.object)) raw_.elements = e->get();
  }
  borrowed_value(const elements_view &e) : values_(copied(e.values)), formats_(copied(e.formats)) {
    if (!formats_.empty() && formats_.size() != values_.size())
      detail::fail(DLB_ERROR_ARGUMENT, "dlbridge::elements_view: there are " +
                                           std::to_string(formats_.size()) + " formats, but " +
                                           std::to_string(values_.size()) + " values");
    elements_.type = bytes(e.type);
    elements_.ndim = static_cast<std::int32_t>(std::min<std::size_t>(e.shape.size(), INT32_MAX));
    elements_.shape = e.shape.data();
    elements_.count = values_.size();
    elements_.values = values_.data();
    elements_.formats = formats_.empty() ? nullptr : formats_.data();
    raw_.elements = &elements_;
  }
  borrowed_value(borrowed_value &&) = delete;
  const dlb_value *get() const noexcept { return &raw_; }

 private:
  static std::vector<dlb_bytes> copied(const texts &list) {
    std::vector<dlb_bytes> out;
    out.reserve(list.size());
    for (std::string_view text : list) out.push_back(bytes(text));
    return out;
  }

  dlb_value raw_{};
  dlb_elements elements_{};
  std::vector<dlb_bytes> values_, formats_;
};

// Decodes a frame. The value takes over the frame. Throws error; the frame is then unchanged.
template <class Decode>
value decode(Decode function, frame &&f, std::uint64_t options) {
  value out = adopt(call(function, &f.get(), options));
  f.release();
  return out;
}

template <class Encode, class Option>
std::vector<std::byte> encode(Encode function, const borrowed_value &v, Option option) {
  std::vector<std::byte> out(
      call(function, static_cast<void *>(nullptr), std::size_t{0}, v.get(), option));
  out.resize(call(function, static_cast<void *>(out.data()), out.size(), v.get(), option));
  return out;
}

}  // namespace detail

namespace decthings {

enum class dialect : std::uint64_t {
  doc = DLB_DECTHINGS_DOC,
  py004 = DLB_DECTHINGS_PY004,
  rs015 = DLB_DECTHINGS_RS015
};

// Decodes a frame that holds one tensor. The value takes over the frame. A `limit` other than 0 is
// the argument of DLB_LIMIT, in bytes. Throws error; the frame is then unchanged.
inline value decode(frame &&f, dialect d = dialect::doc, std::uint64_t limit = 0) {
  return detail::decode(dlb_decthings_decode, std::move(f),
                        static_cast<std::uint64_t>(d) | DLB_LIMIT(limit));
}

// Takes over a frame of consecutive tensors, and reads them in batches:
// `for (auto batch = in.next(); !batch.empty(); batch = in.next())`.
class reader : public bases::shared_frame {
 public:
  explicit reader(frame &&f, dialect d = dialect::doc, std::uint64_t limit = 0)
      : shared_frame(std::move(f), static_cast<std::uint64_t>(d) | DLB_LIMIT(limit)) {}

  // Returns the next values, or no values at the end of the frame. The values keep the frame alive.
  // The limit applies to each call separately. Throws error; the next call then throws the same
  // error again.
  std::vector<value> next() {
    constexpr std::size_t count = 64;  // the largest number of values in one call
    if (at_end()) return {};
    std::vector<value> out;
    out.reserve(count);  // so that nothing throws between the call and the owners
    dlb_value values[count] = {};
    advance([&](auto... rest) { return dlb_decthings_decode_batch(values, count, rest...); });
    for (std::size_t i = 0; i < count && values[i].size > 0; i++)
      out.push_back(detail::adopt(values[i]));
    return out;
  }
};

// Decodes all consecutive tensors of a frame. The values take over the frame. Throws error; the
// frame is then released.
inline std::vector<value> decode_all(frame &&f, dialect d = dialect::doc, std::uint64_t limit = 0) {
  reader in(std::move(f), d, limit);
  std::vector<value> out;
  for (std::vector<value> batch = in.next(); !batch.empty(); batch = in.next())
    out.insert(out.end(), std::make_move_iterator(batch.begin()),
               std::make_move_iterator(batch.end()));
  return out;
}

// Encodes elements, an elements_view, a value, or a tensor in any layout. The argument is borrowed.
// Throws error.
inline std::vector<std::byte> encode(const detail::borrowed_value &v, dialect d = dialect::doc) {
  return detail::encode(dlb_decthings_encode, v, static_cast<std::uint64_t>(d));
}

// Encodes into the buffer at `data`, which has `room` bytes, and returns the number of encoded
// bytes. With `data` NULL and `room` 0, only returns the number. Throws error (DLB_ERROR_ROOM if
// the buffer is too small; the buffer is then unchanged).
inline std::size_t encode_to(void *data, std::size_t room, const detail::borrowed_value &v,
                             dialect d = dialect::doc) {
  return detail::call(dlb_decthings_encode, data, room, v.get(), static_cast<std::uint64_t>(d));
}

// Checks that `rules` allow the type and shape of a value. `rules` is a JSON object of the type
// DecthingsTensorRules. Throws error.
inline void check(std::string_view rules, const detail::borrowed_value &v) {
  dlb_error e;
  detail::check(dlb_decthings_check(detail::bytes(rules), v.get(), &e), e);
}

}  // namespace decthings

namespace tensorflow {

// Decodes a frame that holds a TensorProto. The options are those of dlb_tensorflow_decode. The
// value takes over the frame. Throws error; the frame is then unchanged.
inline value decode(frame &&f, std::uint64_t options = 0) {
  return detail::decode(dlb_tensorflow_decode, std::move(f), options);
}

// Encodes elements, an elements_view, a value, or a tensor in any layout. The argument is borrowed.
// The options are those of dlb_tensorflow_encode. Throws error.
inline std::vector<std::byte> encode(const detail::borrowed_value &v, std::uint64_t options = 0) {
  return detail::encode(dlb_tensorflow_encode, v, options);
}

// Encodes into the buffer at `data`, which has `room` bytes, and returns the number of encoded
// bytes. With `data` NULL and `room` 0, only returns the number. Throws error (DLB_ERROR_ROOM if
// the buffer is too small; the buffer is then unchanged).
inline std::size_t encode_to(void *data, std::size_t room, const detail::borrowed_value &v,
                             std::uint64_t options = 0) {
  return detail::call(dlb_tensorflow_encode, data, room, v.get(), options);
}

}  // namespace tensorflow

// The options for opening a file: see dlb_file_options.
struct file_options {
  std::uint64_t flags = 0;  // DLB_FILE_SET, DLB_FILE_WRITABLE
  DLDataType as{};
};

// The description of a tensor of a file. It is valid as long as the owner of the file.
class file_entry {
 public:
  explicit file_entry(const dlb_file_entry &raw) noexcept : raw_(raw) {}

  // Return the fields of dlb_file_entry. The texts are valid as long as the owner of the file.
  std::string_view name() const noexcept { return detail::view(raw_.name); }
  std::string_view type() const noexcept { return detail::view(raw_.type); }
  std::string_view copied() const noexcept { return detail::view(raw_.copied); }
  std::string_view path() const noexcept { return detail::view(raw_.path); }
  std::string_view problem() const noexcept { return detail::view(raw_.problem); }
  data_type dtype() const noexcept { return raw_.dtype; }
  sizes shape() const { return {raw_.shape, static_cast<std::size_t>(raw_.ndim)}; }
  std::uint64_t offset() const noexcept { return raw_.offset; }
  std::uint64_t nbytes() const noexcept { return raw_.size; }
  bool aligned() const noexcept { return raw_.aligned != 0; }
  std::int32_t status() const noexcept { return raw_.status; }

 private:
  dlb_file_entry raw_;
};

// The owner of an open file with tensors. Tensors made from it stay valid after the owner has
// ended.
//
//   dlbridge::file f("model.safetensors");
//   for (const dlbridge::file_entry &e : f) std::cout << e.name() << ' ' << e.dtype() << '\n';
//   dlbridge::tensor t = f["weight"];
class [[nodiscard]] file : public bases::owner<file, dlb_file, dlb_file_close> {
 public:
  file() noexcept = default;

  // Opens a file: see dlb_file_open. Throws error (DLB_ERROR_FORMAT for a malformed file,
  // DLB_ERROR_SYSTEM if it cannot be opened, and the other codes of dlb_file_open).
  explicit file(const std::string &path, const file_options &options = {}) {
    dlb_file_options plain{};
    plain.flags = options.flags;
    plain.as = options.as;
    raw_ = detail::call(dlb_file_open, detail::c_string(path, DLB_ERROR_ARGUMENT, "dlbridge::file"),
                        &plain);
  }

  // Return the format, and the metadata as a JSON object. The texts are valid as long as this
  // owner. Throw error (DLB_ERROR_NULL if it is empty).
  std::string_view format() const DLBRIDGE_LIFETIMEBOUND {
    return detail::view(detail::call(dlb_file_format, raw_));
  }
  std::string_view metadata() const DLBRIDGE_LIFETIMEBOUND {
    return detail::view(detail::call(dlb_file_metadata, raw_));
  }

  // Returns the number of tensors, or 0 if this owner is empty.
  std::size_t size() const noexcept { return dlb_file_count(raw_); }

  // Returns the description of tensor `index`. Throws error (DLB_ERROR_NULL if this owner is empty,
  // DLB_ERROR_ARGUMENT for an index out of range).
  file_entry entry(std::size_t index) const DLBRIDGE_LIFETIMEBOUND {
    return file_entry(detail::call(dlb_file_at, raw_, index));
  }

  // Returns the index of the tensor with the given name. Throws error (DLB_ERROR_ARGUMENT if no
  // tensor has this name).
  std::size_t find(std::string_view name) const {
    const std::string text(name);
    return detail::call(dlb_file_find, raw_,
                        detail::c_string(text, DLB_ERROR_ARGUMENT, "dlbridge::file::find"));
  }

  // Return a tensor in the memory of the file: see dlb_file_tensor_at. Throw error as find() and
  // entry() do. Also throw the status of the description as an error.
  tensor operator[](std::size_t index) const {
    return tensor::adopt(detail::call(dlb_file_tensor_at, raw_, index));
  }
  tensor operator[](std::string_view name) const { return (*this)[find(name)]; }

  // Return a copy, read from the file: see dlb_file_copy. Throw error as the functions above do,
  // and DLB_ERROR_SYSTEM if the file has become shorter.
  tensor copy(std::size_t index) const {
    return tensor::adopt(detail::call(dlb_file_copy, raw_, index));
  }
  tensor copy(std::string_view name) const { return copy(find(name)); }

  // verify() checks that the file has not changed since it was opened. sync() writes changes to the
  // disk. Both throw error (DLB_ERROR_SYSTEM).
  void verify() const {
    dlb_error e;
    detail::check(dlb_file_verify(raw_, &e), e);
  }
  void sync() const {
    dlb_error e;
    detail::check(dlb_file_sync(raw_, &e), e);
  }

  // Iterates over the descriptions. begin() throws error (DLB_ERROR_NULL) if this owner is empty.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = file_entry;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = file_entry;
    iterator() noexcept = default;
    file_entry operator*() const { return file_->entry(index_); }
    iterator &operator++() noexcept { return ++index_, *this; }
    iterator operator++(int) noexcept { return {file_, index_++}; }
    friend bool operator==(const iterator &a, const iterator &b) noexcept {
      return a.index_ == b.index_;
    }
    friend bool operator!=(const iterator &a, const iterator &b) noexcept {
      return a.index_ != b.index_;
    }

   private:
    friend class file;
    iterator(const file *f, std::size_t index) noexcept : file_(f), index_(index) {}
    const file *file_ = nullptr;
    std::size_t index_ = 0;
  };
  iterator begin() const {
    if (raw_ == nullptr)
      detail::fail(DLB_ERROR_NULL,
                   "dlbridge::file: the owner is empty: it was moved from, released or never set");
    return {this, 0};
  }
  iterator end() const noexcept { return {this, size()}; }

 private:
  friend owner;
  explicit file(dlb_file *raw) noexcept : owner(raw) {}
};

// The options for writing a file: see dlb_file_fields. If the format is empty, the ending of the
// path decides the format. Metadata are a JSON object of texts, such as json() returns. Writing
// stops if progress returns false.
struct file_fields {
  std::string format{};
  std::uint64_t align = 0;
  std::string metadata{};
  bool (*progress)(void *ctx, std::uint64_t written, std::uint64_t total) = nullptr;
  void *ctx = nullptr;
};

// A tensor to write, and its name. The tensor is borrowed.
class named_tensor {
 public:
  named_tensor(std::string name, const tensor &t) : name_(std::move(name)), tensor_(t.get()) {}

 private:
  friend void write_file(const std::string &path, const std::vector<named_tensor> &tensors,
                         const file_fields &fields);
  std::string name_;
  DLManagedTensorVersioned *tensor_;
};

// Writes a file: `write_file("model.safetensors", {{"w", x}})`. See dlb_file_write. Throws error.
inline void write_file(const std::string &path, const std::vector<named_tensor> &tensors,
                       const file_fields &fields = {}) {
  constexpr const char *function = "dlbridge::write_file";
  std::vector<dlb_file_tensor> raw(tensors.size());
  for (std::size_t i = 0; i < raw.size(); i++) {
    raw[i].tensor = tensors[i].tensor_;
    raw[i].name = detail::c_string(tensors[i].name_, DLB_ERROR_ARGUMENT, function);
  }
  dlb_file_fields plain{};
  if (!fields.format.empty())
    plain.format = detail::c_string(fields.format, DLB_ERROR_ARGUMENT, function);
  plain.align = fields.align;
  plain.metadata = detail::bytes(fields.metadata);
  if (fields.progress != nullptr) {
    plain.progress = [](void *ctx, std::uint64_t written, std::uint64_t total) -> std::int32_t {
      const auto *f = static_cast<const file_fields *>(ctx);
      return f->progress(f->ctx, written, total) ? 0 : 1;
    };
    plain.ctx = const_cast<file_fields *>(&fields);
  }
  dlb_error e;
  detail::check(dlb_file_write(detail::c_string(path, DLB_ERROR_ARGUMENT, function), raw.data(),
                               raw.size(), &plain, &e),
                e);
}

// Returns the numbers of live objects in this process.
inline dlb_counters counters() noexcept {
  dlb_counters out;
  dlb_counters_read(&out, sizeof out);
  return out;
}

// Switches the ledger of live objects on or off, and returns whether it was on.
inline bool set_ledger(bool on) noexcept { return dlb_ledger_set(on) != 0; }

// Writes the live objects, and the place where each was made, to a file descriptor. Returns their
// number. Throws error.
inline std::size_t write_ledger(int fd) { return detail::call(dlb_ledger_write, std::int32_t{fd}); }

#ifdef DLBRIDGE_NO_EXCEPTIONS
}  // namespace no_exceptions
#endif
}  // namespace dlbridge

#ifdef __cpp_lib_span
// The elements outlive the view, so std::span accepts a temporary view.
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<dlbridge::array_view<T>> = true;
#endif

#undef DLBRIDGE_LIFETIMEBOUND

#endif
