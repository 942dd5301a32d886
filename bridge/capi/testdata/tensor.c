/* The tensor functions, on valid and hostile input. No message function is called, so that the program
 * also links with the C sources alone. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static void alloc_gives_aligned_zeroed_memory(void) {
  DLManagedTensorVersioned *t = (void *)-1;
  int64_t shape[] = {3, 0, 5};
  for (int64_t n = 0; n < 4; n++) {
    shape[1] = n;
    CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 3, shape, &error));
    CHECK_INT(DLPACK_MAJOR_VERSION, t->version.major);
    CHECK_INT(3, t->version.minor);
    CHECK_INT(0, t->flags);
    CHECK(t->deleter != NULL);
    CHECK_INT(kDLCPU, t->dl_tensor.device.device_type);
    CHECK_INT(0, t->dl_tensor.device.device_id);
    CHECK_INT(0, t->dl_tensor.byte_offset);
    CHECK_INT(3, t->dl_tensor.ndim);
    CHECK(t->dl_tensor.shape != shape);
    CHECK_INT(n, t->dl_tensor.shape[1]);
    CHECK_INT(1, t->dl_tensor.strides[2]);
    CHECK_INT(5, t->dl_tensor.strides[1]);
    if (n == 0) {
      CHECK(t->dl_tensor.data == NULL);
    } else {
      CHECK_INT(5 * n, t->dl_tensor.strides[0]);
      CHECK_INT(0, (uintptr_t)t->dl_tensor.data % 256);
      float *values = t->dl_tensor.data;
      for (int64_t i = 0; i < 15 * n; i++) CHECK(values[i] == 0);
      values[15 * n - 1] = 1;
    }
    int64_t nbytes = -1;
    CHECK_OK(dlb_tensor_nbytes(&nbytes, t, &error));
    CHECK_INT(60 * n, nbytes);
    CHECK_OK(dlb_tensor_validate(t, &error));
    dlb_tensor_release(t);
  }
  CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 0, NULL, &error));
  CHECK_INT(0, t->dl_tensor.ndim);
  CHECK(*(float *)t->dl_tensor.data == 0);
  t->deleter(t);
}

static void alloc_carries_every_rank(void) {
  int64_t shape[256];
  for (int32_t d = 0; d < 256; d++) shape[d] = d % 100 == 0 ? 2 : 1;
  for (int32_t ndim = 0; ndim <= 256; ndim++) {
    DLManagedTensorVersioned *t;
    CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, ndim, shape, &error));
    CHECK_INT(ndim, t->dl_tensor.ndim);
    for (int32_t d = 0; d < ndim; d++) CHECK_INT(shape[d], t->dl_tensor.shape[d]);
    CHECK_OK(dlb_tensor_validate(t, &error));
    dlb_tensor_release(t);
  }
}

static void alloc_refuses_nonsense(void) {
  static const struct {
    int32_t code;
    DLDataType dtype;
    int32_t ndim;
    int64_t shape[4];
  } rows[] = {
      {DLB_ERROR_LAYOUT, {kDLFloat, 32, 1}, -1, {1, 1, 1, 1}},
      {DLB_ERROR_LAYOUT, {kDLFloat, 32, 1}, 257, {1, 1, 1, 1}},
      {DLB_ERROR_LAYOUT, {kDLFloat, 32, 1}, INT32_MAX, {1, 1, 1, 1}},
      {DLB_ERROR_LAYOUT, {kDLFloat, 32, 1}, 2, {3, -1, 1, 1}},
      {DLB_ERROR_LAYOUT, {kDLFloat, 32, 1}, 2, {0, INT64_MIN, 1, 1}},
      {DLB_ERROR_OVERFLOW, {kDLFloat, 32, 1}, 2, {INT64_C(1) << 32, INT64_C(1) << 32, 1, 1}},
      {DLB_ERROR_OVERFLOW, {kDLFloat, 32, 1}, 1, {INT64_C(1) << 61, 1, 1, 1}},
      {DLB_ERROR_MEMORY, {kDLUInt, 8, 1}, 1, {INT64_MAX, 1, 1, 1}},
      {DLB_ERROR_MEMORY, {kDLFloat, 64, 1}, 1, {INT64_C(1) << 59, 1, 1, 1}},
      {DLB_ERROR_DTYPE, {kDLFloat, 80, 1}, 1, {1, 1, 1, 1}},
      {DLB_ERROR_DTYPE, {kDLFloat, 128, 1}, 1, {1, 1, 1, 1}},
      {DLB_ERROR_DTYPE, {kDLBool, 1, 1}, 1, {1, 1, 1, 1}},
      {DLB_ERROR_DTYPE, {kDLFloat, 32, 0}, 1, {1, 1, 1, 1}},
      {DLB_ERROR_DTYPE, {99, 32, 1}, 1, {1, 1, 1, 1}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    DLManagedTensorVersioned *t = (void *)-1;
    CHECK_CODE(rows[i].code, dlb_tensor_alloc(&t, rows[i].dtype, rows[i].ndim, rows[i].shape, &error));
    CHECK(t == NULL);
  }
  DLManagedTensorVersioned *t = (void *)-1;
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_alloc(NULL, FLOAT32, 0, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_alloc(&t, FLOAT32, 1, NULL, &error));
  CHECK(t == NULL);
  CHECK_INT(DLB_ERROR_NULL, dlb_tensor_alloc(&t, FLOAT32, 1, NULL, NULL));
}

static void lend_shares_the_memory_and_gives_it_back(void) {
  float data[12] = {0};
  int64_t shape[] = {2, 3}, strides[] = {-6, 2};
  DLTensor view = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1},
                   .shape = shape, .strides = strides, .byte_offset = 24};
  int released = 0;
  DLManagedTensorVersioned *t = (void *)-1;
  CHECK_OK(dlb_tensor_lend(&t, &view, DLPACK_FLAG_BITMASK_READ_ONLY, count_release, &released, &error));
  CHECK(t->dl_tensor.data == data + 6);
  CHECK_INT(0, t->dl_tensor.byte_offset);
  CHECK_INT(DLPACK_FLAG_BITMASK_READ_ONLY, t->flags);
  CHECK_INT(-6, t->dl_tensor.strides[0]);
  CHECK_INT(2, t->dl_tensor.strides[1]);
  shape[0] = strides[0] = 99; /* copied */
  CHECK_INT(2, t->dl_tensor.shape[0]);
  CHECK_INT(-6, t->dl_tensor.strides[0]);
  data[0] = 7;
  CHECK(((float *)t->dl_tensor.data)[t->dl_tensor.strides[0]] == 7);
  ((float *)t->dl_tensor.data)[2] = 8;
  CHECK(data[8] == 8);
  CHECK_INT(0, released);
  /* The deleter trusts nothing that a consumer can change. */
  memset(&t->dl_tensor, 0xff, sizeof t->dl_tensor);
  t->flags = ~UINT64_C(0);
  t->manager_ctx = NULL;
  errno = 1234;
  t->deleter(t);
  CHECK_INT(1234, errno);
  CHECK_INT(1, released);
  t->deleter(t); /* a repeated call is ignored */
  CHECK_INT(1, released);
}

