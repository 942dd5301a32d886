// Shares memory with Eigen, both ways: an Eigen::Map of a tensor in any layout, and a tensor of an Eigen matrix.
#include <dlbridge.hpp>

#include <Eigen/Core>
#include <iostream>

// Returns a map of a tensor with two dimensions. It is valid as long as the tensor. Strides of a tensor count elements, as
// those of Eigen do.
template <class T>
auto map(const dlbridge::tensor &t) {
  using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;  // column-major: the outer stride is that of the columns
  if (t.ndim() != 2) throw std::invalid_argument("a matrix has two dimensions");
  return Eigen::Map<Matrix, 0, Stride>(t.data<T>(), t.shape(0), t.shape(1), Stride(t.strides()[1], t.strides()[0]));
}

// Returns a tensor on the elements of a matrix, which is moved into it.
template <class T>
dlbridge::tensor lend(Eigen::MatrixX<T> &&matrix) {
  auto owner = std::make_unique<Eigen::MatrixX<T>>(std::move(matrix));  // the elements do not move any more
  auto &m = *owner;
  return dlbridge::tensor::lend(m.data(), {m.rows(), m.cols()}, std::move(owner), {1, m.outerStride()});
}

int main() try {
  auto x = dlbridge::tensor::lend(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});
  auto columns = x.slice({dlbridge::all, dlbridge::every(2)});  // x[:, ::2]
  map<double>(columns) *= 10;
  std::cout << x << '\n';

  Eigen::MatrixXd product = map<double>(x) * map<double>(x).transpose();
  const double *elements = product.data();
  auto y = lend<double>(std::move(product));
  std::cout << y << '\n' << (y.data<double>() == elements ? "on the memory of Eigen\n" : "copied\n");
} catch (const std::exception &error) {
  std::cerr << "eigen: " << error.what() << '\n';
  return 1;
}
