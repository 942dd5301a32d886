/* Addresses where no memory can be. The cases of dlpack/testdata/addresses.json are read from the standard input, one on
 * each line: data, byte_offset, rank, sizes, whether there are strides, strides, whether the case is valid, name. The
 * argument names a function, which is called with invalid addresses of zero bytes and must accept them. */
#include "formats.h"

static int releases;

static void check_tensor(const DLTensor *view, int good) {
  int32_t want = good ? DLB_OK : DLB_ERROR_OVERFLOW;
  int deletes = 0;
  DLManagedTensorVersioned tensor = {.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                     .manager_ctx = &deletes,
                                     .deleter = count_versioned,
                                     .dl_tensor = *view};
  DLManagedTensor old = {.dl_tensor = *view, .manager_ctx = &deletes, .deleter = count_legacy};
  int64_t nbytes;
  CHECK_CODE(want, dlb_tensor_validate(&tensor, &error));
  CHECK_CODE(want, dlb_tensor_nbytes(&nbytes, &tensor, &error));

  DLManagedTensorVersioned *out;
  DLManagedTensor *legacy;
  CHECK_CODE(want, dlb_tensor_lend(&out, view, 0, count_release, &deletes, &error));
  CHECK((out != NULL) == good);
  dlb_tensor_release(out);
  CHECK_INT(good, deletes);
  CHECK_CODE(want, dlb_tensor_to_legacy(&legacy, &tensor, &error));
  CHECK((legacy != NULL) == good);
  if (legacy != NULL) legacy->deleter(legacy);
  CHECK_INT(2 * good, deletes);
  CHECK_CODE(want, dlb_tensor_from_legacy(&out, &old, 0, &error));
  CHECK((out != NULL) == good);
  dlb_tensor_release(out);
  CHECK_INT(3 * good, deletes);
  if (good) return; /* there is no memory, so that no function may read the elements */

  CHECK_CODE(want, dlb_tensor_copy(&out, &tensor, &error));
  dlb_message *message;
  dlb_message_tensor part = {.tensor = &tensor};
  CHECK_CODE(want, dlb_message_encode(&message, NULL, &part, 1, &error));
  dlb_value value = {.tensor = &tensor};
  size_t size;
  char room[64];
  EACH_FORMAT(f) {
    CHECK_CODE(want, f->encode(&size, room, sizeof room, &value, 0, &error));
    if (f->check != NULL) CHECK_CODE(want, f->check((dlb_bytes){.data = NULL}, &value, &error));
  }
  CHECK_INT(0, deletes);
}

static void check_tensors(void) {
  char name[256], data[32], offset[32];
  int ndim, strided, good;
  int64_t shape[8], strides[8];
  int cases = 0;
  while (scanf("%31s %31s %d", data, offset, &ndim) == 3) {
    CHECK(ndim <= 8);
    for (int d = 0; d < ndim; d++) CHECK_INT(1, scanf("%" SCNd64, &shape[d]));
    CHECK_INT(1, scanf("%d", &strided));
    for (int d = 0; d < ndim * strided; d++) CHECK_INT(1, scanf("%" SCNd64, &strides[d]));
    CHECK_INT(2, scanf("%d %255[^\n]", &good, name));
    printf("%s\n", name);
    fflush(stdout);
    DLTensor view = {.data = (void *)(uintptr_t)strtoull(data, NULL, 0),
                     .device = {kDLCPU, 0},
                     .ndim = ndim,
                     .dtype = FLOAT32,
                     .shape = shape,
                     .strides = strided ? strides : NULL,
                     .byte_offset = strtoull(offset, NULL, 0)};
    check_tensor(&view, good);
    cases++;
  }
  CHECK(cases > 10);
}