static void lend_without_release_or_elements(void) {
  int64_t shape[] = {0, 3};
  DLTensor view = {.device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  DLManagedTensorVersioned *t;
  int released = 0;
  CHECK_OK(dlb_tensor_lend(&t, &view, 0, count_release, &released, &error));
  CHECK(t->dl_tensor.data == NULL);
  CHECK(t->dl_tensor.strides != NULL);
  dlb_tensor_release(t);
  CHECK_INT(1, released);
  float one = 1;
  view.data = &one;
  view.ndim = 0;
  view.shape = NULL;
  CHECK_OK(dlb_tensor_lend(&t, &view, 0, NULL, NULL, &error));
  CHECK(t->dl_tensor.data == &one);
  CHECK(t->deleter != NULL);
  dlb_tensor_release(t);
}

/* Each row makes one field of a valid description invalid. */
static void hostile_descriptions_are_refused_everywhere(void) {
  static float data[8];
  static int64_t good[] = {2, 3}, negative[] = {2, -3}, huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
  static int64_t far[] = {INT64_MAX, 1}, wide[] = {INT64_C(1) << 62, 1};
  const struct {
    const char *name;
    int32_t code;
    DLTensor view;
  } rows[] = {
      {"data NULL", DLB_ERROR_NULL, {NULL, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, good, NULL, 0}},
      {"shape NULL", DLB_ERROR_NULL, {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, NULL, NULL, 0}},
      {"rank -1", DLB_ERROR_LAYOUT, {data, {kDLCPU, 0}, -1, {kDLFloat, 32, 1}, good, NULL, 0}},
      {"rank 257", DLB_ERROR_LAYOUT, {data, {kDLCPU, 0}, 257, {kDLFloat, 32, 1}, good, NULL, 0}},
      {"size -3", DLB_ERROR_LAYOUT, {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, negative, NULL, 0}},
      {"2^80 elements", DLB_ERROR_OVERFLOW, {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, huge, NULL, 0}},
      {"stride 2^63-1", DLB_ERROR_OVERFLOW, {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, good, far, 0}},
      {"stride 2^62", DLB_ERROR_OVERFLOW, {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, good, wide, 0}},
      {"offset 2^64-1", DLB_ERROR_OVERFLOW, {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, good, NULL, UINT64_MAX}},
      {"code 200", DLB_ERROR_DTYPE, {data, {kDLCPU, 0}, 2, {200, 32, 1}, good, NULL, 0}},
      {"no lanes", DLB_ERROR_DTYPE, {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 0}, good, NULL, 0}},
      {"packed, permuted", DLB_ERROR_LAYOUT, {data, {kDLCPU, 0}, 2, {kDLInt, 4, 1}, good, good, 0}},
      {"shape at an odd address", DLB_ERROR_UNALIGNED,
       {data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, (int64_t *)((char *)good + 1), NULL, 0}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int released = 0;
    DLManagedTensorVersioned *out = (void *)-1, managed = {.version = {1, 3}};
    DLManagedTensor *legacy_out = (void *)-1, legacy = {.deleter = count_legacy};
    CHECK_CODE(rows[i].code, dlb_tensor_lend(&out, &rows[i].view, 0, count_release, &released, &error));
    CHECK(out == NULL);
    managed.dl_tensor = legacy.dl_tensor = rows[i].view;
    managed.manager_ctx = legacy.manager_ctx = &released;
    managed.deleter = count_versioned;
    int64_t nbytes = -1;
    CHECK_CODE(rows[i].code, dlb_tensor_validate(&managed, &error));
    CHECK_CODE(rows[i].code, dlb_tensor_nbytes(&nbytes, &managed, &error));
    CHECK_INT(0, nbytes);
    out = (void *)-1;
    CHECK_CODE(rows[i].code, dlb_tensor_copy(&out, &managed, &error));
    CHECK(out == NULL);
    CHECK_CODE(rows[i].code, dlb_tensor_to_legacy(&legacy_out, &managed, &error));
    CHECK(legacy_out == NULL);
    out = (void *)-1;
    CHECK_CODE(rows[i].code, dlb_tensor_from_legacy(&out, &legacy, 0, &error));
    CHECK(out == NULL);
    CHECK_INT(0, released); /* on error nothing moved */
  }
  int released = 0;
  DLManagedTensorVersioned *out;
  DLTensor without_device = {.data = data, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = good};
  CHECK_CODE(DLB_ERROR_DEVICE, dlb_tensor_lend(&out, &without_device, 0, count_release, &released, &error));
  CHECK(out == NULL && released == 0);
}

static void versions_that_are_not_ours_are_refused(void) {
  float data[6];
  int64_t shape[] = {2, 3};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes);
  made.version.minor = 99; /* a later minor version is fine */
  CHECK_OK(dlb_tensor_validate(&made, &error));
  static const uint32_t majors[] = {0, 2, UINT32_MAX};
  for (int i = 0; i < 3; i++) {
    made.version.major = majors[i];
    DLManagedTensor *legacy = (void *)-1;
    DLManagedTensorVersioned *copy = (void *)-1;
    CHECK_CODE(DLB_ERROR_VERSION, dlb_tensor_validate(&made, &error));
    CHECK_CODE(DLB_ERROR_VERSION, dlb_tensor_to_legacy(&legacy, &made, &error));
    CHECK_CODE(DLB_ERROR_VERSION, dlb_tensor_copy(&copy, &made, &error));
    CHECK(legacy == NULL && copy == NULL);
  }
  CHECK_INT(0, deletes);
}

