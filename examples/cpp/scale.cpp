// scale FACTOR OUT PREFIX HEADER PART...: does the same as ../c/scale.c, in C++17. All objects have owners.
#include "raii.hpp"

#include <algorithm>
#include <iostream>
#include <numeric>

// Returns the first element in memory of a tensor of a message, and the number of its elements. Such a tensor has no gaps,
// but dimensions may be reversed.
static std::pair<float *, int64_t> elements(const DLTensor &t) {
  auto count = std::accumulate(t.shape, t.shape + t.ndim, int64_t{1}, std::multiplies<>());
  auto lowest = static_cast<float *>(t.data);
  for (int d = 0; d < t.ndim && count > 0; d++) lowest += std::min(int64_t{0}, (t.shape[d] - 1) * t.strides[d]);
  return {lowest, count};
}

static void scale(float factor, const char *path, const std::vector<const char *> &files) {
  std::vector<Frame> frames;
  for (auto file : files) frames.push_back(Frame::read(file));
  Message message = decode(std::move(frames));

  std::vector<Tensor> tensors;
  std::vector<const void *> places;
  for (size_t i = 0; i < dlb_message_tensor_count(message.get()); i++) {
    tensors.emplace_back(call(dlb_message_tensor_at, message.get(), i));
    const DLTensor &t = tensors.back()->dl_tensor;
    places.push_back(nullptr);
    if (t.dtype.code != kDLFloat || t.dtype.bits != 32 || t.dtype.lanes != 1) continue;
    auto [x, count] = elements(t);
    std::for_each(x, x + count, [factor](float &v) { v *= factor; });
    if (count > 0) std::cout << "tensor " << i << ": the first of " << count << " elements is " << *static_cast<float *>(t.data) << '\n';
    places.back() = x;
  }
  message.reset(); // the frames stay valid, because the tensors have shares of them

  Message scaled = encode(std::move(tensors));
  for (size_t i = 0; i < places.size(); i++) {
    Frame part(call(dlb_message_frame, scaled.get(), 2 + i));
    if (part->data != nullptr && part->data == places[i]) std::cout << "part " << i << " is the memory that was read\n";
  }
  Frame packed(call(dlb_message_encode_packed, scaled.get()));
  std::ofstream out(path, std::ios::binary);
  if (!out.write(static_cast<const char *>(packed->data), static_cast<std::streamsize>(packed->size)).flush())
    throw std::runtime_error(std::string("cannot write ") + path);
  std::cout << "wrote " << packed->size << " bytes, ";
}

int main(int argc, char **argv) try {
  if (argc < 5) throw std::invalid_argument("usage: scale FACTOR OUT PREFIX HEADER PART...");
  scale(std::stof(argv[1]), argv[2], {argv + 3, argv + argc});
  dlb_counters left;
  dlb_counters_read(&left, sizeof left);
  if (left.exports + left.imports + left.messages != 0) throw std::runtime_error("something was not given back");
  std::cout << "and gave everything back\n";
} catch (const std::exception &error) {
  std::cerr << "scale: " << error.what() << '\n';
  return 1;
}
