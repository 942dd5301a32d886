/* The functions for TensorFlow: what only this format does. */
#include "values.h"

/* A complex number needs only the alignment of its real part. */
static void a_complex_number_is_the_frames_memory(void) {
  _Alignas(64) unsigned char proto[] = "------\x08\x08\x12\x00\x22\x08 REAL IM";
  dlb_frame frame = {proto + 6, 14, NULL, NULL, 0};
  dlb_value v;
  CHECK_OK(dlb_tensorflow_decode(&v, &frame, 0, &error));
  CHECK_INT(0, v.copied);
  CHECK(v.tensor->dl_tensor.data == proto + 12);
  CHECK(v.tensor->dl_tensor.dtype.code == kDLComplex && v.tensor->dl_tensor.dtype.bits == 64);
  dlb_tensor_release(v.tensor);
  check_nothing_is_left(__func__);
}

/* Elements that the program fills in: in string_val, or in tensor_content. */
static void elements_of_the_callers_are_written(void) {
  static const int64_t shape[] = {2};
  static const dlb_bytes values[] = {{"hello", 5}, {", world!", 8}};
  dlb_elements e = {{"string", 6}, 1, shape, 2, values, NULL};
  dlb_value v = {NULL, &e, 0, 0};
  char out[64];
  size_t size = SIZE_MAX;
  static const char field[] = "\x08\x07\x12\x04\x12\x02\x08\x02\x42\x05hello\x42\x08, world!";
  static const char content[] = "\x08\x07\x12\x04\x12\x02\x08\x02\x22\x0f\x05\x08hello, world!";
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, 0, &error));
  CHECK(size == sizeof field - 1 && memcmp(out, field, size) == 0);
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, DLB_TENSORFLOW_FIELDS, &error));
  CHECK(size == sizeof field - 1 && memcmp(out, field, size) == 0);
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, DLB_TENSORFLOW_CONTENT, &error));
  CHECK(size == sizeof content - 1 && memcmp(out, content, size) == 0);
  check_nothing_is_left(__func__);
}

/* Values that the frame does not contain as they are: the last value stands for all that follow; quantised numbers. */
static void elements_that_the_frame_has_not_are_kept_with_them(void) {
  static const char proto[] = "\x08\x0b\x12\x04\x12\x02\x08\x03\x3a\x02\x05\x07"; /* qint8: 5, 7, 7 in int_val */
  dlb_frame frame = {proto, sizeof proto - 1, NULL, NULL, 0};
  dlb_value v;
  CHECK_OK(dlb_tensorflow_decode(&v, &frame, 0, &error));
  CHECK(is(v.elements->type, "qint8"));
  CHECK_INT(3, v.elements->count);
  CHECK(is(v.elements->values[0], "\5") && is(v.elements->values[2], "\7"));
  char out[64];
  size_t size;
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, 0, &error));
  CHECK(size == 13 && memcmp(out, "\x08\x0b\x12\x04\x12\x02\x08\x03\x22\x03\5\7\7", 13) == 0);
  dlb_elements_free(v.elements);

  CHECK_OK(dlb_tensorflow_decode(&v, &frame, DLB_TENSORFLOW_INTEGERS | DLB_TENSORFLOW_LENIENT, &error));
  CHECK(v.elements == NULL);
  CHECK_INT(1, v.copied);
  CHECK(v.tensor->dl_tensor.dtype.code == kDLInt && v.tensor->dl_tensor.dtype.bits == 8);
  CHECK(memcmp(v.tensor->dl_tensor.data, "\5\7\7", 3) == 0);
  dlb_tensor_release(v.tensor);

  static const char many[] = "\x08\x03\x12\x04\x12\x02\x08\x01\x3a\x02\x05\x07"; /* two values for one element */
  frame = (dlb_frame){many, sizeof many - 1, NULL, NULL, 0};
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_tensorflow_decode(&v, &frame, 0, &error));
  CHECK_OK(dlb_tensorflow_decode(&v, &frame, DLB_TENSORFLOW_LENIENT, &error));
  CHECK_INT(5, *(int32_t *)v.tensor->dl_tensor.data);
  dlb_tensor_release(v.tensor);
  check_nothing_is_left(__func__);
}