static void copy_is_row_major_and_apart(void) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {3, 2}, strides[] = {1, 3};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes), *copy = (void *)-1;
  made.dl_tensor.strides = strides;
  made.flags = DLPACK_FLAG_BITMASK_READ_ONLY | UINT64_C(1) << 40;
  CHECK_OK(dlb_tensor_copy(&copy, &made, &error));
  CHECK_INT(DLPACK_FLAG_BITMASK_IS_COPIED, copy->flags);
  const float *values = copy->dl_tensor.data;
  CHECK(values != data);
  CHECK_INT(0, (uintptr_t)values % 256);
  for (int i = 0; i < 6; i++) CHECK(values[i] == data[i % 2 * 3 + i / 2]);
  CHECK_INT(2, copy->dl_tensor.strides[0]);
  data[0] = 99;
  CHECK(values[0] == 0);
  dlb_tensor_release(copy);
  CHECK_INT(0, deletes);
  made.dl_tensor.device.device_type = kDLCUDA;
  CHECK_CODE(DLB_ERROR_DEVICE, dlb_tensor_copy(&copy, &made, &error));
  CHECK(copy == NULL);

  uint8_t nibbles[] = {0x21, 0x43, 0x05};
  int64_t five[] = {5};
  made.dl_tensor.device.device_type = kDLCPU;
  made.dl_tensor = (DLTensor){nibbles, {kDLCPU, 0}, 1, {kDLInt, 4, 1}, five, NULL, 0};
  made.flags = 0;
  int64_t nbytes = 0;
  CHECK_OK(dlb_tensor_nbytes(&nbytes, &made, &error));
  CHECK_INT(3, nbytes);
  made.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  CHECK_OK(dlb_tensor_nbytes(&nbytes, &made, &error));
  CHECK_INT(5, nbytes);
  made.flags = 0;
  CHECK_OK(dlb_tensor_copy(&copy, &made, &error));
  CHECK(memcmp(copy->dl_tensor.data, nibbles, 3) == 0);
  dlb_tensor_release(copy);
}

