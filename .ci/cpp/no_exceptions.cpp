// A program of two files. One is compiled without exceptions, so that an error in it ends the process; the other with exceptions.
#include <dlbridge.hpp>

#include <cstdio>

bool error_is_caught();

#ifdef DLBRIDGE_NO_EXCEPTIONS
int main() {
  auto x = dlbridge::tensor::lend(std::vector<float>{1, 2, 3, 4}, {2, 2});
  std::printf("%s %d\n", dlbridge::to_string(x.slice({1})).c_str(), static_cast<int>(error_is_caught()));
  std::fflush(stdout);
  auto y = x.reshape({3});
  std::puts("not reached");
}
#else
bool error_is_caught() {
  try {
    return dlbridge::tensor::zeros<float>({-1}).size() == 0;
  } catch (const dlbridge::error &e) {
    return e.code() == DLB_ERROR_LAYOUT;
  }
}
#endif
