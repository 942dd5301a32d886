// message OUT PREFIX HEADER PART...: does the same as ../c/message.c, in C++17. All objects have owners.
#include <dlbridge.hpp>

#include <fstream>
#include <iostream>

static dlbridge::frame read(const char *path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(path);
  return dlbridge::frame::lend(std::vector<char>(std::istreambuf_iterator<char>(file), {}));
}

static void run(const char *out, const std::vector<const char *> &files) {
  std::vector<dlbridge::frame> frames;
  for (auto file : files) frames.push_back(read(file));
  auto tensor = dlbridge::message::decode(std::move(frames))[0];  // has a share of its frame, after the message too
  std::cout << "tensor: " << tensor << '\n';

  auto row = tensor.slice({-1}).convert<double>();
  std::cout << "last row: " << row << '\n';

  auto packed = dlbridge::message::encode(std::move(row)).packed();
  std::ofstream file(out, std::ios::binary);
  if (!file.write(reinterpret_cast<const char *>(packed.data()), static_cast<std::streamsize>(packed.size())).flush())
    throw std::runtime_error(out);
}

int main(int argc, char **argv) try {
  if (argc < 4) throw std::runtime_error("usage: message OUT PREFIX HEADER PART...");
  run(argv[1], {argv + 2, argv + argc});
  const dlb_counters left = dlbridge::counters();
  if (left.exports + left.imports + left.messages != 0) throw std::runtime_error("something was not released");
} catch (const std::exception &error) {
  std::cerr << "message: " << error.what() << '\n';
  return 1;
}
