// tensor.c in C++.
#include <dlbridge.hpp>
#include <iostream>

int main() {
  try {
    const auto text = dlbridge::to_string(
        dlbridge::tensor::lend(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}).transpose().convert<std::int32_t>());
    const auto left = dlbridge::counters();
    std::cout << dlb_version() << ": " << text << ", " << left.exports + left.imports << " left\n";
  } catch (const std::exception &e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
