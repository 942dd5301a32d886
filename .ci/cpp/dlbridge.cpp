// Calls every member of dlbridge.hpp. Usage: "dlbridge ROOT", where ROOT is the repository; its test messages are read.
// A failed check prints its line, and the program ends with 1.
#include <dlbridge.hpp>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <limits>
#include <list>
#include <new>
#include <sstream>
#include <thread>

#include <fcntl.h>
#ifdef __linux__
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#endif
#if __cplusplus >= 202002L
#include <ranges>
#endif

using dlbridge::all;
using dlbridge::frame;
using dlbridge::message;
using dlbridge::range;
using dlbridge::sizes;
using dlbridge::tensor;

static std::atomic<std::size_t> allocations;
void *operator new(std::size_t size) {
  allocations++;
  if (void *p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void *p) noexcept { std::free(p); }
void operator delete(void *p, std::size_t) noexcept { std::free(p); }

static int failures;
#define CHECK(...) \
  do { \
    if (!(__VA_ARGS__)) { \
      std::cerr << __FILE__ << ':' << __LINE__ << ": " << #__VA_ARGS__ << '\n'; \
      failures++; \
    } \
  } while (false)

// Checks that the call throws dlbridge::error with this code, and with `says` in its text.
#define THROWS(wanted, says, ...) \
  do { \
    try { \
      static_cast<void>(__VA_ARGS__); \
      std::cerr << __FILE__ << ':' << __LINE__ << ": no error: " << #__VA_ARGS__ << '\n'; \
      failures++; \
    } catch (const dlbridge::error &thrown) { \
      if (thrown.code() != (wanted) || std::string(thrown.what()).find(says) == std::string::npos) { \
        std::cerr << __FILE__ << ':' << __LINE__ << ": code " << thrown.code() << ", " << thrown.what() << '\n'; \
        failures++; \
      } \
    } \
  } while (false)

// Returns its argument, which may be a temporary: it lives until the end of the statement.
static const tensor &named(const tensor &t) { return t; }

static tensor counting(std::int64_t rows, std::int64_t columns) {
  std::vector<float> numbers(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<float>(i);
  return tensor::lend(std::move(numbers), {rows, columns});
}

// An owner that counts its destructions.
struct counted {
  explicit counted(int *n) : destroyed(n) {}
  counted(counted &&other) noexcept : destroyed(std::exchange(other.destroyed, nullptr)) {}
  counted &operator=(counted &&) = delete;
  ~counted() {
    if (destroyed != nullptr) ++*destroyed;
  }
  int *destroyed;
};

// A tensor of another library, which counts the calls of its deleter.
struct foreign {
  DLManagedTensorVersioned managed{};
  DLManagedTensor legacy{};
  std::int64_t shape[1] = {4};
  std::int64_t strides[1] = {1};
  std::int32_t memory[4] = {1, 2, 3, 4};
  int deleted = 0;
  foreign() {
    DLTensor t{};
    t.data = memory;
    t.device.device_type = kDLCPU;
    t.ndim = 1;
    t.dtype = dlbridge::dtype<std::int32_t>;
    t.shape = shape;
    t.strides = strides;
    managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed.manager_ctx = legacy.manager_ctx = &deleted;
    managed.dl_tensor = legacy.dl_tensor = t;
    managed.deleter = [](DLManagedTensorVersioned *self) { ++*static_cast<int *>(self->manager_ctx); };
    legacy.deleter = [](DLManagedTensor *self) { ++*static_cast<int *>(self->manager_ctx); };
  }
};

template <class T>
static bool type_is(std::uint8_t code, std::uint8_t bits) {
  tensor t = tensor::zeros<T>({2});
  return t.dtype() == DLDataType{code, bits, 1} && t.template data<T>()[1] == T{} && t.nbytes() == std::int64_t{2 * sizeof(T)};
}

static void types() {
  CHECK(type_is<bool>(kDLBool, 8));
  CHECK(type_is<std::int8_t>(kDLInt, 8) && type_is<std::int16_t>(kDLInt, 16));
  CHECK(type_is<std::int32_t>(kDLInt, 32) && type_is<std::int64_t>(kDLInt, 64));
  CHECK(type_is<long>(kDLInt, 64) && type_is<long long>(kDLInt, 64));
  CHECK(type_is<std::uint8_t>(kDLUInt, 8) && type_is<std::uint16_t>(kDLUInt, 16));
  CHECK(type_is<std::uint32_t>(kDLUInt, 32) && type_is<std::uint64_t>(kDLUInt, 64) && type_is<std::byte>(kDLUInt, 8));
  CHECK(type_is<float>(kDLFloat, 32) && type_is<double>(kDLFloat, 64));
  CHECK(type_is<std::complex<float>>(kDLComplex, 64) && type_is<std::complex<double>>(kDLComplex, 128));
#ifdef __STDCPP_FLOAT16_T__
  CHECK(type_is<std::float16_t>(kDLFloat, 16));
#endif
#ifdef __STDCPP_BFLOAT16_T__
  CHECK(type_is<std::bfloat16_t>(kDLBfloat, 16));
#endif
  const tensor t = tensor::zeros<float>({1});
  std::ostringstream out;
  out << t.dtype() << ' ' << t.device();
  CHECK(out.str() == "float32 cpu" && to_string(t.dtype()) == "float32" && to_string(t.device()) == "cpu");
  CHECK(dlbridge::to_string(t.dl_tensor().dtype) == "float32" && dlbridge::to_string(dlbridge::dtype<const float>) == "float32");
  CHECK(t.dtype() == t.dl_tensor().dtype && t.dtype() != dlbridge::dtype<std::int32_t> && t.dtype() != dlbridge::dtype<double>);
  CHECK(t.device() == DLDevice{kDLCPU, 0} && t.device() != DLDevice{kDLCPU, 1} && t.device() != DLDevice{kDLCUDA, 0});
  CHECK(t.dtype() != DLDataType{kDLFloat, 32, 2});
  CHECK(dlbridge::parse_dtype("int64") == dlbridge::dtype<std::int64_t>);
  THROWS(DLB_ERROR_DTYPE, "float33", dlbridge::parse_dtype("float33"));
  CHECK(dlbridge::to_string(dlbridge::parse_device("cuda:1")) == "cuda:1");
  THROWS(DLB_ERROR_DEVICE, "gpu", dlbridge::parse_device("gpu"));
  THROWS(DLB_ERROR_DTYPE, "the name has a NUL: int8\\x00", dlbridge::parse_dtype(std::string("int8\0x", 6)));
  THROWS(DLB_ERROR_DEVICE, "the name has a NUL: cpu\\x00", dlbridge::parse_device(std::string("cpu\0", 4)));
}

static void owners() {
  tensor x = tensor::zeros<float>({2, 3});
  CHECK(x && x.ndim() == 2 && x.shape() == sizes{2, 3} && x.shape(-1) == 3 && x.strides() == sizes{3, 1} && x.shape() != sizes{3, 2});
  CHECK(x.size() == 6 && x.nbytes() == 24 && !x.read_only() && x.device().device_type == kDLCPU && x.is_contiguous());
  x.validate();
  THROWS(DLB_ERROR_ARGUMENT, "axis 2 is out of bounds for 2", x.shape(2));
  THROWS(DLB_ERROR_ARGUMENT, "axis -3 is out of bounds for 2", x.shape(-3));

  float *memory = x.data<float>();
  tensor y = std::move(x);
  CHECK(!x && y.data<float>() == memory);  // NOLINT: a moved-from owner is empty
  THROWS(DLB_ERROR_NULL, "empty", x.shape());
  THROWS(DLB_ERROR_NULL, "NULL", x.copy());
  THROWS(DLB_ERROR_NULL, "NULL", (x.validate(), 0));
  DLManagedTensorVersioned *raw = y.release();
  CHECK(!y && raw->dl_tensor.data == memory);
  y = tensor::adopt(raw);
  CHECK(y.get() == raw);
  y = tensor::empty<float>({4});
  y.reset();
  CHECK(!y && dlbridge::counters().exports == 0);
  CHECK(!dlbridge::set_ledger(true));
  const tensor seen = tensor::zeros<float>({1});
  CHECK(dlbridge::write_ledger(open("/dev/null", O_WRONLY)) == 1);
  THROWS(DLB_ERROR_ARGUMENT, "fd = -1", dlbridge::write_ledger(-1));
  CHECK(dlbridge::set_ledger(false));
  tensor &same = y = counting(2, 2);
  y = std::move(same);
  CHECK(y && y.size() == 4);
  THROWS(DLB_ERROR_LAYOUT, "-1", tensor::zeros<float>({-1}));
  THROWS(DLB_ERROR_LAYOUT, "-1", tensor::empty<float>({2, -1}));
  try {
    static_cast<void>(tensor::empty<float>({std::int64_t{1} << 46}));
    CHECK(false);
  } catch (const std::bad_alloc &) {
  }

  foreign other;
  {
    tensor t = tensor::adopt(&other.managed);
    THROWS(DLB_ERROR_ARGUMENT, "dlb_tensor_import", t.flip());
    tensor ours = std::move(t).imported();
    CHECK(!t && named(ours.flip().index({0})).data<std::int32_t>() == other.memory + 3 && other.deleted == 0);  // NOLINT
  }
  CHECK(other.deleted == 1);
  other.managed.dl_tensor.shape[0] = -1;
  {
    tensor t = tensor::adopt(&other.managed);
    THROWS(DLB_ERROR_LAYOUT, "-1", std::move(t).imported());
    CHECK(t && other.deleted == 1);  // NOLINT: an error moves nothing
  }
  CHECK(other.deleted == 2);
  other.shape[0] = 4;
  {
    tensor t = tensor::from_legacy(&other.legacy, DLPACK_FLAG_BITMASK_READ_ONLY);
    CHECK(t.read_only() && t.data<const std::int32_t>() == other.memory);
    THROWS(DLB_ERROR_READONLY, "data<const T>", t.data<std::int32_t>());
    THROWS(DLB_ERROR_READONLY, "legacy", t.release_legacy());
    CHECK(t && other.deleted == 2);
  }
  CHECK(other.deleted == 3);
  tensor z = tensor::zeros<float>({1});
  DLManagedTensor *legacy = z.release_legacy();
  CHECK(!z);
  legacy->deleter(legacy);
}

static void lending() {
  std::vector<double> numbers{1, 2, 3, 4, 5, 6};
  const double *memory = numbers.data();
  tensor x = tensor::lend(std::move(numbers), {2, 3});
  CHECK(x.data<double>() == memory && numbers.empty());  // NOLINT
  CHECK(tensor::lend(std::array<std::uint16_t, 3>{1, 2, 3}).shape() == sizes{3});
  CHECK(tensor::lend(std::vector<float>{}).size() == 0);

  std::vector<float> wrong{1, 2, 3};
  const float *kept = wrong.data();
  THROWS(DLB_ERROR_LAYOUT, "the container has 3 elements, but the shape has 4", tensor::lend(std::move(wrong), {2, 2}));
  THROWS(DLB_ERROR_LAYOUT, "3 elements", tensor::lend(std::move(wrong), {-3}));
  CHECK(wrong.data() == kept && wrong.size() == 3);  // an error moves nothing

  int destroyed = 0;
  alignas(64) static std::int64_t table[6] = {0, 1, 2, 3, 4, 5};
  {
    tensor column = tensor::lend(table + 1, {3}, counted(&destroyed), {2}).slice({dlbridge::from(1)});
    CHECK(destroyed == 0 && column.data<std::int64_t>() == table + 3 && column.strides() == sizes{2});
    std::thread([moved = std::move(column)] {}).join();  // released on another thread
  }
  CHECK(destroyed == 1);
  {
    const std::int64_t *constant = table;
    tensor t = tensor::lend(constant, {6}, counted(&destroyed));
    CHECK(t.read_only() && t.data<const std::int64_t>() == table);
  }
  CHECK(destroyed == 2);
  THROWS(DLB_ERROR_LAYOUT, "strides has 1 entries, but shape has 2", tensor::lend(table, {2, 3}, counted(&destroyed), {1}));
  CHECK(destroyed == 3);  // the temporary itself
  {
    counted owner(&destroyed);
    THROWS(DLB_ERROR_LAYOUT, "strides has 1 entries, but shape has 2", tensor::lend(table, {2, 3}, std::move(owner), {1}));
    THROWS(DLB_ERROR_LAYOUT, "-1", tensor::lend(table, {-1}, std::move(owner)));
    CHECK(owner.destroyed == &destroyed);  // NOLINT: an error moves nothing
  }
  CHECK(destroyed == 4);
  {
    auto four = std::make_unique<float[]>(4);  // the compiler may evaluate std::move first, and moves later
    const float *address = four.get();
    const tensor lent = tensor::lend(four.get(), {4}, std::move(four));
    CHECK(lent.data<float>() == address && four == nullptr);  // NOLINT
    const auto several = std::make_shared<std::vector<float>>(3);
    const tensor copied = tensor::lend(several->data(), {3}, several);
    CHECK(several.use_count() == 2);
    struct matrix {
      std::vector<float> numbers = std::vector<float>(4);
      float &operator()(std::size_t i) { return numbers[i]; }
      const float &operator()(std::size_t i) const { return numbers[i]; }
    } square;
    float *const first = square.numbers.data();
    const tensor of_matrix = tensor::lend(first, {2, 2}, std::move(square));
    CHECK(of_matrix.data<float>() == first && tensor::lend(table, {6}, nullptr).size() == 6);
    struct callable_pointer {
      std::unique_ptr<float[]> numbers = std::make_unique<float[]>(4);
      float *operator()() const { return numbers.get(); }
    } pointer;
    float *const pointed = pointer();
    CHECK(named(tensor::lend(pointed, {4}, std::move(pointer))).data<float>() == pointed);
    struct task {
      std::unique_ptr<float[]> numbers = std::make_unique<float[]>(4);
      void operator()() {}
    } run;
    float *const used = run.numbers.get();
    CHECK(named(tensor::lend(used, {4}, std::make_unique<task>(std::move(run)))).data<float>() == used);
    struct fixed {
      float numbers[4] = {1, 2, 3, 4};
      std::shared_ptr<int> other;
    } inside;
    THROWS(DLB_ERROR_ARGUMENT, "in the owner itself", tensor::lend(inside.numbers, {4}, std::move(inside)));
    THROWS(DLB_ERROR_ARGUMENT, "in the owner itself", tensor::lend(&inside.numbers[3], {1}, inside));
    auto in_place = std::make_unique<fixed>();
    CHECK(named(tensor::lend(in_place->numbers, {4}, std::move(in_place))).data<float>()[3] == 4);
    std::vector<float> moved(3);
    const float *const elements = moved.data();
    CHECK(named(tensor::lend(moved.data(), {3}, std::move(moved))).data<float>() == elements);
  }
  tensor shared = tensor::lend(table, {6}, std::shared_ptr<std::int64_t>(table, [&](std::int64_t *) { destroyed++; }));
  shared.reset();
  CHECK(destroyed == 5);

  tensor odd = tensor::lend(reinterpret_cast<std::byte *>(table) + 1, {8}, nullptr);
  odd.get()->dl_tensor.dtype = dlbridge::dtype<std::int32_t>;
  odd.get()->dl_tensor.shape[0] = 2;
  THROWS(DLB_ERROR_UNALIGNED, "aligned to 4", odd.data<std::int32_t>());
  THROWS(DLB_ERROR_DTYPE, "int32, not float32", odd.data<float>());
  odd.get()->dl_tensor.device.device_type = kDLCUDA;
  THROWS(DLB_ERROR_DEVICE, "cuda", odd.data<std::int32_t>());
}

static void views() {
  tensor x = counting(3, 4);
  float *at = x.data<float>();
  tensor part = x.slice({range(1, 3), -1});
  CHECK(part.shape() == sizes{2} && part.data<float>() == at + 7 && !part.is_contiguous());
  CHECK(named(x.slice()).data<float>() == at && x.slice({dlbridge::ellipsis, dlbridge::new_axis, 0}).shape() == sizes{3, 1});
  CHECK(x.slice({dlbridge::until(2), dlbridge::every(2)}).strides() == sizes{4, 2});
  CHECK(named(x.slice({all, range(3, 0, -2)})).data<float>() == at + 3);
  CHECK(named(x.index({1, 2})).data<float>() == at + 6 && x.index({1}).shape() == sizes{4});
  CHECK(x.transpose().strides() == sizes{1, 4} && x.transpose({1, 0}).shape() == sizes{4, 3});
  CHECK(x.reshape({2, -1}).shape() == sizes{2, 6} && named(x.reshape({12})).data<float>() == at);
  CHECK(x.broadcast_to({2, 3, 4}).strides() == sizes{0, 4, 1} && x.broadcast_to({2, 3, 4}).read_only());
  CHECK(named(x.flip()).data<const float>() == at + 11 && named(x.flip({0})).data<float>() == at + 8);
  CHECK(x.expand({0, -1}).shape() == sizes{1, 3, 4, 1} && x.expand({0}).squeeze().shape() == sizes{3, 4});
  CHECK(named(x.expand({0}).squeeze({0})).data<float>() == at);
  CHECK(named(x.contiguous()).data<float>() == at && named(x.transpose().contiguous()).data<float>() != at);
  CHECK(named(x.copy()).data<float>() != at && named(x.copy()).data<float>()[11] == 11);
  CHECK(named(x.convert<std::int16_t>()).data<std::int16_t>()[11] == 11 && named(x.convert(dlbridge::dtype<double>)).data<double>()[1] == 1);
  THROWS(DLB_ERROR_ARGUMENT, "5", x.index({5}));
  CHECK(&x.at<float>({2, 3}) == at + 11 && &named(x.transpose()).at<const float>({1, 2}) == at + 9 && &named(x.flip()).at<float>({0, 1}) == at + 10);
  CHECK(tensor::zeros<float>({}).at<float>({}) == 0);
  const std::size_t before = allocations;
  CHECK(*x.data<float>() == x.at<float>({0, 0}) && x.values<float>().size() == 12);
  CHECK(allocations == before);
  CHECK(x.slice({1}).at<float>({2}) == 6 && x.broadcast_to({2, 3, 4}).at<float>({1, 2, 3}) == 11);
  THROWS(DLB_ERROR_ARGUMENT, "index [4] is not valid for shape [4]", x.slice({1}).at<float>({4}));
  THROWS(DLB_ERROR_ARGUMENT, "tensor::at: index [0 4] is not valid for shape [3 4]", x.at<float>({0, 4}));
  THROWS(DLB_ERROR_ARGUMENT, "index [-1 0] is not valid for shape [3 4]", x.at<float>({-1, 0}));
  THROWS(DLB_ERROR_ARGUMENT, "index [1] is not valid for shape [3 4]", x.at<float>({1}));
  THROWS(DLB_ERROR_DTYPE, "not float64", x.at<double>({1, 1}));
  THROWS(DLB_ERROR_READONLY, "data<const T>", named(x.broadcast_to({2, 3, 4})).at<float>({1, 1, 1}));
  CHECK(x.shape() == std::vector<std::int64_t>{3, 4} && std::vector<std::int64_t>{3} != x.shape());
  std::ostringstream list;
  list << x.shape() << sizes{} << dlbridge::axes{-1};
  CHECK(list.str() == "[3 4][][-1]");
  THROWS(DLB_ERROR_LAYOUT, "dlb_tensor_reshape", x.reshape({5}));
  THROWS(DLB_ERROR_LAYOUT, "dlb_tensor_contiguous", x.transpose().reshape({12}));

  part.data<float>()[0] = 42;
  CHECK(at[7] == 42);
  std::ostringstream out;
  out << x;
  CHECK(out.str() == "float32[3 4] on cpu [[0 1 2 3] [4 5 6 42] [8 9 10 11]]" && dlbridge::to_string(x) == out.str());

  dlbridge::span<const float> numbers = x.values<const float>();
  CHECK(numbers.size() == 12 && numbers.data() == at);
  x.values<float>()[0] = 7;
  CHECK(at[0] == 7);
  const tensor turned = x.transpose();
  THROWS(DLB_ERROR_LAYOUT, "contiguous()", turned.values<float>());
  const tensor nothing = tensor::zeros<float>({0, 3}).transpose(), one = tensor::zeros<float>({});
  CHECK(nothing.values<float>().size() == 0 && one.values<float>().size() == 1);
#ifdef __cpp_lib_span
  const sizes extents = x.shape();
  std::span<const std::int64_t> shape = extents;
  CHECK(shape.size() == 2 && shape[1] == 4);
#endif
#ifdef __cpp_lib_mdspan
  auto m = named(x.transpose()).mdspan<float, 2>();
  CHECK(m.extent(0) == 4 && m[3, 1] == 42 && &m[0, 2] == at + 8);
  auto right = x.mdspan<const float, 2, std::layout_right>();
  CHECK(&right[2, 1] == at + 9);
  CHECK(named(x.slice({all, range(1, 2)})).mdspan<float, 2>().stride(0) == 4);
  CHECK(named(tensor::zeros<float>({5, 0, 5}).transpose()).mdspan<float, 3>().empty());
  CHECK(named(tensor::zeros<float>({})).mdspan<float, 0>().size() == 1);
  auto left = named(x.transpose()).mdspan<float, 2, std::layout_left>();
  CHECK(left.extent(0) == 4 && &left[1, 2] == at + 9);
  CHECK(named(tensor::zeros<float>({3, 1})).mdspan<float, 2, std::layout_left>().extent(0) == 3);
  THROWS(DLB_ERROR_LAYOUT, "not column-major", x.mdspan<float, 2, std::layout_left>());
  THROWS(DLB_ERROR_LAYOUT, "contiguous()", named(x.transpose()).mdspan<float, 2, std::layout_right>());
  THROWS(DLB_ERROR_LAYOUT, "2 dimensions, not 3", x.mdspan<float, 3>());
  THROWS(DLB_ERROR_LAYOUT, "strides[1] = -1", named(x.flip({1})).mdspan<float, 2>());
  THROWS(DLB_ERROR_LAYOUT, "strides[0] = 0", named(x.broadcast_to({2, 3, 4})).mdspan<const float, 3>());
  THROWS(DLB_ERROR_DTYPE, "not float64", x.mdspan<double, 2>());
#endif
}

static void lists() {
  const std::vector<std::size_t> unsigned_sizes{3, 2};
  const std::vector<int> ints{3, 2};
  const std::list<short> shorts{3, 2};
  const long longs[] = {3, 2};
  const std::size_t rows = 3, columns = 2;
  const tensor x = counting(2, 3);
  for (const tensor &y : {x.reshape(unsigned_sizes), x.reshape(ints), x.reshape(shorts), x.reshape(longs), x.reshape({rows, columns})})
    CHECK(y.shape() == sizes{3, 2} && y.shape() == unsigned_sizes && ints == y.shape());
  CHECK(x.transpose(std::vector<std::int64_t>{1, 0}).shape() == ints && x.slice(std::vector<int>{1, 2}).shape() == sizes{});
  CHECK(x.slice({rows - 2}).shape() == sizes{3});
  const sizes kept = counting(2, 3).shape(), steps = counting(2, 3).strides();
  CHECK(kept == sizes{2, 3} && steps == sizes{3, 1} && counting(4, 1).shape()[0] == 4);
  std::int64_t product = 1;
  for (std::int64_t n : counting(2, 3).shape()) product *= n;
  CHECK(product == 6);
  sizes many{1, 2, 1, 2, 1, 2, 1, 2, 1, 2};  // more than the list holds without allocating
  sizes moved = std::move(many);
  CHECK(many == moved && moved.size() == 10 && tensor::zeros<float>(moved).shape() == moved);  // NOLINT
  moved = sizes{7};
  CHECK(moved == sizes{7} && many.data()[9] == 2);
  THROWS(DLB_ERROR_OVERFLOW, "18446744073709551615", x.reshape(std::vector<std::uint64_t>{UINT64_MAX}));
  THROWS(DLB_ERROR_OVERFLOW, "4294967296", x.flip(std::vector<std::int64_t>{std::int64_t{1} << 32}));
  const std::vector<std::string> words{"a", "bc"};
  const dlbridge::texts views = words;
  CHECK(views.size() == 2 && views[1] == "bc" && views[1].data() == words[1].data());
}

static std::vector<std::byte> read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::byte> bytes;
  for (std::istreambuf_iterator<char> c(file), end; c != end; ++c) bytes.push_back(static_cast<std::byte>(*c));
  return bytes;
}

static frame lend_copy(std::vector<std::byte> bytes) { return frame::lend(std::move(bytes)); }

static bool equal(const frame &f, const std::vector<std::byte> &bytes) { return std::equal(f.begin(), f.end(), bytes.begin(), bytes.end()); }

// Reads, writes, converts and compares elements of tensors.
static void elements() {
  const tensor x = counting(3, 4);
  tensor::lend(std::vector<int>{70, 80}).copy_into(x.slice({all, range(1, 3)}));
  CHECK(to_string(x) == "float32[3 4] on cpu [[0 70 80 3] [4 70 80 7] [8 70 80 11]]");
  THROWS(DLB_ERROR_LAYOUT, "memory in common", (x.slice({dlbridge::until(2)}).copy_into(x.slice({dlbridge::from(1)})), 0));
  const tensor floats = tensor::zeros<float>({2, 3}), bytes = tensor::lend(std::vector<unsigned char>{0, 1, 2, 3, 4, 5}).reshape({2, 3});
  bytes.convert_scaled(floats, {0.5, 1, 2}, {1});
  CHECK(to_string(floats) == "float32[2 3] on cpu [[1 2 5] [2.5 5 11]]");
  bytes.convert_scaled(floats, {}, std::vector<double>{10, 20}, 0);
  CHECK(to_string(floats) == "float32[2 3] on cpu [[10 11 12] [23 24 25]]");
  THROWS(DLB_ERROR_LAYOUT, "2 scales for axis -1 of size 3", (bytes.convert_scaled(floats, {1, 2}), 0));
  const tensor y = x.share();
  CHECK(y.get() != x.get() && y.data<float>() == x.data<float>());
  CHECK(x.address({1, -1}) == x.data<float>() + 7 && x.address() == x.data<float>());
  CHECK(equal(x, y.copy()) && !equal(x, x.transpose()));
  y.fill(std::int64_t{9});
  CHECK(*static_cast<float *>(x.address({2, 3})) == 9);
  x.fill(std::numeric_limits<float>::quiet_NaN());
  CHECK(!equal(x, y) && equal(x, y, DLB_EQUAL_NAN));
  CHECK(dlbridge::bits_of({kDLInt, 4, 1}) == 4);
  int frees = 0;
  {
    const auto z = tensor::zeros(dlbridge::dtype<float>, {2, 3},
                                 {[](void *, std::size_t size) { return std::malloc(size); },
                                  [](void *count, void *memory, std::size_t) { std::free(memory), ++*static_cast<int *>(count); }, &frees});
    CHECK(z.size() == 6 && z.values<float>()[5] == 0 && frees == 0);
  }
  CHECK(frees == 1);
}

// Functions with the signature that functions of Go plugins have; examples/plugin calls functions in Go.
extern "C" {
static DLManagedTensorVersioned *scaled(DLManagedTensorVersioned *x, double factor, dlb_error *e) {
  const tensor in = tensor::adopt(x);
  *e = {};
  if (factor != 0) return in.convert<double>().release();
  e->code = DLB_ERROR_FUNCTION;
  std::strcpy(e->message, "scaled: the factor is 0");
  return nullptr;
}
static DLManagedTensorVersioned *of_another_library(dlb_error *) {
  static foreign other;
  return &other.managed;
}
static DLManagedTensorVersioned *released(DLManagedTensorVersioned *x, DLManagedTensorVersioned *y, dlb_error *) {
  dlb_tensor_release(x);
  dlb_tensor_release(y);
  return nullptr;
}
static DLManagedTensorVersioned *broken(dlb_error *) {
  tensor out = tensor::zeros<float>({2});
  out.get()->dl_tensor.shape[0] = -1;
  return out.release();
}
}

static void plugins() {
  tensor x = counting(2, 3);
  CHECK(dlbridge::call(scaled, std::move(x), 2).slice({1, 2}).at<double>({}) == 5 && !x);  // NOLINT
  x = counting(2, 3);
  THROWS(DLB_ERROR_FUNCTION, "scaled: the factor is 0", dlbridge::call(scaled, std::move(x), 0));
  CHECK(!x);  // NOLINT: taken over, also on error
  CHECK(dlbridge::call(of_another_library).flip().at<std::int32_t>({0}) == 4);
  CHECK(!dlbridge::call(released, counting(1, 1), counting(1, 1)) && !dlbridge::call(released, counting(1, 1), tensor()));
  THROWS(DLB_ERROR_LAYOUT, "-1", dlbridge::call(broken));
  x = counting(2, 3);
  THROWS(DLB_ERROR_NULL, "dlsym", dlbridge::call(decltype (&scaled){}, std::move(x), 1));
  CHECK(x && dlbridge::counters().exports == 1);  // NOLINT: there was nothing to call
}

#ifdef __linux__
static void shared_memory() {
  namespace shm = dlbridge::shm;
  int sockets[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const pid_t child = fork();
  if (child == 0) {  // doubles the writable tensor, and answers with it and with a copy of the other
    close(sockets[0]);
    int rc = 0;
    try {
      std::vector<tensor> in = shm::recv(sockets[1]);
      if (in.size() != 2 || in[0].read_only()) rc = 1;
      for (std::int64_t i = 0; i < in[0].size(); i++) in[0].data<float>()[i] *= 2;
      shm::send(sockets[1], shm::copy(in[1]));
    } catch (const std::exception &e) {
      std::cerr << e.what() << '\n';
      rc = 2;
    }
    _exit(rc);
  }
  close(sockets[1]);
  tensor x = shm::copy(counting(2, 3));
  CHECK(shm::is_shared(x) && !shm::is_shared(counting(2, 3)) && x.shape() == sizes{2, 3});
  std::vector<tensor> both;
  both.push_back(shm::zeros<float>({4}));
  both.push_back(x.slice({1}));
  both[0].data<float>()[3] = 21;
  shm::send(sockets[0], both, DLB_SHM_WRITABLE);
  const std::vector<tensor> answer = shm::recv(sockets[0]);
  CHECK(answer.size() == 1 && answer[0].read_only() && answer[0].shape() == sizes{3} && answer[0].data<const float>()[2] == 5);
  CHECK(both[0].data<float>()[3] == 42);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  THROWS(DLB_ERROR_CLOSED, "closed", shm::recv(sockets[0]));
  close(sockets[0]);

  const tensor r = shm::read_only(x);
  CHECK(r.read_only() && r.data<const float>() != x.data<float>() && r.data<const float>()[5] == 5);
  x.data<float>()[5] = 7;
  CHECK(r.data<const float>()[5] == 7);
  THROWS(DLB_ERROR_ARGUMENT, "", shm::read_only(counting(2, 3)));
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  THROWS(DLB_ERROR_ARGUMENT, "tensors[0]", (shm::send(sockets[0], counting(2, 3)), 0));
  THROWS(DLB_ERROR_SYSTEM, "within 20 milliseconds", shm::recv(sockets[1], 1, 0, std::chrono::milliseconds(20)));
  shm::send(sockets[0], x, DLB_SHM_WRITABLE, std::chrono::seconds(5));
  CHECK(shm::recv(sockets[1], 1, 0, shm::forever).size() == 1);
  shm::send(sockets[0], both, DLB_SHM_WRITABLE);
  THROWS(DLB_ERROR_ROOM, "", shm::recv(sockets[1], 1));
  shm::send(sockets[0], x, DLB_SHM_WRITABLE);
  CHECK(shm::recv(sockets[1]).size() == 1);
  close(sockets[0]);
  close(sockets[1]);

  x = shm::copy(x);  // its segment was handed over writable, which cannot change
  const shm::handle h = shm::offer(x, std::chrono::minutes(1));
  CHECK(h.size == 24 && h.readonly == 1);
  const tensor f = shm::fetch<float>(h, {2, 3});
  CHECK(f.read_only() && f.data<const float>()[5] == 7 && f.data<const float>() != x.data<float>());
  THROWS(DLB_ERROR_CLOSED, "used before", shm::fetch<float>(h, {2, 3}));
  THROWS(DLB_ERROR_READONLY, "", shm::offer(x, std::chrono::minutes(1), DLB_SHM_WRITABLE));
  THROWS(DLB_ERROR_ARGUMENT, "timeout_ms", shm::offer(x, std::chrono::seconds(0)));

  const std::string name = "dlbridge-cpp-" + std::to_string(getpid()), path = "/dev/shm/" + name;
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(x.data<float>()), 24);
  tensor copied = shm::attach<float>(name, {2}, 16);
  tensor trusted = shm::attach<float>(name, {2}, 16, 0, DLB_SHM_TRUST_PEER);
  trusted.data<float>()[0] = 11;
  CHECK(copied.data<float>()[0] == 4 && copied.data<float>()[1] == 7 && named(shm::attach<float>(name, {1}, 16)).data<float>()[0] == 11);
  THROWS(DLB_ERROR_OVERFLOW, "", shm::attach<float>(name, {7}));
  THROWS(DLB_ERROR_ARGUMENT, "name", shm::attach<float>("../" + name, {1}));
  THROWS(DLB_ERROR_ARGUMENT, "NUL", shm::attach<float>(name + std::string(1, '\0'), {1}));
  unlink(path.c_str());
  THROWS(DLB_ERROR_SYSTEM, "", shm::attach<float>(name, {1}));
}
#endif

static void messages(const std::string &root) {
  const std::string peer = root + "/examples/demo/message/peer";
  const char *const names[] = {".prefix.bin", ".header.bin", ".part0.bin", ".part1.bin", ".part2.bin"};
  std::vector<frame> frames;
  for (const char *name : names) frames.push_back(frame::lend(read(peer + name)));
  const std::byte *part = frames[2].data();

  std::vector<frame> cut;
  cut.push_back(frame::lend(read(peer + names[0])));
  THROWS(DLB_ERROR_FORMAT, "tens", message::decode(std::move(cut)));
  CHECK(cut.size() == 1 && cut[0].size() > 0);  // NOLINT: an error moves nothing

  message m = message::decode(std::move(frames));
  CHECK(m && frames.empty() && m.part_count() == 3 && m.frame_count() == 5 && m.size() > 0);  // NOLINT
  CHECK(m.header().level == 0 || m.header().form[0] != 0);
  CHECK(m.label().find("\"TENS\"") != std::string_view::npos && (!m.metadata() || m.metadata()->front() == '{'));
  std::size_t count = 0;
  for (tensor t : m) {
    CHECK(t.dl_tensor().data == named(m[count]).dl_tensor().data && m.part_of(count) < m.part_count() && !m.copied(count));
    static_cast<void>(m.tensor_metadata(count));
    count++;
  }
  CHECK(count == m.size());
  auto it = m.begin();
  CHECK(it++ == m.begin() && it != m.begin() && (*m.begin()).ndim() == m[0].ndim());
#if __cplusplus >= 202002L
  static_assert(std::ranges::input_range<message>);
#endif
  CHECK(named(m.part(0)).data<std::byte>() == part);
  THROWS(DLB_ERROR_ARGUMENT, "", m[m.size()]);
  THROWS(DLB_ERROR_ARGUMENT, "", m.part(3));
  THROWS(DLB_ERROR_ARGUMENT, "", m.frame_at(5));
  THROWS(DLB_ERROR_ARGUMENT, "", m.tensor_metadata(m.size()));

  std::vector<frame> sent = m.frames();
  for (std::size_t i = 0; i < sent.size(); i++) CHECK(equal(sent[i], read(peer + names[i])));
  CHECK(sent[2].data() == part && m.frame_at(2).data() == part);
  frame packed = m.packed();
  m = message();
  CHECK(equal(sent[2], read(peer + names[2])));  // the frames outlive the message
  const std::vector<std::byte> copy(packed.begin(), packed.end());
  message again = message::decode(std::move(packed));
  CHECK(again.size() == count && packed.size() == 0);  // NOLINT
  frame empty;
  THROWS(DLB_ERROR_FORMAT, "", message::decode(std::move(empty)));
  CHECK(equal(again.packed(), copy));
  std::vector<std::byte> several(copy);
  several.insert(several.end(), copy.begin(), copy.end());
  dlbridge::message_reader in(lend_copy(several));
  std::size_t read_messages = 0;
  tensor from_first;
  for (message next = in.next(); next; next = in.next()) {
    if (read_messages == 0) from_first = next[0];
    CHECK(equal(next.packed(), copy) && in.offset() == ++read_messages * copy.size());
  }
  CHECK(read_messages == 2 && !in.next() && from_first.shape() == again[0].shape());
  THROWS(DLB_ERROR_FORMAT, "dlb_message_decode_next", message::decode(lend_copy(several)));
  several.pop_back();
  dlbridge::message_reader cut_short(frame::lend(std::move(several)), DLB_DECODE_MESSAGE_ONLY);
  CHECK(cut_short.next().size() == 0);
  THROWS(DLB_ERROR_FORMAT, "cut short", cut_short.next());
  CHECK(cut_short.offset() == copy.size() && !dlbridge::message_reader(frame()).next());
  message only = message::decode(lend_copy(copy), DLB_DECODE_MESSAGE_ONLY);
  CHECK(only.size() == 0 && only.part_count() == 3);
  dlb_message *raw = only.release();
  CHECK(!only);
  only = message::adopt(raw);
  CHECK(only.get() == raw);
  THROWS(DLB_ERROR_NULL, "", message().header());
  THROWS(DLB_ERROR_NULL, "empty", message().begin());

  tensor x = counting(2, 3);
  float *memory = x.data<float>();
  std::vector<tensor> tensors;
  tensors.push_back(std::move(x));
  tensors.push_back(counting(4, 4).slice({all, dlbridge::every(2)}));
  dlbridge::message_fields fields;
  fields.header.seqno = 7;
  fields.metadata = "{\"run\":1}";
  fields.label = "{\"author\":\"me\"}";
  fields.tensor_metadata = {"{\"name\":\"x\"}", "{}", "{}"};
  THROWS(DLB_ERROR_ARGUMENT, "metadata of 3 tensors", message::encode(std::move(tensors), fields));
  CHECK(tensors.size() == 2 && tensors[0]);  // NOLINT: an error moves nothing
  fields.tensor_metadata.resize(1);
  fields.metadata = "[";
  THROWS(DLB_ERROR_ARGUMENT, "", message::encode(std::move(tensors), fields));
  CHECK(tensors.size() == 2 && tensors[0].data<float>() == memory);  // NOLINT
  fields.metadata = "{\"run\":1}";
  message out = message::encode(std::move(tensors), fields);
  CHECK(tensors.empty() && out.size() == 2 && !out.copied(0) && out.copied(1) && out.header().seqno == 7);  // NOLINT
  CHECK(out.tensor_metadata(0) == "{\"name\":\"x\"}" && out.metadata() == "{\"run\":1}");
  CHECK(out.label().find("author") != std::string_view::npos && named(out[0]).data<float>() == memory);
  CHECK(static_cast<const void *>(out.frame_at(2).data()) == memory);
  CHECK(named(message::decode(out.frames())[1]).data<const float>()[1] == 2);

  tensor a = counting(1, 2), b = counting(2, 2);
  const float *of_a = a.data<float>(), *of_b = b.data<float>();
  b.get()->dl_tensor.dtype.lanes = 0;
  THROWS(DLB_ERROR_DTYPE, "", message::encode(std::move(a), std::move(b)));
  CHECK(a.data<float>() == of_a && b.get()->dl_tensor.data == of_b);  // NOLINT: an error moves nothing
  b.get()->dl_tensor.dtype.lanes = 1;
  message both = message::encode(std::move(a), std::move(b));
  CHECK(!a && !b && both.size() == 2 && named(both[0]).data<float>() == of_a && named(both[1]).data<float>() == of_b);  // NOLINT

  dlbridge::message_fields spread;
  spread.spread = 16;  // one row
  message rows = message::encode({counting(4, 4)}, spread);
  CHECK(rows.part_count() == 4 && message::decode(rows.frames()).size() == 4);
  CHECK(message::decode(rows.frames(), DLB_DECODE_JOIN)[0].shape() == sizes{4, 4});

  tensor c = counting(1, 2), d = counting(2, 2);
  const float *of_c = c.data<float>(), *of_d = d.data<float>();
  dlbridge::message_fields described;
  described.label = dlbridge::json({{"author", "me"}});
  described.metadata = dlbridge::json({});
  described.tensor_metadata = {dlbridge::json({{"name", "c"}, {"run", -7}, {"rate", 0.1}, {"last", true}}), dlbridge::json({{"name", "\xff"}})};
  THROWS(DLB_ERROR_ARGUMENT, "", message::encode({std::move(c), std::move(d)}, described));
  CHECK(c.data<float>() == of_c && d.data<float>() == of_d);  // NOLINT: an error moves nothing
  described.tensor_metadata[1] = dlbridge::json({{"name", std::string("d\0", 2)}, {"size", std::numeric_limits<std::uint64_t>::max()}});
  message named_tensors = message::encode({std::move(c), std::move(d)}, described);
  CHECK(!c && !d && named(named_tensors[0]).data<float>() == of_c && named(named_tensors[1]).data<float>() == of_d);  // NOLINT
  named_tensors = message::decode(named_tensors.packed());
  CHECK(named_tensors.tensor_metadata(0) == "{\"name\":\"c\",\"run\":-7,\"rate\":0.1,\"last\":true}");
  CHECK(named_tensors.tensor_metadata(1) == "{\"name\":\"d\\u0000\",\"size\":18446744073709551615}");
  CHECK(named_tensors.label().find("\"author\":\"me\"") != std::string_view::npos && message::encode({}).size() == 0);
  CHECK(dlbridge::json({{"a\"b", "\\\x1f\xc3\xa9"}, {"n", 1e100}}) == "{\"a\\\"b\":\"\\\\\\u001f\xc3\xa9\",\"n\":1e+100}");
  THROWS(DLB_ERROR_ARGUMENT, "member \"x\" is not a finite number", dlbridge::json({{"x", std::numeric_limits<float>::infinity()}}));

  dlbridge::message_fields by_name;
  by_name.names = {"w", "", "b"};
  by_name.tensor_metadata = {"", "", dlbridge::json({{"unit", "m"}})};
  message found = message::encode({counting(1, 2), counting(2, 2), counting(3, 2)}, by_name);
  found = message::decode(found.packed());
  const std::string longer = "bb";
  CHECK(found["w"].shape() == sizes{1, 2} && found[std::string_view(longer).substr(1)].shape() == sizes{3, 2} && found[0].shape() == sizes{1, 2});
  CHECK(found.find(std::string("b")) == 2 && found.name(0) == "w" && !found.name(1) && found.name(2) == "b");
  CHECK(found.tensor_metadata(2) == "{\"name\":\"b\",\"unit\":\"m\"}");
  THROWS(DLB_ERROR_ARGUMENT, "named \"bb\"", named(found[longer]));
  THROWS(DLB_ERROR_ARGUMENT, "message::find: the name has a NUL: b", found.find(std::string_view("b\0", 2)));
  THROWS(DLB_ERROR_ARGUMENT, "", found.name(3));
  THROWS(DLB_ERROR_NULL, "", message().find("b"));
  THROWS(DLB_ERROR_NULL, "", message().name(0));
  by_name.tensor_metadata = {dlbridge::json({{"name", "b"}})};
  THROWS(DLB_ERROR_ARGUMENT, "tensor 0", message::encode({counting(1, 2), counting(2, 2), counting(3, 2)}, by_name));
  by_name.tensor_metadata = {};
  THROWS(DLB_ERROR_ARGUMENT, "there are names of 3 tensors, but only 2 tensors", message::encode({counting(1, 2), counting(2, 2)}, by_name));
  by_name.names = {"w", "w"};
  THROWS(DLB_ERROR_ARGUMENT, "both named \"w\"", message::encode({counting(1, 2), counting(2, 2)}, by_name));
  by_name.names = {std::string("w\0", 2)};
  THROWS(DLB_ERROR_ARGUMENT, "message::encode: the name has a NUL: w", message::encode({counting(1, 2)}, by_name));
  by_name.names = {};
  by_name.tensor_metadata = {dlbridge::json({{"name", "w"}}), dlbridge::json({{"name", "w"}})};
  THROWS(DLB_ERROR_FORMAT, "tensors 0 and 1", message::encode({counting(1, 2), counting(2, 2)}, by_name).find("w"));

  std::vector<frame> parts;
  parts.push_back(frame::lend(std::string("payload")));
  dlb_header header{};
  std::memcpy(header.form, "TEXT", 4);
  dlbridge::message_fields sent_on;
  sent_on.relay = &named_tensors;
  message relayed = message::encode({named_tensors[0], named_tensors[1]}, sent_on);
  CHECK(relayed.label() == named_tensors.label());
  sent_on.tensor_metadata = {R"({"tags":["gauss"]})"};
  relayed = message::encode({named_tensors[0], counting(2, 2)}, sent_on);
  CHECK(relayed.tensor_metadata(0) == R"({"name":"c","tags":["gauss"]})" && relayed["c"].shape() == named_tensors[0].shape());
  const std::string_view label = R"({"TENS":{"tensors":[{"dtype":"?","word":0,"shape":[],"part":0,"metadata":{"a":[1]}}]}})";
  message described_only = message::decode(message::encode_parts(header, label, {}).frames());
  THROWS(DLB_ERROR_METADATA, "tensor 0 is only metadata", described_only[0]);
  sent_on = {};
  sent_on.relay = &described_only;
  relayed = message::encode({tensor()}, sent_on);
  CHECK(relayed.label() == label && relayed.header().seqno == header.seqno);
  THROWS(DLB_ERROR_NULL, "tensors[0].tensor", message::encode({tensor()}));

  message text = message::encode_parts(header, "a label", std::move(parts));
  CHECK(text.label() == "a label" && text.part_count() == 1 && !text.metadata() && parts.empty());  // NOLINT

  frame f = frame::lend(std::vector<float>{1, 2});
  CHECK(f.size() == 8 && f.get().flags == DLB_FRAME_WRITABLE);
  f = frame::adopt(f.release());
  frame g = std::move(f);
  g = frame::lend(std::string("x"));
  CHECK(g.size() == 1 && f.size() == 0);  // NOLINT
}

static void values(const std::string &root) {
  namespace decthings = dlbridge::decthings;
  namespace tensorflow = dlbridge::tensorflow;
  tensor x = counting(2, 3);

  std::vector<std::byte> encoded = decthings::encode(x.transpose());
  const std::size_t size = encoded.size();
  CHECK(decthings::encode_to(nullptr, 0, x) == size);
  std::vector<std::byte> buffer(size);
  CHECK(decthings::encode_to(buffer.data(), buffer.size(), x.transpose()) == size && buffer == encoded);
  THROWS(DLB_ERROR_ROOM, "", decthings::encode_to(buffer.data(), size - 1, x));
  decthings::check("{\"shape\":[3,2],\"allowedTypes\":[\"f32\"]}", x.transpose());
  THROWS(DLB_ERROR_DTYPE, "", (decthings::check("{\"shape\":[3,2],\"allowedTypes\":[\"i8\"]}", x.transpose()), 0));

  dlbridge::value v = decthings::decode(lend_copy(encoded));
  CHECK(v.size == size && std::get<tensor>(v.object).shape() == sizes{3, 2});
  CHECK(v.copied == ((std::get<tensor>(v.object).flags() & DLPACK_FLAG_BITMASK_IS_COPIED) != 0));
  CHECK(decthings::encode(v) == encoded);
  frame bad = frame::lend(std::string("\xff"));
  THROWS(DLB_ERROR_FORMAT, "", decthings::decode(std::move(bad)));
  CHECK(bad.size() == 1);  // NOLINT: an error moves nothing

  const std::string_view words[] = {"zero", "", "two"};
  const dlbridge::elements_view strings{"string", {3}, words};
  for (auto dialect : {decthings::dialect::doc, decthings::dialect::py004, decthings::dialect::rs015}) {
    dlbridge::value s = decthings::decode(frame::lend(decthings::encode(strings, dialect)), dialect);
    dlbridge::elements e = std::move(std::get<dlbridge::elements>(s.object));
    CHECK(e && e.type() == "string" && e.shape() == sizes{3} && e.size() == 3 && e[0] == "zero" && e[1].empty() && e[2] == "two");
    CHECK(e.format(0).empty() && decthings::encode(e, dialect) == decthings::encode(strings, dialect));
    THROWS(DLB_ERROR_ARGUMENT, "index 3 is out of bounds for size 3", e[3]);
    dlb_elements *raw = e.release();
    CHECK(!e);
    THROWS(DLB_ERROR_NULL, "empty", e.size());
    e = dlbridge::elements::adopt(raw);
    CHECK(e.get() == raw);
  }
  const std::string_view formats[] = {"png"};
  const std::string_view pixels[] = {"..."};
  dlbridge::value image = decthings::decode(frame::lend(decthings::encode(dlbridge::elements_view{"image", {1}, pixels, formats})));
  CHECK(std::get<dlbridge::elements>(image.object).format(0) == "png");
  THROWS(DLB_ERROR_ARGUMENT, "1 formats, but 3", decthings::encode(dlbridge::elements_view{"image", {3}, words, formats}));

  std::vector<std::byte> batch;  // more than one call decodes
  for (int i = 0; i < 200; i++) batch.insert(batch.end(), encoded.begin(), encoded.end());
  std::vector<dlbridge::value> many = decthings::decode_all(lend_copy(batch));
  CHECK(many.size() == 200 && named(std::get<tensor>(many[199].object).contiguous()).data<const float>()[1] == 3);
  decthings::reader in(lend_copy(batch), decthings::dialect::doc, 64);
  std::size_t count = 0;
  for (std::vector<dlbridge::value> next = in.next(); !next.empty(); next = in.next()) {
    count += next.size();
    CHECK(in.offset() == count * encoded.size());
  }
  CHECK(count == 200 && in.offset() == batch.size() && in.next().empty());
  decthings::reader bounded(frame::lend(decthings::encode(dlbridge::elements_view{"string", {3}, words, {}})), decthings::dialect::doc, 55);
  THROWS(DLB_ERROR_FORMAT, "needs 56 bytes", bounded.next());
  CHECK(bounded.offset() == 0);
  THROWS(DLB_ERROR_FORMAT, "DLB_LIMIT", decthings::decode(frame::lend(decthings::encode(dlbridge::elements_view{"string", {3}, words, {}})), decthings::dialect::doc, 55));
  for (const std::uint64_t limit : {std::uint64_t{1} << 47, std::uint64_t{1} << 48, (std::uint64_t{1} << 48) + 55}) {
    (void)decthings::decode(frame::lend(decthings::encode(dlbridge::elements_view{"string", {3}, words, {}})), decthings::dialect::doc, limit);
  }
  batch.push_back(std::byte{0xff});
  THROWS(DLB_ERROR_FORMAT, "", decthings::decode_all(frame::lend(std::move(batch))));
  CHECK(decthings::decode_all(frame()).empty());

  const std::vector<std::byte> proto = read(root + "/bridge/tensorflow/testdata/bool-content-2x2.bin");
  dlbridge::value t = tensorflow::decode(lend_copy(proto));
  CHECK(std::get<tensor>(t.object).shape() == sizes{2, 2} && std::get<tensor>(t.object).data<bool>() != nullptr);
  CHECK(tensorflow::encode(t) == proto);
  buffer.assign(tensorflow::encode_to(nullptr, 0, t, DLB_TENSORFLOW_FIELDS), std::byte{});
  CHECK(tensorflow::encode_to(buffer.data(), buffer.size(), t, DLB_TENSORFLOW_FIELDS) == buffer.size());
  CHECK(buffer == tensorflow::encode(t, DLB_TENSORFLOW_FIELDS));
  THROWS(DLB_ERROR_FORMAT, "", tensorflow::decode(frame::lend(read(root + "/bridge/tensorflow/testdata/bad-content-short.bin"))));
}

static void files(const std::string &root) {
  const std::string path = "dlbridge-cpp-" + std::to_string(getpid()) + ".safetensors";
  const tensor x = counting(2, 3);
  dlbridge::file_fields fields;
  fields.metadata = dlbridge::json({{"made", "here"}});
  fields.align = 64;
  std::uint64_t last = 0;
  fields.ctx = &last;
  fields.progress = [](void *ctx, std::uint64_t written, std::uint64_t total) {
    *static_cast<std::uint64_t *>(ctx) = total;
    return written <= total;
  };
  dlbridge::write_file(path, {{"w", x}, {"turned", x.transpose()}}, fields);
  dlbridge::file f(path);
  CHECK(last == 48 && f.size() == 2 && f.format() == "safetensors" && f.metadata() == R"({"made":"here"})");
  std::size_t seen = 0;
  for (const dlbridge::file_entry &e : f) {
    CHECK(e.type() == "F32" && e.dtype() == x.dtype() && e.shape().size() == 2 && e.nbytes() == 24 && e.aligned() && e.status() == DLB_OK);
    CHECK(e.copied().empty() && e.problem().empty() && e.path() == path && e.offset() > 0 && e.name() == f.entry(seen++).name());
  }
  CHECK(seen == 2 && std::distance(f.begin(), f.end()) == 2);
  f.verify();
  f.sync();
  const tensor w = f["w"], copied = f.copy("turned");
  CHECK(equal(w, x) && w.read_only() && equal(copied, x.transpose()) && !copied.read_only() && equal(f.copy(f.find("w")), f[f.find("w")]));
  THROWS(DLB_ERROR_ARGUMENT, "named", f["none"]);
  THROWS(DLB_ERROR_ARGUMENT, "index = 2", f.entry(2));
  fields.progress = [](void *, std::uint64_t, std::uint64_t) { return false; };
  THROWS(DLB_ERROR_FUNCTION, "progress", (dlbridge::write_file(path, {{"w", x}}, fields), 0));
  THROWS(DLB_ERROR_ARGUMENT, "format", (dlbridge::write_file(path + ".x", {{"w", x}}), 0));
  THROWS(DLB_ERROR_ARGUMENT, "NUL", (dlbridge::write_file(path, {{std::string(1, '\0'), x}}), 0));
  dlbridge::file other = std::move(f);
  CHECK(!f && f.size() == 0 && other);  // NOLINT
  THROWS(DLB_ERROR_NULL, "empty", f.begin());  // NOLINT
  dlb_file *raw = other.release();
  other = dlbridge::file::adopt(raw);
  other = dlbridge::file();
  unlink(path.c_str());
  CHECK(equal(w, x));
  const dlbridge::file model(root + "/bridge/gguf/testdata/types.gguf");
  CHECK(model.format() == "gguf" && model.size() > 5 && model.metadata().front() == '{');
  THROWS(DLB_ERROR_SYSTEM, "no such file", dlbridge::file(root + "/none"));
  THROWS(DLB_ERROR_ARGUMENT, "only npy", dlbridge::file(root + "/bridge/gguf/testdata/types.gguf", {DLB_FILE_WRITABLE, {}}));
}

int main(int argc, char **argv) try {
  if (argc != 2) throw std::invalid_argument("usage: dlbridge ROOT");
  types();
  owners();
  lending();
  views();
  elements();
  lists();
  plugins();
#ifdef __linux__
  shared_memory();
#endif
  messages(argv[1]);
  values(argv[1]);
  files(argv[1]);
  const dlb_counters left = dlbridge::counters();
  CHECK(left.exports == 0 && left.imports == 0 && left.messages == 0 && left.elements == 0 && left.files == 0 && left.double_deletes == 0);
  return failures == 0 ? 0 : 1;
} catch (const std::exception &e) {
  std::cerr << "dlbridge: " << e.what() << '\n';
  return 1;
}
