//! The paths of dlpark: loops that the Go program calls, and a producer for Python (feature `python`).
//! All exports except those of `dlpark_life` share the same memory, and each holds a reference to it.

use dlpark::ffi::{DLDataType, DLDevice, DLManagedTensorVersioned};
use dlpark::{Managed, ManagedTensorBase, metadata::Fixed};
use std::hint::black_box;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

#[cfg(feature = "python")]
mod python;

static ELEMENTS: LazyLock<Arc<Vec<f32>>> = LazyLock::new(|| Arc::new(vec![0.0; 1024]));

pub(crate) fn export<M: ManagedTensorBase>(elements: &Arc<Vec<f32>>) -> Managed<M> {
    let data = elements.as_ptr().cast_mut().cast();
    let mut tensor = Fixed::new([1024], [1]).initialize_as::<M>(Arc::clone(elements)).unwrap();
    tensor.set_data(data).set_dtype(DLDataType::F32).set_device(DLDevice::CPU);
    unsafe { tensor.finish() }
}

fn nanoseconds(n: i64, mut round: impl FnMut()) -> i64 {
    let start = Instant::now();
    for _ in 0..n {
        round();
    }
    start.elapsed().as_nanos() as i64
}

#[unsafe(no_mangle)]
pub extern "C" fn dlpark_export_drop(n: i64) -> i64 {
    let elements = &*ELEMENTS;
    nanoseconds(n, || drop(black_box(export::<DLManagedTensorVersioned>(black_box(elements)))))
}

/// Allocates zeroed memory, exports it once, and drops the export and the memory.
#[unsafe(no_mangle)]
pub extern "C" fn dlpark_life(n: i64) -> i64 {
    nanoseconds(n, || {
        let elements = Arc::new(vec![0.0; 1024]);
        drop(black_box(export::<DLManagedTensorVersioned>(black_box(&elements))));
    })
}

/// Exports a tensor and then acts as its consumer: takes it over, validates, views and drops it.
#[unsafe(no_mangle)]
pub extern "C" fn dlpark_export_import_drop(n: i64) -> i64 {
    let elements = &*ELEMENTS;
    nanoseconds(n, || {
        let raw = black_box(export::<DLManagedTensorVersioned>(black_box(elements)).into_raw());
        let tensor = unsafe { Managed::from_raw(raw) }.unwrap();
        let view = tensor.validate().unwrap();
        assert_eq!(unsafe { view.cpu_slice::<f32>() }.unwrap().len(), 1024);
    })
}
