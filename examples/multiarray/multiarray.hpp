// Boost.MultiArray arrays over the memory of tensors, and tensors over the memory of such arrays.
#pragma once
#include <dlbridge.hpp>

#include <algorithm>
#include <array>
#include <boost/multi_array.hpp>

// Returns an array of Boost over the memory of a tensor. The strides of the tensor give the general_storage_order: the order of
// the dimensions and which of them are reversed. Boost needs the lowest address, and cannot describe gaps.
template <class T, size_t N>
boost::multi_array_ref<T, N> view(const dlbridge::tensor &tensor) {
  const DLTensor &t = tensor.dl_tensor();
  if (t.ndim != N) throw std::runtime_error("a tensor of another rank");
  std::array<int64_t, N> shape, order;
  std::array<bool, N> ascend;
  T *lowest = tensor.data<T>(); // throws unless the elements are of the type T and writable
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

// Returns a tensor over the memory of an array of Boost. The array is deleted when the tensor's last reference is released.
template <class T, size_t N>
dlbridge::tensor lend(std::unique_ptr<boost::multi_array<T, N>> array) {
  std::array<int64_t, N> shape, strides;
  std::copy_n(array->shape(), N, shape.begin());
  std::copy_n(array->strides(), N, strides.begin());
  T *origin = array->origin();
  return dlbridge::tensor::lend(origin, shape, std::move(array), strides);
}