/* In TensorFlow each element smaller than a byte takes a byte of its own. */
static void small_elements_are_padded(void) {
  static const char proto[] = "\x08\x1d\x12\x04\x12\x02\x08\x02\x22\x02\x0f\x07"; /* int4 */
  dlb_frame frame = {proto, sizeof proto - 1, NULL, NULL, 0};
  dlb_value v;
  CHECK_OK(dlb_tensorflow_decode(&v, &frame, 0, &error));
  CHECK_INT(DLPACK_FLAG_BITMASK_READ_ONLY | DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, v.tensor->flags);
  CHECK_INT(4, v.tensor->dl_tensor.dtype.bits);
  CHECK(v.tensor->dl_tensor.data == proto + 10);
  char out[64];
  size_t size;
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, 0, &error));
  CHECK(size == frame.size && memcmp(out, proto, size) == 0);
  dlb_tensor_release(v.tensor);
  check_nothing_is_left(__func__);
}

/* With PAD the elements are aligned if the buffer is, and decoded without a copy. */
static void padded_elements_are_the_frames_memory(void) {
  float data[6] = {0, 3, 1, 4, 2, 5};
  static const float row_major[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {2, 3}, strides[] = {1, 2};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes);
  made.dl_tensor.strides = strides;
  dlb_value v = {&made, NULL, 0, 0};
  size_t size = SIZE_MAX;
  _Alignas(64) char proto[192];
  CHECK_OK(dlb_tensorflow_encode(&size, NULL, 0, &v, DLB_TENSORFLOW_PAD, &error));
  CHECK_INT(64 + 24, size);
  CHECK_OK(dlb_tensorflow_encode(&size, proto, sizeof proto, &v, DLB_TENSORFLOW_PAD, &error));
  CHECK_INT(64 + 24, size);
  CHECK(memcmp(proto + 64, row_major, 24) == 0);
  dlb_frame frame = {proto, size, NULL, NULL, 0};
  dlb_value again;
  CHECK_OK(dlb_tensorflow_decode(&again, &frame, 0, &error));
  CHECK(again.tensor->dl_tensor.data == proto + 64);
  dlb_tensor_release(again.tensor);
  CHECK_OK(dlb_tensorflow_encode(&size, NULL, 0, &v, DLB_TENSORFLOW_FIELDS, &error));
  CHECK_INT(2 + 2 + 8 + 2 + 24, size);
  CHECK_INT(0, deletes);
  check_nothing_is_left(__func__);
}

static void refusals(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3}, one[] = {1};
  int deletes = 0;
  DLManagedTensorVersioned good = made_by_producer(data, shape, &deletes), half = good;
  half.dl_tensor.dtype.bits = 16;
  const dlb_bytes value = {"x", 1}, no_text = {"\xff", 1};
  dlb_elements image = {{"image", 5}, 1, one, 1, &value, NULL}, bytes = {{"string", 6}, 1, one, 1, &no_text, NULL};
  dlb_value v = {&good, NULL, 0, 0};
  char room[256];
  size_t size;
  CHECK_OK(dlb_tensorflow_encode(&size, room, sizeof room, &(dlb_value){.tensor = &half}, 0, &error));
  CHECK_OK(dlb_tensorflow_encode(&size, room, sizeof room, &(dlb_value){.elements = &bytes}, 0, &error));
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_tensorflow_encode(&size, room, sizeof room, &(dlb_value){.elements = &image}, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensorflow_encode(&size, room, sizeof room, &v, 8, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensorflow_encode(&size, room, sizeof room, &v, 3, &error));
  CHECK_INT(0, size);
  dlb_frame frame = {"", 0, NULL, NULL, 0};
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensorflow_decode(&v, &frame, 4, &error));
  check_zero(&v, sizeof v);
  v.tensor = &good;
  int64_t many[] = {1 << 20, 1 << 20}, nowhere[] = {0, 0}; /* one element for all: it is neither assembled nor read */
  good.dl_tensor.shape = many;
  good.dl_tensor.strides = nowhere;
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_tensorflow_encode(&size, room, sizeof room, &v, DLB_TENSORFLOW_FIELDS, &error));
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_tensorflow_encode(&size, room, sizeof room, &v, 0, &error));
  CHECK_INT(0, size);
  many[0] = (1 << 9) - 1; /* a little less than 2 GiB */
  CHECK_CODE(DLB_ERROR_ROOM, dlb_tensorflow_encode(&size, room, sizeof room, &v, 0, &error));
  CHECK(size > (INT64_C(1) << 31) - (1 << 23));
  CHECK_INT(0, deletes);
  check_nothing_is_left(__func__);
}

int main(void) {
  a_complex_number_is_the_frames_memory();
  elements_of_the_callers_are_written();
  elements_that_the_frame_has_not_are_kept_with_them();
  small_elements_are_padded();
  padded_elements_are_the_frames_memory();
  refusals();
  return 0;
}
