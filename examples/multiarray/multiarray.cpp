// multiarray OUT PREFIX HEADER PART...: views the first tensor of a ZIO message as an array of Boost.MultiArray, doubles
// it, sums it into an array of Boost's own, and writes a message of the two to OUT.
#include "multiarray.hpp"

#include <iostream>

template <class Sizes>
static std::string join(const Sizes *sizes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i++) text += (i ? " " : "") + std::to_string(sizes[i]);
  return text;
}

static void run(const char *path, const std::vector<const char *> &files) {
  std::vector<Frame> frames;
  for (auto file : files) frames.push_back(Frame::read(file));
  const void *read = frames.at(2)->data;
  Message message = decode(std::move(frames));
  std::vector<Tensor> tensors;
  tensors.emplace_back(call(dlb_message_tensor_at, message.get(), size_t{0}));

  auto a = view<int32_t, 3>(*tensors[0]);
  std::cout << "int32 of " << join(a.shape(), 3) << " at strides " << join(a.strides(), 3) << '\n';
  std::cout << "on the memory that was read: " << std::boolalpha << (a.data() == read) << '\n';
  using index = decltype(a)::index;
  auto rows = static_cast<index>(a.shape()[1]), columns = static_cast<index>(a.shape()[2]);
  auto sums = std::make_unique<boost::multi_array<double, 2>>(boost::extents[rows][columns], boost::fortran_storage_order());
  for (auto plane : a)
    for (index i = 0; i < rows; i++)
      for (index j = 0; j < columns; j++) (*sums)[i][j] += plane[i][j] *= 2;

  const void *made = sums->data();
  tensors.push_back(lend(std::move(sums)));
  Message answer = encode(std::move(tensors));
  auto label = call(dlb_message_label, answer.get());
  std::cout << std::string(label.data, label.size) << '\n';
  Frame first(call(dlb_message_frame, answer.get(), size_t{2})), second(call(dlb_message_frame, answer.get(), size_t{3}));
  std::cout << "parts are where the arrays are: " << (first->data == read && second->data == made) << '\n';
  Frame packed(call(dlb_message_encode_packed, answer.get()));
  std::ofstream out(path, std::ios::binary);
  if (!out.write(static_cast<const char *>(packed->data), static_cast<std::streamsize>(packed->size)).flush())
    throw std::runtime_error(std::string("cannot write ") + path);
}

int main(int argc, char **argv) try {
  if (argc < 5) throw std::runtime_error("usage: multiarray OUT PREFIX HEADER PART...");
  run(argv[1], {argv + 2, argv + argc});
  dlb_counters left;
  dlb_counters_read(&left, sizeof left);
  std::cout << "everything is given back: " << (left.exports + left.imports + left.messages == 0) << '\n';
} catch (const std::exception &error) {
  std::cerr << "multiarray: " << error.what() << '\n';
  return 1;
}
