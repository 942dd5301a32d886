// host PLUGIN: calls functions of the plugin as host.c does, with owners and exceptions.
#include <dlbridge.hpp>

#include <dlfcn.h>
#include <iostream>

using function = DLManagedTensorVersioned *(DLManagedTensorVersioned *, dlb_error *);

int main(int argc, char **argv) try {
  if (argc != 2) throw std::runtime_error("usage: host PLUGIN");
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (plugin == nullptr) throw std::runtime_error(dlerror());
  auto cumulate = reinterpret_cast<function *>(dlsym(plugin, "cumulate"));

  auto sums = dlbridge::call(cumulate, dlbridge::tensor::lend(std::vector<float>{1, 2, 3, 4}));
  std::cout << "last two: " << sums.slice({dlbridge::from(-2)}) << '\n';
  try {
    sums = dlbridge::call(cumulate, dlbridge::tensor::zeros<std::int64_t>({4}));
  } catch (const dlbridge::error &error) {
    std::cout << "refused: " << dlb_error_name(error.code()) << '\n';  // what() says why
  }
} catch (const std::exception &error) {
  std::cerr << "host: " << error.what() << '\n';
  return 1;
}