static void legacy_both_ways(void) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {2, 3};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes), *back = (void *)-1;
  DLManagedTensor *legacy = (void *)-1;
  CHECK_OK(dlb_tensor_to_legacy(&legacy, &made, &error));
  CHECK(legacy->dl_tensor.data == data);
  CHECK_INT(3, legacy->dl_tensor.strides[0]); /* never NULL */
  CHECK_INT(0, deletes);
  CHECK_OK(dlb_tensor_from_legacy(&back, legacy, DLPACK_FLAG_BITMASK_READ_ONLY, &error));
  CHECK(back->dl_tensor.data == data);
  CHECK_INT(DLPACK_FLAG_BITMASK_READ_ONLY, back->flags);
  CHECK_INT(0, deletes);
  CHECK_CODE(DLB_ERROR_READONLY, dlb_tensor_to_legacy(&legacy, back, &error));
  CHECK(legacy == NULL);
  CHECK_INT(0, deletes);
  dlb_tensor_release(back);
  CHECK_INT(1, deletes);

  made.dl_tensor.dtype = (DLDataType){kDLInt, 4, 1};
  made.flags = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_tensor_to_legacy(&legacy, &made, &error));
  made.dl_tensor.dtype = FLOAT32; /* the flag has no meaning for elements of whole bytes */
  CHECK_OK(dlb_tensor_to_legacy(&legacy, &made, &error));
  legacy->deleter(legacy);
  CHECK_INT(2, deletes);

  DLManagedTensor old = {.dl_tensor = made.dl_tensor, .manager_ctx = &deletes, .deleter = NULL};
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_from_legacy(&back, &old, UINT64_C(1) << 40, &error));
  CHECK_OK(dlb_tensor_from_legacy(&back, &old, 0, &error)); /* nothing to call */
  dlb_tensor_release(back);
  CHECK_INT(2, deletes);
}

