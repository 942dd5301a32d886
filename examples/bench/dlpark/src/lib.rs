//! dlpark's paths: loops that the Go program calls, and with the feature `python` a producer for Python.
//! All exports share one memory, of which each holds a count.

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

/// Zeroed memory, exported once and dropped, and let go of.
#[unsafe(no_mangle)]
pub extern "C" fn dlpark_life(n: i64) -> i64 {
    nanoseconds(n, || {
        let elements = Arc::new(vec![0.0; 1024]);
        drop(black_box(export::<DLManagedTensorVersioned>(black_box(&elements))));
    })
}

/// Export, then what a consumer does: take over, validate, view, drop.
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
