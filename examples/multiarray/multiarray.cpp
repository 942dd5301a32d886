// multiarray OUT PREFIX HEADER PART...: views the first tensor of a ZIO message as an array of Boost.MultiArray, doubles
// it, sums it into an array of Boost's own, and writes a message of the two to OUT.
#include "multiarray.hpp"

#include <fstream>
#include <iostream>

template <class Sizes>
static std::string join(const Sizes *sizes, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; i++) text += (i ? " " : "") + std::to_string(sizes[i]);
  return text;
}

static dlbridge::frame read_frame(const char *path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  return dlbridge::frame::lend(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
}

static void run(const char *path, const std::vector<const char *> &files) {
  std::vector<dlbridge::frame> frames;
  for (auto file : files) frames.push_back(read_frame(file));
  const void *read = frames.at(2).data();
  std::vector<dlbridge::tensor> tensors;
  tensors.push_back(dlbridge::message::decode(std::move(frames))[0]);

  auto a = view<int32_t, 3>(tensors[0]);
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
  auto answer = dlbridge::message::encode(std::move(tensors));
  std::cout << answer.label() << '\n';
  const bool same = answer.frame_at(2).data() == read && answer.frame_at(3).data() == made;
  std::cout << "parts are where the arrays are: " << same << '\n';
  auto packed = answer.packed();
  std::ofstream out(path, std::ios::binary);
  if (!out.write(reinterpret_cast<const char *>(packed.data()), static_cast<std::streamsize>(packed.size())).flush())
    throw std::runtime_error(std::string("cannot write ") + path);
}

int main(int argc, char **argv) try {
  if (argc < 5) throw std::runtime_error("usage: multiarray OUT PREFIX HEADER PART...");
  run(argv[1], {argv + 2, argv + argc});
  const dlb_counters left = dlbridge::counters();
  std::cout << "everything is given back: " << (left.exports + left.imports + left.messages == 0) << '\n';
} catch (const std::exception &error) {
  std::cerr << "multiarray: " << error.what() << '\n';
  return 1;
}