/* Every function refuses a tensor that its caller no longer owns. */
static void check_not_ours(DLManagedTensorVersioned *t, const char *why) {
  DLManagedTensor *old;
  DLManagedTensorVersioned *copy;
  int64_t nbytes;
  dlb_error error;
  CHECK_INT(DLB_ERROR_ARGUMENT, dlb_tensor_to_legacy(&old, t, &error));
  CHECK(old == NULL && strstr(error.message, why) != NULL);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_copy(&copy, t, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_validate(t, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_nbytes(&nbytes, t, &error));
}

/* A tensor of the library is taken over once. Its former owner cannot end it either. */
static void tensors_are_taken_over_once(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  DLTensor view = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = FLOAT32, .shape = shape};
  DLManagedTensorVersioned *t, *back, *none;
  DLManagedTensor *old;
  int released = 0;
  CHECK_OK(dlb_tensor_lend(&t, &view, 0, count_release, &released, &error));
  t->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  CHECK_CODE(DLB_ERROR_READONLY, dlb_tensor_to_legacy(&old, t, &error));
  t->flags = 0;
  CHECK_OK(dlb_tensor_validate(t, &error)); /* after an error the caller still owns it */
  CHECK_OK(dlb_tensor_to_legacy(&old, t, &error));
  check_not_ours(t, "taken over");
  dlb_tensor_release(t);
  t->deleter(t);
  CHECK_INT(0, released);
  ((float *)old->dl_tensor.data)[5] = 42;
  CHECK(data[5] == 42);

  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_from_legacy(&back, old, UINT64_C(1) << 40, &error));
  CHECK_OK(dlb_tensor_from_legacy(&back, old, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_from_legacy(&none, old, 0, &error));
  old->deleter(old);
  check_not_ours(t, "taken over");
  CHECK_INT(0, released);
  dlb_tensor_release(back);
  CHECK_INT(1, released);
  check_not_ours(t, "released");
  check_not_ours(back, "released");
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_from_legacy(&none, old, 0, &error));
  dlb_tensor_release(back);
  CHECK_INT(1, released);
}

/* A copy of the struct may be read, but only the tensor itself is taken over and released. */
static void copies_of_the_struct_are_not_taken_over(void) {
  DLManagedTensorVersioned *t, *none, copy;
  DLManagedTensor *old, old_copy;
  int64_t shape[] = {2, 3}, nbytes;
  CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 2, shape, &error));
  copy = *t;
  CHECK_OK(dlb_tensor_nbytes(&nbytes, &copy, &error));
  CHECK_INT(24, nbytes);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_to_legacy(&old, &copy, &error));
  dlb_tensor_release(&copy);
  CHECK_OK(dlb_tensor_to_legacy(&old, t, &error));
  old_copy = *old;
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_from_legacy(&none, &old_copy, 0, &error));
  old->deleter(old);
}

/* Device memory is exported unchanged: it is not accessed, and its address and offset are not added. */
static void device_memory_is_carried(void) {
  int64_t shape[] = {2, 3};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer((float *)0x10, shape, &deletes);
  made.dl_tensor.device = (DLDevice){kDLCUDA, 3};
  made.dl_tensor.byte_offset = 512;
  DLManagedTensor *legacy;
  CHECK_OK(dlb_tensor_to_legacy(&legacy, &made, &error));
  CHECK_INT(0x10, (uintptr_t)legacy->dl_tensor.data);
  CHECK_INT(512, legacy->dl_tensor.byte_offset);
  CHECK_INT(3, legacy->dl_tensor.device.device_id);
  legacy->deleter(legacy);
  CHECK_INT(1, deletes);
}

