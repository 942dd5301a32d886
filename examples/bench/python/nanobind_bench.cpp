// A producer made with nanobind. All arrays share the same memory, and each holds a reference to its owner.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace nb = nanobind;

static float elements[1024];

NB_MODULE(nanobind_bench, m) {
  // The reference is kept to the end: a static nb::object would drop it after Python has ended.
  static nb::handle owner = nb::capsule(elements, [](void *) noexcept {}).release();
  m.def("create", [](nb::handle) { return nb::ndarray<nb::array_api, float, nb::shape<1024>>(elements, {1024}, owner); });
}