/* Passes an address as the bytes of a frame, a label, metadata and rules, and as an output buffer. */
static void check_bytes(uintptr_t address, size_t size) {
  void *data = (void *)address;
  dlb_frame frame = {.data = data, .size = size, .release = count_release, .ctx = &releases};
  dlb_bytes bytes = {.data = data, .size = size};
  dlb_header header = {.form = "TENS"};
  dlb_message *message;
  dlb_value value;
  size_t written;
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_message_decode(&message, &frame, 1, 0, &error));
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_message_decode_packed(&message, &frame, 0, &error));
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_message_encode_parts(&message, &header, (dlb_bytes){.data = NULL}, &frame, 1, &error));
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_message_encode_parts(&message, &header, bytes, NULL, 0, &error));
  dlb_message_fields fields = {.label = bytes};
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_message_encode(&message, &fields, NULL, 0, &error));
  fields = (dlb_message_fields){.metadata = bytes};
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_message_encode(&message, &fields, NULL, 0, &error));
  float element = 1;
  int64_t none = 1;
  int deletes = 0;
  DLManagedTensorVersioned tensor = made_by_producer(&element, &none, &deletes);
  tensor.dl_tensor.ndim = 0;
  dlb_message_tensor part = {.tensor = &tensor, .metadata = bytes};
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_message_encode(&message, NULL, &part, 1, &error));

  dlb_value in = {.tensor = &tensor};
  dlb_bytes text = {.data = "a", .size = 1}, strings = {.data = "string", .size = 6};
  dlb_elements of_type = {.type = bytes, .count = 1, .values = &text}, of_values = {.type = strings, .count = 1, .values = &bytes},
               of_formats = {.type = strings, .count = 1, .values = &text, .formats = &bytes};
  EACH_FORMAT(f) {
    CHECK_CODE(DLB_ERROR_OVERFLOW, f->decode(&value, &frame, 0, &error));
    if (f->decode_batch != NULL) CHECK_CODE(DLB_ERROR_OVERFLOW, f->decode_batch(&value, 1, &(size_t){0}, &frame, 0, 0, &error));
    CHECK_CODE(DLB_ERROR_OVERFLOW, f->encode(&written, data, size, &in, 0, &error));
    if (f->check != NULL) CHECK_CODE(DLB_ERROR_OVERFLOW, f->check(bytes, &in, &error));
    CHECK_CODE(DLB_ERROR_OVERFLOW, f->encode(&written, NULL, 0, &(dlb_value){.elements = &of_type}, 0, &error));
    CHECK_CODE(DLB_ERROR_OVERFLOW, f->encode(&written, NULL, 0, &(dlb_value){.elements = &of_values}, 0, &error));
    CHECK_CODE(DLB_ERROR_OVERFLOW, f->encode(&written, NULL, 0, &(dlb_value){.elements = &of_formats}, 0, &error));
  }
  CHECK_INT(0, releases);
  CHECK_INT(0, deletes);
}

/* Passes invalid addresses of shapes and of tensors. */
static void check_shapes(void) {
  float element = 1;
  int64_t one = 1;
  int deletes = 0;
  DLManagedTensorVersioned tensor = made_by_producer(&element, &one, &deletes);
  tensor.dl_tensor.ndim = 1;
  tensor.dl_tensor.shape = (int64_t *)8;
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_validate(&tensor, &error));
  tensor.dl_tensor.shape = &one;
  tensor.dl_tensor.strides = (int64_t *)4088;
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_validate(&tensor, &error));
  tensor.dl_tensor.ndim = 0;
  CHECK_OK(dlb_tensor_validate(&tensor, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensor_validate((DLManagedTensorVersioned *)8, &error));
  dlb_bytes text = {.data = "a", .size = 1};
  dlb_elements elements = {
      .type = {.data = "string", .size = 6}, .ndim = 1, .shape = (int64_t *)8, .count = 1, .values = &text};
  dlb_value value = {.elements = &elements};
  size_t written;
  EACH_FORMAT(f) CHECK_CODE(DLB_ERROR_OVERFLOW, f->encode(&written, NULL, 0, &value, 0, &error));
}

