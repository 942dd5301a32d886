/* abi.c: what abi.h declares, against upstream's c_api.h. It compiles only where both agree. The test that compiles it also
 * requires that every constant of abi.h is here. abi.cc compares what c_api.h declares for C++ only. */
#include <tvm/ffi/c_api.h>

#include "../abi.h"

#define SAME_VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours)
#define SAME_SIZE(ours, theirs) _Static_assert(sizeof(ours) == sizeof(theirs), #ours)
#define SAME_PLACE(ours, our_field, theirs, their_field)                                                   \
  _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #ours "." #our_field);        \
  _Static_assert(sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field), #ours "." #our_field)

SAME_VALUE(FFI_MAJOR, TVM_FFI_VERSION_MAJOR);
SAME_VALUE(FFI_MINOR, TVM_FFI_VERSION_MINOR);

SAME_VALUE(FFI_NONE, kTVMFFINone);
SAME_VALUE(FFI_INT, kTVMFFIInt);
SAME_VALUE(FFI_BOOL, kTVMFFIBool);
SAME_VALUE(FFI_FLOAT, kTVMFFIFloat);
SAME_VALUE(FFI_POINTER, kTVMFFIOpaquePtr);
SAME_VALUE(FFI_DTYPE, kTVMFFIDataType);
SAME_VALUE(FFI_DEVICE, kTVMFFIDevice);
SAME_VALUE(FFI_DLTENSOR, kTVMFFIDLTensorPtr);
SAME_VALUE(FFI_RAW_STRING, kTVMFFIRawStr);
SAME_VALUE(FFI_BYTE_ARRAY, kTVMFFIByteArrayPtr);
SAME_VALUE(FFI_MOVED, kTVMFFIObjectRValueRef);
SAME_VALUE(FFI_SMALL_STRING, kTVMFFISmallStr);
SAME_VALUE(FFI_SMALL_BYTES, kTVMFFISmallBytes);
SAME_VALUE(FFI_UNCHANGED, kTVMFFIUnchanged);
SAME_VALUE(FFI_OBJECT, kTVMFFIStaticObjectBegin);
SAME_VALUE(FFI_STRING, kTVMFFIStr);
SAME_VALUE(FFI_BYTES, kTVMFFIBytes);
SAME_VALUE(FFI_ERROR, kTVMFFIError);
SAME_VALUE(FFI_FUNCTION, kTVMFFIFunction);
SAME_VALUE(FFI_SHAPE, kTVMFFIShape);
SAME_VALUE(FFI_TENSOR, kTVMFFITensor);
SAME_VALUE(FFI_ARRAY, kTVMFFIArray);
SAME_VALUE(FFI_MODULE, kTVMFFIModule);

SAME_SIZE(ffi_object, TVMFFIObject);
SAME_PLACE(ffi_object, references, TVMFFIObject, combined_ref_count);
SAME_PLACE(ffi_object, type, TVMFFIObject, type_index);
SAME_PLACE(ffi_object, deleter, TVMFFIObject, deleter);
SAME_SIZE(ffi_any, TVMFFIAny);
SAME_PLACE(ffi_any, type, TVMFFIAny, type_index);
SAME_PLACE(ffi_any, size, TVMFFIAny, small_str_len);
SAME_PLACE(ffi_any, value.integer, TVMFFIAny, v_int64);
SAME_PLACE(ffi_any, value.number, TVMFFIAny, v_float64);
SAME_PLACE(ffi_any, value.pointer, TVMFFIAny, v_ptr);
SAME_PLACE(ffi_any, value.object, TVMFFIAny, v_obj);
SAME_PLACE(ffi_any, value.dtype, TVMFFIAny, v_dtype);
SAME_PLACE(ffi_any, value.device, TVMFFIAny, v_device);
SAME_PLACE(ffi_any, value.bytes, TVMFFIAny, v_bytes);
SAME_PLACE(ffi_any, value.bits, TVMFFIAny, v_uint64);
SAME_VALUE(FFI_SMALL_MAX, sizeof(((TVMFFIAny *)0)->v_bytes) - 1); /* kMaxSmallBytesLen in string.h: one byte stays free */
SAME_SIZE(ffi_bytes, TVMFFIByteArray);
SAME_PLACE(ffi_bytes, data, TVMFFIByteArray, data);
SAME_PLACE(ffi_bytes, size, TVMFFIByteArray, size);
SAME_PLACE(ffi_error, kind, TVMFFIErrorCell, kind);
SAME_PLACE(ffi_error, message, TVMFFIErrorCell, message);
SAME_PLACE(ffi_error, backtrace, TVMFFIErrorCell, backtrace);
SAME_SIZE(ffi_version, TVMFFIVersion);
SAME_PLACE(ffi_version, major, TVMFFIVersion, major);
SAME_PLACE(ffi_version, minor, TVMFFIVersion, minor);
SAME_PLACE(ffi_version, patch, TVMFFIVersion, patch);

/* Every function, with upstream's types in place of ours: a second declaration must be the same. */
#define ffi_version TVMFFIVersion
#define ffi_call TVMFFISafeCallType
#define ffi_bytes TVMFFIByteArray
#define ffi_any TVMFFIAny
#define DECLARE(result, name, parameters) result TVMFFI##name parameters;
FFI_FUNCTIONS(DECLARE)
_Static_assert(__builtin_types_compatible_p(TVMFFISafeCallType, int (*)(void *, const ffi_any *, int32_t, ffi_any *)), "ffi_call");
_Static_assert(__builtin_types_compatible_p(__typeof__(&TVMFFIErrorSetRaisedFromCStr), ffi_raise_text), "ffi_raise_text");
