// Boost.MultiArray over the memory of tensors, and tensors over that of Boost's arrays.
#pragma once
#include "../cpp/raii.hpp"

#include <algorithm>
#include <array>
#include <boost/multi_array.hpp>
#include <type_traits>

template <class T>
constexpr uint8_t code = std::is_floating_point_v<T> ? kDLFloat : std::is_signed_v<T> ? kDLInt : kDLUInt;

// Boost's array over a tensor's memory. Strides say what general_storage_order does: which dimension is faster than
// which, and which of them run backwards. Boost wants the lowest address, and knows no gaps.
template <class T, size_t N>
boost::multi_array_ref<T, N> view(const DLManagedTensorVersioned &managed) {
  const DLTensor &t = managed.dl_tensor;
  if (t.ndim != N || t.dtype.code != code<T> || t.dtype.bits != 8 * sizeof(T) || t.dtype.lanes != 1)
    throw std::runtime_error("a tensor of another type or rank");
  if (managed.flags & DLPACK_FLAG_BITMASK_READ_ONLY) throw std::runtime_error("read-only memory");
  std::array<int64_t, N> shape, order;
  std::array<bool, N> ascend;
  T *lowest = static_cast<T *>(t.data);
  for (size_t d = 0; d < N; d++) {
    shape[d] = t.shape[d];
    order[d] = static_cast<int64_t>(d);
    ascend[d] = t.strides[d] >= 0;
    if (!ascend[d]) lowest += std::max(shape[d] - 1, int64_t{0}) * t.strides[d];
  }
  auto faster = [&](int64_t a, int64_t b) { return std::abs(t.strides[a]) < std::abs(t.strides[b]); };
  std::sort(order.begin(), order.end(), faster);
  boost::general_storage_order<N> storage(order.begin(), ascend.begin());
  boost::multi_array_ref<T, N> array(lowest, shape, storage);
  for (size_t d = 0; d < N; d++)
    if (shape[d] > 1 && array.num_elements() > 0 && array.strides()[d] != t.strides[d])
      throw std::runtime_error("a layout with gaps");
  return array;
}

// And back: a tensor over an array of Boost's, which is deleted with the tensor's last share.
template <class T, size_t N>
Tensor lend(std::unique_ptr<boost::multi_array<T, N>> array) {
  std::array<int64_t, N> shape, strides;
  std::copy_n(array->shape(), N, shape.begin());
  std::copy_n(array->strides(), N, strides.begin());
  DLTensor view{array->origin(), {kDLCPU, 0}, N, {code<T>, 8 * sizeof(T), 1}, shape.data(), strides.data(), 0};
  auto release = [](void *ctx) { delete static_cast<boost::multi_array<T, N> *>(ctx); };
  Tensor tensor(call(dlb_tensor_lend, &view, uint64_t{0}, release, array.get()));
  array.release();
  return tensor;
}
