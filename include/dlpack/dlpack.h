/* The DLPack 1.3 ABI, re-declared here by the dlbridge project; this is not the upstream file.
 *
 * Names, values, layout and the include guard are those of the standard. So this file is empty if
 * upstream's dlpack.h was included first, and upstream's file can replace it at any time.
 * `make abi` compares the two. The standard explains the fields:
 * https://dmlc.github.io/dlpack/latest/c_api.html
 */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif

/* Linkage of DLL symbols; nothing in this file needs it. */
#if !defined(_WIN32)
#define DLPACK_DLL
#elif defined(DLPACK_EXPORTS)
#define DLPACK_DLL __declspec(dllexport)
#else
#define DLPACK_DLL __declspec(dllimport)
#endif

/* Bits of DLManagedTensorVersioned.flags. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

#ifdef __cplusplus
extern "C" {
#endif

/* Versions with the same major number have the same layout. A larger minor number only adds
 * enumerators and flags. */
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

/* Where memory lies. In C++ the declaration states the 32 bits that C compilers choose by
 * themselves. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3, /* page-locked host memory */
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11, /* page-locked host memory */
  kDLExtDev = 12,   /* for experiments */
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
  kDLTrn = 18,
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

/* Values of DLDataType.code. */
typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U, /* bits count both parts */
  kDLBool = 6U,
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat6_e2m3fn = 15U,
  kDLFloat6_e3m2fn = 16U,
  kDLFloat4_e2m1fn = 17U,
} DLDataTypeCode;

/* The type of an element: `lanes` numbers of `bits` bits each, in native byte order. Elements that
 * do not fill whole bytes are packed from the lowest bit up, unless
 * DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED is set. */
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

/* A view: it describes memory that it does not own. Element (0, ..., 0) starts at data +
 * byte_offset. */
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* in elements; NULL only from producers older than 1.2, meaning row-major */
  uint64_t byte_offset;
} DLTensor;

/* The managed tensor from before DLPack 1.0, without version and flags. `deleter` may be NULL; it
 * also frees the struct. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

/* The managed tensor since DLPack 1.0. The fields up to `flags` keep their place in every major
 * version. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

/* The C exchange API: each Python type has a table, in the capsule `dlpack_exchange_api` of its
 * attribute `__dlpack_c_exchange_api__`. Each function returns 0, or -1 with a Python exception set
 * (the allocator calls SetError instead). No function synchronises a stream. */

/* Makes a tensor in new memory with the dtype, ndim, shape and device of `prototype`; its other
 * fields are ignored. The caller owns *out. */
typedef int (*DLPackManagedTensorAllocator)(DLTensor* prototype, DLManagedTensorVersioned** out,
                                            void* error_ctx,
                                            void (*SetError)(void* error_ctx, const char* kind,
                                                             const char* message));

/* Exports the memory of a Python object, with its flags. The caller owns *out. */
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void* py_object,
                                                     DLManagedTensorVersioned** out);

/* Sets *out to a view of the memory of a Python object. The view is valid until control returns to
 * the object's owner. A view has no flags, so it cannot state that the memory is read-only or that
 * the elements are padded; the managed tensor of the function above can. */
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void* py_object, DLTensor* out);

/* Sets *out_current_stream to the producer's current stream; NULL on the CPU. */
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type, int32_t device_id,
                                       void** out_current_stream);

/* Makes a Python object, which takes over `tensor`. */
typedef int (*DLPackManagedTensorToPyObjectNoSync)(DLManagedTensorVersioned* tensor,
                                                   void** out_py_object);

/* The part of the table that all major versions share. prev_api is an older table, or NULL. */
typedef struct DLPackExchangeAPIHeader {
  DLPackVersion version;
  struct DLPackExchangeAPIHeader* prev_api;
} DLPackExchangeAPIHeader;

/* Only dltensor_from_py_object_no_sync may be NULL. */
typedef struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  DLPackManagedTensorAllocator managed_tensor_allocator;
  DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
  DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
  DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync;
  DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

#ifdef __cplusplus
}
#endif
#endif /* DLPACK_DLPACK_H_ */