static void null_and_misaligned_arguments(void) {
  DLManagedTensorVersioned *out = (void *)-1;
  DLManagedTensor *legacy = (void *)-1;
  int64_t nbytes = -1;
  float one = 1;
  DLTensor view = {.data = &one, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}};
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_lend(NULL, &view, 0, NULL, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_lend(&out, NULL, 0, NULL, NULL, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_lend(&out, &view, 8, NULL, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_copy(NULL, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_copy(&out, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_validate(NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_nbytes(NULL, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_nbytes(&nbytes, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_to_legacy(NULL, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_to_legacy(&legacy, NULL, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_from_legacy(NULL, NULL, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_from_legacy(&out, NULL, 0, &error));
  CHECK(out == NULL && legacy == NULL);
  CHECK_INT(0, nbytes);
  static char room[sizeof(DLManagedTensorVersioned) + 8];
  DLManagedTensorVersioned *odd = (void *)(room + 8 - (uintptr_t)room % 8 + 1);
  CHECK_CODE(DLB_ERROR_UNALIGNED, dlb_tensor_validate(odd, &error));
  CHECK_CODE(DLB_ERROR_UNALIGNED, dlb_tensor_from_legacy(&out, (void *)odd, 0, &error));
  CHECK_INT(DLB_ERROR_NULL, dlb_tensor_validate(NULL, NULL));
  dlb_tensor_release(NULL);
  DLManagedTensorVersioned unowned = {.version = {1, 0}};
  dlb_tensor_release(&unowned);
}

static void errors_have_names_and_places(void) {
  for (int32_t code = DLB_OK; code <= DLB_ERROR_METADATA; code++) {
    CHECK(strcmp(dlb_error_name(code), "unknown") != 0);
    for (int32_t other = DLB_OK; other < code; other++)
      CHECK(strcmp(dlb_error_name(code), dlb_error_name(other)) != 0);
  }
  CHECK(strcmp(dlb_error_name(DLB_ERROR_METADATA + 1), "unknown") == 0);
  CHECK(strcmp(dlb_error_name(-1), "unknown") == 0);
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", DLB_VERSION_MAJOR, DLB_VERSION_MINOR, DLB_VERSION_PATCH);
  CHECK(strcmp(dlb_version(), version) == 0);

  int64_t shape[] = {2, -3};
  DLManagedTensorVersioned *t;
  dlb_error error;
  CHECK_INT(DLB_ERROR_LAYOUT, dlb_tensor_alloc(&t, FLOAT32, 2, shape, &error));
  CHECK(strcmp(error.message, "dlb_tensor_alloc: tensor: shape[1] is -3, must not be negative") == 0);
  shape[1] = 3;
  CHECK_INT(DLB_ERROR_DTYPE, dlb_tensor_alloc(&t, (DLDataType){0}, 2, shape, &error));
  CHECK(strcmp(error.message, "dlb_tensor_alloc: tensor: dtype = (code 0, bits 0, lanes 0): int has 2, 4, 8, 16, 32, 64 bits, not 0; it is not "
                              "set: {kDLFloat, 32, 1} is float32") == 0);
}

enum { THREADS = 8, ROUNDS = 2000 };

static void *make_and_delete(void *ctx) {
  int64_t shape[] = {16};
  for (int i = 0; i < ROUNDS; i++) {
    DLManagedTensorVersioned *t, *lent;
    DLManagedTensor *legacy;
    CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 1, shape, &error));
    CHECK_OK(dlb_tensor_lend(&lent, &t->dl_tensor, 0, count_release, ctx, &error));
    CHECK_OK(dlb_tensor_to_legacy(&legacy, lent, &error));
    ((float *)legacy->dl_tensor.data)[i % 16] = 1;
    legacy->deleter(legacy);
    t->deleter(t);
  }
  return NULL;
}

static void threads_make_and_delete_at_once(void) {
  pthread_t threads[THREADS];
  int released = 0;
  for (int i = 0; i < THREADS; i++)
    CHECK_INT(0, pthread_create(&threads[i], NULL, make_and_delete, &released));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK_INT(THREADS * ROUNDS, released);
}

static void *delete_them(void *tensors) {
  for (DLManagedTensorVersioned **t = tensors; *t != NULL; t++) (*t)->deleter(*t);
  return NULL;
}

/* 8 threads that have made none of the tensors call the deleters. */
static void threads_delete_what_another_made(void) {
  static DLManagedTensorVersioned *tensors[THREADS][ROUNDS + 1];
  float data[16];
  int64_t shape[] = {16};
  DLTensor view = {.data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  int released = 0;
  for (int i = 0; i < THREADS; i++) {
    for (int k = 0; k < ROUNDS; k++)
      CHECK_OK(dlb_tensor_lend(&tensors[i][k], &view, 0, count_release, &released, &error));
  }
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    CHECK_INT(0, pthread_create(&threads[i], NULL, delete_them, tensors[i]));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  CHECK_INT(THREADS * ROUNDS, released);
}

/* Tensors that were made before a fork, and tensors that are made after it. */
static void a_forked_child_makes_and_deletes(void) {
  DLManagedTensorVersioned *inherited;
  int64_t shape[] = {16};
  CHECK_OK(dlb_tensor_alloc(&inherited, FLOAT32, 1, shape, &error));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20);
    ((float *)inherited->dl_tensor.data)[0] = 5;
    inherited->deleter(inherited);
    alloc_gives_aligned_zeroed_memory();
    lend_shares_the_memory_and_gives_it_back();
    copy_is_row_major_and_apart();
    legacy_both_ways();
    _exit(0);
  }
  int status = -1;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(((float *)inherited->dl_tensor.data)[0] == 0);
  dlb_tensor_release(inherited);
}

/* A process may be forked while another thread exports. */
static int enough;

static void *export_until_enough(void *ctx) {
  (void)ctx;
  int64_t shape[] = {16};
  while (!__atomic_load_n(&enough, __ATOMIC_RELAXED)) {
    DLManagedTensorVersioned *t;
    CHECK_OK(dlb_tensor_alloc(&t, FLOAT32, 1, shape, &error));
    t->deleter(t);
  }
  return NULL;
}

/* The memory that is lent has another size than the allocations of the other threads: AddressSanitizer's allocator has a
 * lock for each size, which another thread may have held during the fork. */
static void lend_again_and_again(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3};
  DLTensor view = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = FLOAT32, .shape = shape};
  for (int i = 1; i <= 10; i++) {
    DLManagedTensorVersioned *t;
    int released = 0;
    CHECK_OK(dlb_tensor_lend(&t, &view, 0, count_release, &released, &error));
    t->deleter(t);
    CHECK_INT(1, released);
  }
}

static void a_child_forked_amid_exports_makes_and_deletes(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    CHECK_INT(0, pthread_create(&threads[i], NULL, export_until_enough, NULL));
  for (int i = 0; i < 50; i++) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
      alarm(20);
      lend_again_and_again();
      execlp("true", "true", NULL); /* memory of the other threads is lost, which is not a leak */
      _exit(1);
    }
    int status = -1;
    CHECK_INT(child, waitpid(child, &status, 0));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  __atomic_store_n(&enough, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

int main(void) {
  alloc_gives_aligned_zeroed_memory();
  alloc_carries_every_rank();
  alloc_refuses_nonsense();
  lend_shares_the_memory_and_gives_it_back();
  lend_without_release_or_elements();
  hostile_descriptions_are_refused_everywhere();
  versions_that_are_not_ours_are_refused();
  copy_is_row_major_and_apart();
  legacy_both_ways();
  device_memory_is_carried();
  null_and_misaligned_arguments();
  errors_have_names_and_places();
  threads_make_and_delete_at_once();
  threads_delete_what_another_made();
  a_forked_child_makes_and_deletes();
  a_child_forked_amid_exports_makes_and_deletes();
  copies_of_the_struct_are_not_taken_over();
  tensors_are_taken_over_once();
  return 0;
}
