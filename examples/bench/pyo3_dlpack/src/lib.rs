//! A producer made with pyo3-dlpack, which makes legacy capsules. All exports share the same memory, and each holds a
//! reference to it.

use pyo3::prelude::*;
use pyo3_dlpack::{IntoDLPack, TensorInfo, cpu_device, dtype_f32};
use std::sync::{Arc, LazyLock};

static ELEMENTS: LazyLock<Arc<Vec<f32>>> = LazyLock::new(|| Arc::new(vec![0.0; 1024]));

struct Export(Arc<Vec<f32>>);

impl IntoDLPack for Export {
    fn tensor_info(&self) -> TensorInfo {
        let data = self.0.as_ptr().cast_mut().cast();
        TensorInfo::contiguous(data, cpu_device(), dtype_f32(), vec![1024])
    }
}

#[pyclass]
struct Tensor(Arc<Vec<f32>>);

#[pymethods]
impl Tensor {
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let _ = (stream, max_version, dl_device, copy);
        Export(Arc::clone(&self.0)).into_dlpack(py)
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        (1, 0)
    }
}

#[pyfunction]
fn create(_round: &Bound<'_, PyAny>) -> Tensor {
    Tensor(Arc::clone(&ELEMENTS))
}

#[pymodule]
fn pyo3_dlpack_bench(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(create, m)?)
}