/* For zero elements, Rust passes the alignment of the type as the address, and C++ may pass any address. */
static void check_nothing(const char *function) {
  dlb_frame *frames = (dlb_frame *)8;
  dlb_bytes nothing = {.data = (char *)1, .size = 0};
  dlb_message *message = NULL;
  dlb_header header = {.form = "ABCD"};
  int64_t none = 1;
  float element = 1;
  int deletes = 0;
  DLManagedTensorVersioned tensor = made_by_producer(&element, &none, &deletes);
  tensor.dl_tensor.ndim = 0;
  tensor.dl_tensor.shape = tensor.dl_tensor.strides = (int64_t *)8;
  dlb_value value = {.tensor = &tensor};
  size_t size = 0;
  if (strcmp(function, "decode") == 0) {
    CHECK_CODE(DLB_ERROR_FORMAT, dlb_message_decode(&message, frames, 0, 0, &error));
  } else if (strcmp(function, "make") == 0) {
    CHECK_OK(dlb_message_encode_parts(&message, &header, nothing, frames, 0, &error));
    CHECK_INT(2, dlb_message_frame_count(message));
  } else if (strcmp(function, "make a part") == 0) {
    dlb_frame part = {.data = (void *)1};
    CHECK_OK(dlb_message_encode_parts(&message, &header, nothing, &part, 1, &error));
    CHECK_INT(3, dlb_message_frame_count(message));
  } else if (strcmp(function, "encode") == 0) {
    dlb_message_fields fields = {.label = nothing, .metadata = nothing};
    CHECK_OK(dlb_message_encode(&message, &fields, (dlb_message_tensor *)8, 0, &error));
    CHECK_INT(0, dlb_message_tensor_count(message));
  } else if (strcmp(function, "encode a tensor") == 0) {
    dlb_message_tensor part = {.tensor = &tensor, .metadata = nothing};
    CHECK_OK(dlb_message_encode(&message, NULL, &part, 1, &error));
    dlb_message_free(message);
    CHECK_INT(1, deletes);
    message = NULL;
  } else if (strcmp(function, "elements") == 0) {
    dlb_elements elements = {.type = {.data = "string", .size = 6}, .shape = (int64_t *)8, .count = 1, .values = &nothing};
    value = (dlb_value){.elements = &elements};
    EACH_FORMAT(f) {
      CHECK_OK(f->encode(&size, NULL, 0, &value, 0, &error));
      CHECK(size > 0);
    }
  } else if (strcmp(function, "formats") == 0) {
    dlb_bytes type = {.data = "image", .size = 5};
    dlb_elements elements = {.type = type, .shape = (int64_t *)8, .count = 1, .values = &nothing, .formats = &nothing};
    value = (dlb_value){.elements = &elements};
    dlb_error error;
    EACH_FORMAT(f) CHECK(f->encode(&size, NULL, 0, &value, f->encodings[2], &error) != DLB_ERROR_INTERNAL);
  } else if (strcmp(function, "no elements") == 0) {
    dlb_elements elements = {.type = {.data = "string", .size = 6}, .ndim = 1, .shape = (int64_t[]){0}, .values = (dlb_bytes *)8};
    value = (dlb_value){.elements = &elements};
    EACH_FORMAT(f) {
      CHECK_OK(f->encode(&size, NULL, 0, &value, 0, &error));
      CHECK(size > 0);
    }
  } else if (strcmp(function, "room") == 0) {
    dlb_bytes text = {.data = "a", .size = 1};
    dlb_elements elements = {.type = {.data = "string", .size = 6}, .ndim = 2, .shape = (int64_t[]){2, 3}, .count = 1, .values = &text};
    value = (dlb_value){.elements = &elements};
    EACH_FORMAT(f) CHECK_CODE(DLB_ERROR_ARGUMENT, f->encode(&size, (void *)1, 0, &value, 0, &error));
  } else if (strcmp(function, "rules") == 0) {
    EACH_FORMAT(f) CHECK(f->check == NULL || f->check(nothing, &value, NULL) != DLB_OK);
  } else {
    CHECK(!"a known function");
  }
  dlb_message_free(message);
}

int main(int argc, char **argv) {
  if (argc > 1) {
    check_nothing(argv[1]);
  } else {
    check_tensors();
    check_bytes(1, 1);
    check_bytes(8, 16);
    check_bytes(4095, 2);
    check_bytes(((uintptr_t)1 << 63) - 8, 9);
    check_bytes((uintptr_t)1 << 63, 1);
    check_bytes(UINTPTR_MAX - 8, 8);
    check_shapes();
  }
  check_nothing_is_left("address");
  return 0;
}
