/* The functions for Decthings and TensorFlow: ownership at each step, and all errors. */
#include "check.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static int is(dlb_bytes bytes, const char *text) {
  return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static void check_zero(const void *memory, size_t size) {
  for (size_t i = 0; i < size; i++) CHECK_INT(0, ((const char *)memory)[i]);
}

/* Two rows of three floats after a header of four bytes. They are aligned if the frame is. */
typedef struct {
  _Alignas(64) unsigned char bytes[4 + 24];
  int released;
  dlb_frame frame;
} floats;

static void set_up(floats *f, uint64_t flags) {
  static const float values[6] = {0, 1, 2, 3, 4, 5};
  memset(f, 0, sizeof *f);
  memcpy(f->bytes, "\x01\x02\x02\x03", 4);
  memcpy(f->bytes + 4, values, sizeof values);
  f->frame = (dlb_frame){f->bytes, sizeof f->bytes, count_release, &f->released, flags};
}

/* G2, G4, G6 */
static void a_tensor_is_the_frames_memory(void) {
  for (uint64_t flags = 0; flags <= DLB_FRAME_WRITABLE; flags++) {
    floats f;
    set_up(&f, flags);
    dlb_value v;
    memset(&v, 0xff, sizeof v);
    CHECK_OK(dlb_decthings_decode(&v, &f.frame, DLB_DECTHINGS_DOC, &error));
    CHECK(v.elements == NULL);
    CHECK_INT(sizeof f.bytes, v.size);
    CHECK_INT(0, v.copied);
    CHECK_OK(dlb_tensor_validate(v.tensor, &error));
    const DLTensor *t = &v.tensor->dl_tensor;
    CHECK_INT(flags == 0 ? DLPACK_FLAG_BITMASK_READ_ONLY : 0, v.tensor->flags);
    CHECK(t->data == f.bytes + 4);
    CHECK_INT(2, t->ndim);
    CHECK_INT(2, t->shape[0]);
    CHECK_INT(3, t->shape[1]);
    CHECK_INT(3, t->strides[0]);
    CHECK_INT(1, t->strides[1]);
    CHECK(t->dtype.code == kDLFloat && t->dtype.bits == 32 && t->dtype.lanes == 1);
    float seven = 7;
    memcpy(f.bytes + 4, &seven, 4); /* written on one side, read on the other */
    CHECK(*(float *)t->data == 7);
    CHECK_INT(0, f.released);
    dlb_tensor_release(v.tensor);
    CHECK_INT(1, f.released);
  }
  check_nothing_is_left(__func__);
}

/* Unaligned elements are copied: the value reports the copy and is read-only if the frame is, and the frame is released
 * immediately. */
static void what_is_not_aligned_is_copied(void) {
  for (uint64_t flags = 0; flags <= DLB_FRAME_WRITABLE; flags++) {
    for (size_t shift = 1; shift < 4; shift++) {
      floats f;
      set_up(&f, flags);
      _Alignas(64) unsigned char moved[4 + sizeof f.bytes];
      memcpy(moved + shift, f.bytes, sizeof f.bytes);
      f.frame.data = moved + shift;
      dlb_value v;
      CHECK_OK(dlb_decthings_decode(&v, &f.frame, DLB_DECTHINGS_DOC, &error));
      CHECK_INT(1, v.copied);
      CHECK_INT(1, f.released);
      CHECK_INT(DLPACK_FLAG_BITMASK_IS_COPIED | (flags == 0 ? DLPACK_FLAG_BITMASK_READ_ONLY : 0), v.tensor->flags);
      CHECK_INT(0, (uintptr_t)v.tensor->dl_tensor.data % 256);
      memset(moved, 0, sizeof moved);
      CHECK(memcmp(v.tensor->dl_tensor.data, f.bytes + 4, 24) == 0);
      dlb_tensor_release(v.tensor);
      CHECK_INT(1, f.released);
    }
  }
  /* A complex number needs only the alignment of its real part. */
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

static const char TWO[] = "\x0b\x01\x02\x05hello\x08, world!"; /* the example of the Decthings document */

static void elements_are_the_frames_memory(void) {
  int released = 0;
  dlb_frame frame = {TWO, sizeof TWO - 1, count_release, &released, 0};
  dlb_value v;
  memset(&v, 0xff, sizeof v);
  CHECK_OK(dlb_decthings_decode(&v, &frame, DLB_DECTHINGS_DOC, &error));
  CHECK(v.tensor == NULL);
  CHECK_INT(sizeof TWO - 1, v.size);
  dlb_elements *e = v.elements;
  CHECK(is(e->type, "string"));
  CHECK_INT(1, e->ndim);
  CHECK_INT(2, e->shape[0]);
  CHECK_INT(2, e->count);
  CHECK(is(e->values[0], "hello") && is(e->values[1], ", world!"));
  CHECK(e->values[0].data == TWO + 4);
  CHECK(e->formats == NULL);
  CHECK_INT(0, released);
  dlb_counters counters;
  dlb_counters_read(&counters, sizeof counters);
  CHECK_INT(1, counters.elements);
  e->values = NULL; /* dlb_elements_free ignores fields that the caller may change */
  e->shape = NULL;
  e->count = 99;
  dlb_elements_free(e);
  CHECK_INT(1, released);
  dlb_elements_free(NULL);

  static const char media[] = "\x0e\x01\x02\x05png\x01\x02\x04jpg\x03";
  frame = (dlb_frame){media, sizeof media - 1, count_release, &released, 0};
  CHECK_OK(dlb_decthings_decode(&v, &frame, DLB_DECTHINGS_DOC, &error));
  CHECK(is(v.elements->type, "image"));
  CHECK(is(v.elements->formats[0], "png") && is(v.elements->formats[1], "jpg"));
  CHECK(v.elements->values[1].data == media + 13 && v.elements->values[1].size == 1);
  /* Decoded elements can be encoded, also in another dialect. */
  char out[64];
  size_t size;
  CHECK_OK(dlb_decthings_encode(&size, out, sizeof out, &v, DLB_DECTHINGS_RS015, &error));
  static const char newer[] = "\x0e\x01\x02\x0d\x06\x03png\x01\x02\x05\x03jpg\x03";
  CHECK_INT(sizeof newer - 1, size);
  CHECK(memcmp(newer, out, size) == 0);
  dlb_elements_free(v.elements);
  CHECK_INT(2, released);
  check_nothing_is_left(__func__);
}

/* Elements that the program fills in. */
static void elements_of_the_callers_are_written(void) {
  static const int64_t shape[] = {2};
  static const dlb_bytes values[] = {{"hello", 5}, {", world!", 8}};
  dlb_elements e = {{"string", 6}, 1, shape, 2, values, NULL};
  dlb_value v = {NULL, &e, 0, 0};
  char out[64];
  size_t size = SIZE_MAX;
  CHECK_OK(dlb_decthings_encode(&size, out, sizeof out, &v, DLB_DECTHINGS_DOC, &error));
  CHECK(size == sizeof TWO - 1 && memcmp(out, TWO, size) == 0);

  /* TensorFlow has the type string too: in string_val, or in tensor_content. */
  static const char field[] = "\x08\x07\x12\x04\x12\x02\x08\x02\x42\x05hello\x42\x08, world!";
  static const char content[] = "\x08\x07\x12\x04\x12\x02\x08\x02\x22\x0f\x05\x08hello, world!";
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, 0, &error));
  CHECK(size == sizeof field - 1 && memcmp(out, field, size) == 0);
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, DLB_TENSORFLOW_FIELDS, &error));
  CHECK(size == sizeof field - 1 && memcmp(out, field, size) == 0);
  CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &v, DLB_TENSORFLOW_CONTENT, &error));
  CHECK(size == sizeof content - 1 && memcmp(out, content, size) == 0);

  e = (dlb_elements){{"binary", 6}, 0, NULL, 1, &(dlb_bytes){"", 0}, NULL};
  CHECK_OK(dlb_decthings_encode(&size, out, sizeof out, &v, DLB_DECTHINGS_PY004, &error));
  CHECK(size == 4 && memcmp(out, "\x0c\x00\x01\x00", 4) == 0);
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

  CHECK_OK(dlb_tensorflow_decode(&v, &frame, DLB_TENSORFLOW_INTEGERS, &error));
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

/* A tensor of any layout is encoded, and the caller keeps it. */
static void tensors_are_written_row_major(void) {
  floats f;
  set_up(&f, 0);
  float data[6] = {0, 3, 1, 4, 2, 5};
  int64_t shape[] = {2, 3}, strides[] = {1, 2};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes);
  made.dl_tensor.strides = strides;
  dlb_value v = {&made, NULL, 0, 0};
  char out[sizeof f.bytes];
  size_t size = SIZE_MAX;
  CHECK_OK(dlb_decthings_encode(&size, NULL, 0, &v, DLB_DECTHINGS_DOC, &error));
  CHECK_INT(sizeof f.bytes, size);
  CHECK_OK(dlb_decthings_encode(&size, out, sizeof out, &v, DLB_DECTHINGS_DOC, &error));
  CHECK(memcmp(f.bytes, out, size) == 0);

  /* With PAD the elements are aligned if the buffer is, and decoded without a copy. */
  _Alignas(64) char proto[192];
  CHECK_OK(dlb_tensorflow_encode(&size, NULL, 0, &v, DLB_TENSORFLOW_PAD, &error));
  CHECK_INT(64 + 24, size);
  CHECK_OK(dlb_tensorflow_encode(&size, proto, sizeof proto, &v, DLB_TENSORFLOW_PAD, &error));
  CHECK_INT(64 + 24, size);
  CHECK(memcmp(proto + 64, f.bytes + 4, 24) == 0);
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

/* The tensor may lie anywhere in the output buffer, or next to it. */
static void a_buffer_may_have_the_tensor_in_it(void) {
  enum { SIZE = 8, AT = 100, ROOM = 200 };
  int64_t shape[] = {SIZE};
  for (int start = AT - 40; start <= AT + 40; start++) {
    for (int format = 0; format < 4; format++) {
      unsigned char memory[ROOM + AT + 40], want[ROOM];
      memset(memory, 0xee, sizeof memory);
      for (int i = 0; i < SIZE; i++) memory[AT + i] = (unsigned char)i;
      DLTensor view = {.data = memory + AT, .device = {kDLCPU, 0}, .ndim = 1, .dtype = UINT8, .shape = shape};
      dlb_value value = {0};
      CHECK_OK(dlb_tensor_lend(&value.tensor, &view, 0, NULL, NULL, &error));
      size_t size = 0, written = 0;
      static const uint64_t options[] = {0, DLB_TENSORFLOW_FIELDS, DLB_TENSORFLOW_PAD};
      if (format == 3) {
        CHECK_OK(dlb_decthings_encode(&size, want, sizeof want, &value, 0, &error));
        CHECK_OK(dlb_decthings_encode(&written, memory + start, ROOM, &value, 0, &error));
      } else {
        CHECK_OK(dlb_tensorflow_encode(&size, want, sizeof want, &value, options[format], &error));
        CHECK_OK(dlb_tensorflow_encode(&written, memory + start, ROOM, &value, options[format], &error));
      }
      CHECK_INT(size, written);
      CHECK(memcmp(want, memory + start, size) == 0);
      dlb_tensor_release(value.tensor);
    }
  }
  check_nothing_is_left(__func__);
}

/* If the buffer is too small, nothing is written, and the error is accompanied by the required size. Without a buffer the
 * call only returns the size. */
static void a_buffer_that_is_too_small_is_an_error(void) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {2, 3};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes);
  static const int64_t two[] = {2};
  static const dlb_bytes text[] = {{"hello", 5}, {", world!", 8}};
  dlb_elements strings = {{"string", 6}, 1, two, 2, text, NULL};
  const dlb_value values[] = {{&made, NULL, 0, 0}, {NULL, &strings, 0, 0}};
  static const uint64_t options[] = {0, DLB_TENSORFLOW_FIELDS, DLB_TENSORFLOW_CONTENT, DLB_TENSORFLOW_PAD};
  for (size_t i = 0; i < 2 * (3 + 4); i++) {
    const dlb_value *v = &values[i / 7];
    size_t how = i % 7;
#define ENCODE(out, data, room, error)                                          \
  (how < 3 ? dlb_decthings_encode(out, data, room, v, how, error)               \
           : dlb_tensorflow_encode(out, data, room, v, options[how - 3], error))
    size_t need = 0;
    CHECK_OK(ENCODE(&need, NULL, 0, &error));
    CHECK(need > 16);
    char whole[256], out[256];
    for (size_t room = 0; room <= need; room++) {
      size_t size = SIZE_MAX;
      memset(out, 0x5a, sizeof out);
      if (room < need) {
        dlb_error error;
        int32_t code = ENCODE(&size, out, room, &error);
        CHECK_INT(DLB_ERROR_ROOM, code);
        CHECK_INT(DLB_ERROR_ROOM, error.code);
        char says[128];
        snprintf(says, sizeof says, "_encode: data has room for %zu bytes, %zu are required", room, need);
        CHECK(strstr(error.message, says) != NULL);
        CHECK_INT(DLB_ERROR_ROOM, ENCODE(&size, out, room, NULL));
      } else {
        CHECK_OK(ENCODE(&size, out, room, &error));
        memcpy(whole, out, need);
      }
      CHECK_INT(need, size);
      for (size_t k = room < need ? 0 : need; k < sizeof out; k++) CHECK_INT(0x5a, out[k]);
    }
    size_t size = 0; /* the rest of a larger buffer is not written */
    memset(out, 0x5a, sizeof out);
    CHECK_OK(ENCODE(&size, out, sizeof out, &error));
    CHECK_INT(need, size);
    CHECK(memcmp(whole, out, need) == 0);
    for (size_t k = need; k < sizeof out; k++) CHECK_INT(0x5a, out[k]);
    CHECK_CODE(DLB_ERROR_NULL, ENCODE(&size, NULL, need, &error)); /* as if malloc had failed */
    CHECK_INT(0, size);
#undef ENCODE
  }
  CHECK_INT(0, deletes);
  check_nothing_is_left(__func__);
}

/* Consecutive tensors of booleans, of 2 and of 0 elements, then a byte. */
enum { STREAM = 1000 };

static void a_stream_is_read_in_turns(void) {
  static char data[3 * STREAM + 2];
  for (int i = 0; i < STREAM; i++) memcpy(data + 3 * i, (char[3]){13, 0, (char)(i % 2)}, 3);
  static dlb_value values[STREAM + 1];
  int released = 0, calls = 0;
  dlb_frame frame = {data, 3 * STREAM, count_release, &released, DLB_FRAME_WRITABLE};
  size_t offset = 0, read = 0;
  while (offset < frame.size) {
    memset(values, 0xff, sizeof values);
    size_t next = 0, n = 0;
    CHECK_OK(dlb_decthings_decode_batch(values, STREAM, &next, &frame, offset, DLB_DECTHINGS_DOC, &error));
    calls++;
    for (; n < STREAM && values[n].tensor != NULL; n++, read++) {
      CHECK(values[n].tensor->dl_tensor.data == data + offset + 2);
      CHECK_INT(3, values[n].size);
      CHECK_INT((int)(read % 2), *(char *)values[n].tensor->dl_tensor.data);
      offset += values[n].size;
    }
    CHECK(n > 0);
    CHECK_INT(offset, next);
    if (n < STREAM) check_zero(&values[n], (STREAM - n) * sizeof *values);
    CHECK_INT(calls - 1, released);
    for (size_t i = 0; i < n; i++) dlb_tensor_release(values[(i + n / 2) % n].tensor);
    CHECK_INT(calls, released);
  }
  CHECK_INT(STREAM, read);
  CHECK_INT(3 * STREAM, offset);

  /* After the last tensor there is no other, and the frame has been released. */
  memset(values, 0xff, sizeof values);
  size_t next = 0;
  CHECK_OK(dlb_decthings_decode_batch(values, 2, &next, &frame, offset, DLB_DECTHINGS_DOC, &error));
  CHECK_INT(frame.size, next);
  check_zero(values, 2 * sizeof *values);
  CHECK_INT(calls + 1, released);

  /* The call that begins with a malformed tensor returns the error, with the offset in the frame. */
  data[3 * 4 + 2] = 2;
  CHECK_OK(dlb_decthings_decode_batch(values, STREAM, &(size_t){0}, &frame, 0, DLB_DECTHINGS_DOC, &error));
  check_zero(&values[4], (STREAM - 4) * sizeof *values);
  for (int i = 0; i < 4; i++) dlb_tensor_release(values[i].tensor);
  released = 0;
  memset(values, 0xff, sizeof values);
  dlb_error error;
  CHECK_INT(DLB_ERROR_FORMAT, dlb_decthings_decode_batch(values, STREAM, &next, &frame, 12, DLB_DECTHINGS_DOC, &error));
  CHECK(strstr(error.message, "decthings: byte 14: element 0 is the boolean 2") != NULL);
  check_zero(values, STREAM * sizeof *values);
  CHECK_INT(0, next);
  CHECK_INT(0, released);
  check_nothing_is_left(__func__);
}

/* Many dimensions or large tensors need several calls. A tensor that is larger than the limit of a call gets one of its
 * own. */
static void a_call_reads_what_it_is_good_for(void) {
  static char data[20 * 260];
  char *at = data;
  for (int i = 0; i < 20; i++) {
    *at++ = 7; /* u8 */
    *at++ = (char)255;
    memset(at, 1, 255);
    at += 255;
    *at++ = (char)i;
  }
  dlb_frame frame = {data, (size_t)(at - data), NULL, NULL, 0};
  dlb_value values[20];
  size_t read = 0;
  for (size_t offset = 0; offset < frame.size;) {
    CHECK_OK(dlb_decthings_decode_batch(values, 20, &offset, &frame, offset, DLB_DECTHINGS_DOC, &error));
    CHECK(values[0].tensor != NULL);
    for (int i = 0; i < 20 && values[i].tensor != NULL; i++, read++) {
      CHECK_INT(255, values[i].tensor->dl_tensor.ndim);
      CHECK_INT(1, values[i].tensor->dl_tensor.shape[254]);
      CHECK_INT((int)read, *(char *)values[i].tensor->dl_tensor.data);
      dlb_tensor_release(values[i].tensor);
    }
  }
  CHECK_INT(20, read);

  enum { LARGE = 1 << 17 };
  char *large = calloc(3, LARGE + 7);
  for (int i = 0; i < 3; i++) memcpy(large + i * (LARGE + 7), "\x07\x01\xfe\x00\x02\x00\x00", 7);
  frame = (dlb_frame){large, 3 * (LARGE + 7), NULL, NULL, 0};
  for (int i = 0; i < 3; i++) {
    CHECK_OK(dlb_decthings_decode_batch(values, 20, &(size_t){0}, &frame, (size_t)i * (LARGE + 7), DLB_DECTHINGS_DOC, &error));
    CHECK(values[0].tensor != NULL && values[1].tensor == NULL);
    CHECK_INT(LARGE, values[0].tensor->dl_tensor.shape[0]);
    dlb_tensor_release(values[0].tensor);
  }
  free(large);
  check_nothing_is_left(__func__);
}

/* DLB_LIMIT counts copies and elements, and refuses before a frame is taken over. */
static void a_limit_bounds_copies_and_elements(void) {
  static _Alignas(8) char bytes[64];
  dlb_error error;
  int released = 0;
  const struct {
    const char *data;
    size_t size, start, takes;
  } rows[] = {
      {"\x01\x01\x02" "01234567", 11, 0, 8},          /* two float32, of which the first is not aligned */
      {"\x01\x01\x02" "01234567", 11, 5, 0},          /* and where it is */
      {"\x0b\x01\x02\x05hello\x08, world!", 18, 0, 40}, /* two strings in one dimension */
      {"\x0e\x01\x02\x05png\x01\x02\x04jpg\x03", 14, 0, 72}, /* two images */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    memcpy(bytes + rows[i].start, rows[i].data, rows[i].size);
    dlb_frame frame = {bytes + rows[i].start, rows[i].size, count_release, &released, 0};
    for (int consume = 0; consume < 2; consume++) {
      dlb_value v;
      size_t next = 99;
      uint64_t enough = DLB_LIMIT(rows[i].takes + (rows[i].takes == 0)), less = DLB_LIMIT(rows[i].takes - 1);
      released = 0;
      if (rows[i].takes > 1) {
        int32_t code = consume ? dlb_decthings_decode_batch(&v, 1, &next, &frame, 0, less, &error) : dlb_decthings_decode(&v, &frame, less, &error);
        CHECK_INT(DLB_ERROR_FORMAT, code);
        CHECK(strstr(error.message, "DLB_LIMIT allows more") != NULL);
        check_zero(&v, sizeof v);
        CHECK_INT(0, released);
      }
      if (consume) CHECK_OK(dlb_decthings_decode_batch(&v, 1, &next, &frame, 0, enough, &error));
      else CHECK_OK(dlb_decthings_decode(&v, &frame, enough, &error));
      CHECK_INT(rows[i].size, v.size);
      dlb_tensor_release(v.tensor);
      dlb_elements_free(v.elements);
      CHECK_INT(1, released);
    }
  }

  /* Of a batch, the call that begins with the value returns the error. */
  memcpy(bytes, "\x0d\x00\x01\x01\x01\x02" "01234567", 14);
  dlb_frame frame = {bytes, 14, count_release, &released, 0};
  dlb_value v[2];
  size_t next = 0;
  released = 0;
  CHECK_OK(dlb_decthings_decode_batch(v, 2, &next, &frame, 0, DLB_LIMIT(7), &error));
  CHECK(v[0].tensor != NULL && v[1].tensor == NULL);
  CHECK_INT(3, next);
  dlb_tensor_release(v[0].tensor);
  CHECK_INT(1, released);
  CHECK_INT(DLB_ERROR_FORMAT, dlb_decthings_decode_batch(v, 2, &next, &frame, 3, DLB_LIMIT(7), &error));
  CHECK(strstr(error.message, "takes 8 bytes beside the frame, where 7 are left") != NULL);
  CHECK_OK(dlb_decthings_decode_batch(v, 2, &next, &frame, 3, DLB_LIMIT(8), &error));
  CHECK_INT(14, next);
  CHECK_INT(1, v[0].copied);
  dlb_tensor_release(v[0].tensor);
  CHECK_INT(2, released);
  check_nothing_is_left(__func__);
}

/* G54, G58: after every error the outputs are zero, whatever they were before, and no frame is released. */
static void reading_refuses_and_releases_nothing(void) {
  floats f;
  set_up(&f, 0);
  const struct {
    const char *name;
    int32_t code;
    const dlb_frame *frame;
    size_t offset;
    uint64_t dialect;
    const char *says;
  } rows[] = {
      {"frame NULL", DLB_ERROR_NULL, NULL, 0, 0, "frame is NULL"},
      {"data NULL", DLB_ERROR_NULL, &(dlb_frame){NULL, 8, count_release, &f.released, 0}, 0, 0, "frame[0].data is NULL"},
      {"2^63 bytes", DLB_ERROR_OVERFLOW, &(dlb_frame){"", (size_t)1 << 63, count_release, &f.released, 0}, 0, 0, "frame[0].data"},
      {"flags", DLB_ERROR_ARGUMENT, &(dlb_frame){"", 0, count_release, &f.released, 2}, 0, 0, "flags = 0x2"},
      {"dialect 3", DLB_ERROR_ARGUMENT, &f.frame, 0, 3, "dialect = 3"},
      {"dialect -1", DLB_ERROR_ARGUMENT, &f.frame, 0, UINT64_MAX, "dialect = 65535"},
      {"offset", DLB_ERROR_ARGUMENT, &f.frame, sizeof f.bytes + 1, 0, "offset = 29, frame has 28 bytes"},
      {"cut", DLB_ERROR_FORMAT, &(dlb_frame){f.bytes, 27, count_release, &f.released, 0}, 0, 0, "decthings: byte 4: "},
      {"type 200", DLB_ERROR_FORMAT, &(dlb_frame){"\xc8\x00", 2, count_release, &f.released, 0}, 0, 0, "decthings: byte 0: "},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    dlb_value v[3];
    dlb_error error;
    for (int consume = rows[i].offset > 0; consume < 2; consume++) {
      memset(v, 0xff, sizeof v);
      memset(&error, 0xff, sizeof error);
      int32_t code = consume ? dlb_decthings_decode_batch(v, 3, &(size_t){0}, rows[i].frame, rows[i].offset, rows[i].dialect, &error)
                             : dlb_decthings_decode(v, rows[i].frame, rows[i].dialect, &error);
      if (code != rows[i].code || code != error.code || strstr(error.message, rows[i].says) == NULL) {
        fprintf(stderr, "%s: %s: %s\n", rows[i].name, dlb_error_name(code), error.message);
        exit(1);
      }
      check_zero(v, (consume ? 3 : 1) * sizeof *v);
      CHECK_INT(0, f.released);
    }
  }
  dlb_value v;
  CHECK_CODE(DLB_ERROR_NULL, dlb_decthings_decode(NULL, &f.frame, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_decthings_decode_batch(NULL, 1, &(size_t){0}, &f.frame, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_decthings_decode_batch(&v, 0, &(size_t){0}, &f.frame, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_decthings_decode_batch(&v, SIZE_MAX / 2, &(size_t){0}, &f.frame, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensorflow_decode(NULL, &f.frame, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensorflow_decode(&v, NULL, 0, &error));
  memset(&v, 0xff, sizeof v);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensorflow_decode(&v, &f.frame, 4, &error));
  check_zero(&v, sizeof v);
  memset(&v, 0xff, sizeof v);
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_tensorflow_decode(&v, &f.frame, 0, &error));
  check_zero(&v, sizeof v);
  CHECK_INT(DLB_ERROR_FORMAT, dlb_tensorflow_decode(&v, &f.frame, 0, NULL));
  CHECK_INT(0, f.released);

  /* A frame with one byte after the tensor is refused. */
  f.frame.size--;
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_decthings_decode(&v, &f.frame, 0, &error));
  char more[4] = {13, 0, 1, 0};
  dlb_frame trailing = {more, 4, count_release, &f.released, 0};
  dlb_error error;
  CHECK_INT(DLB_ERROR_FORMAT, dlb_decthings_decode(&v, &trailing, 0, &error));
  CHECK(strstr(error.message, "decthings: byte 3: 1 bytes after the tensor") != NULL);
  CHECK_INT(0, f.released);
  check_nothing_is_left(__func__);
}

static void writing_refuses_and_takes_nothing(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3}, minus[] = {-1, 3};
  int deletes = 0;
  DLManagedTensorVersioned good = made_by_producer(data, shape, &deletes), half = good, lanes = good, older = good,
                           device = good, negative = good, boolean = good;
  half.dl_tensor.dtype.bits = 16;
  lanes.dl_tensor.dtype = (DLDataType){kDLFloat, 16, 2};
  older.version.major = 2;
  device.dl_tensor.device.device_type = kDLCUDA;
  negative.dl_tensor.shape = minus;
  boolean.dl_tensor.dtype = (DLDataType){kDLBool, 8, 1};
  memset(data, 2, sizeof data);
  const dlb_bytes value = {"x", 1}, none = {NULL, 3}, bad_text = {"\xff", 1};
  const int64_t one[] = {1};
  dlb_elements strings = {{"string", 6}, 1, one, 1, &value, NULL}, unknown = strings, numbers = strings, image = strings,
               few = strings, missing = strings, no_values = strings, no_shape = strings, rank = strings,
               no_type = strings, text = strings, count = strings;
  unknown.type = (dlb_bytes){"strings", 7};
  numbers.type = (dlb_bytes){"f32", 3};
  image.type = (dlb_bytes){"image", 5};
  few.count = 0;
  missing.values = &none;
  no_values.values = NULL;
  no_shape.shape = NULL;
  rank.ndim = -1;
  no_type.type = (dlb_bytes){NULL, 1};
  text.values = &bad_text;
  count.count = SIZE_MAX / 2;
  const struct {
    const char *name;
    int32_t decthings, tensorflow; /* DLB_OK if the format accepts it */
    dlb_value value;
  } rows[] = {
      {"neither", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT, {NULL, NULL, 0, 0}},
      {"both", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT, {&good, &strings, 0, 0}},
      {"half", DLB_ERROR_DTYPE, DLB_OK, {&half, NULL, 0, 0}},
      {"lanes", DLB_ERROR_DTYPE, DLB_ERROR_DTYPE, {&lanes, NULL, 0, 0}},
      {"version", DLB_ERROR_VERSION, DLB_ERROR_VERSION, {&older, NULL, 0, 0}},
      {"device", DLB_ERROR_DEVICE, DLB_ERROR_DEVICE, {&device, NULL, 0, 0}},
      {"negative", DLB_ERROR_LAYOUT, DLB_ERROR_LAYOUT, {&negative, NULL, 0, 0}},
      {"boolean 2", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT, {&boolean, NULL, 0, 0}},
      {"unknown type", DLB_ERROR_DTYPE, DLB_ERROR_DTYPE, {NULL, &unknown, 0, 0}},
      {"numbers", DLB_ERROR_DTYPE, DLB_ERROR_DTYPE, {NULL, &numbers, 0, 0}},
      {"no formats", DLB_ERROR_ARGUMENT, DLB_ERROR_DTYPE, {NULL, &image, 0, 0}},
      {"too few", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT, {NULL, &few, 0, 0}},
      {"value NULL", DLB_ERROR_NULL, DLB_ERROR_NULL, {NULL, &missing, 0, 0}},
      {"values NULL", DLB_ERROR_NULL, DLB_ERROR_NULL, {NULL, &no_values, 0, 0}},
      {"shape NULL", DLB_ERROR_NULL, DLB_ERROR_NULL, {NULL, &no_shape, 0, 0}},
      {"rank -1", DLB_ERROR_LAYOUT, DLB_ERROR_LAYOUT, {NULL, &rank, 0, 0}},
      {"type NULL", DLB_ERROR_NULL, DLB_ERROR_NULL, {NULL, &no_type, 0, 0}},
      {"no text", DLB_ERROR_ARGUMENT, DLB_OK, {NULL, &text, 0, 0}},
      {"count", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT, {NULL, &count, 0, 0}},
  };
  char room[256];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t a = SIZE_MAX, b = SIZE_MAX;
    int32_t decthings = dlb_decthings_encode(&a, room, sizeof room, &rows[i].value, 0, NULL);
    int32_t tensorflow = dlb_tensorflow_encode(&b, room, sizeof room, &rows[i].value, 0, NULL);
    if (decthings != rows[i].decthings || tensorflow != rows[i].tensorflow) {
      fprintf(stderr, "%s: %s, %s\n", rows[i].name, dlb_error_name(decthings), dlb_error_name(tensorflow));
      exit(1);
    }
    CHECK_INT(decthings == DLB_OK, a != 0);
    CHECK_INT(tensorflow == DLB_OK, b != 0);
  }
  dlb_value v = {&good, NULL, 0, 0};
  size_t size = SIZE_MAX;
  CHECK_CODE(DLB_ERROR_NULL, dlb_decthings_encode(NULL, room, sizeof room, &v, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_decthings_encode(&size, room, sizeof room, NULL, 0, &error));
  CHECK_INT(0, size);
  CHECK_CODE(DLB_ERROR_NULL, dlb_decthings_encode(&size, NULL, 1, &v, 0, &error));
  size = SIZE_MAX;
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_decthings_encode(&size, room, sizeof room, &v, 9, &error));
  CHECK_INT(0, size);
  size = SIZE_MAX;
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensorflow_encode(&size, room, sizeof room, &v, 8, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensorflow_encode(&size, room, sizeof room, &v, 3, &error));
  CHECK_INT(0, size);
  CHECK_CODE(DLB_ERROR_NULL, dlb_tensorflow_encode(NULL, room, sizeof room, &v, 0, &error));
  int64_t many[] = {1 << 20, 1 << 20}, nowhere[] = {0, 0}; /* one element for all: it is neither assembled nor read */
  good.dl_tensor.shape = many;
  good.dl_tensor.strides = nowhere;
  CHECK_CODE(DLB_ERROR_ROOM, dlb_decthings_encode(&size, room, sizeof room, &v, 0, &error));
  CHECK(size > INT64_C(1) << 42);
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_tensorflow_encode(&size, room, sizeof room, &v, DLB_TENSORFLOW_FIELDS, &error));
  CHECK_CODE(DLB_ERROR_OVERFLOW, dlb_tensorflow_encode(&size, room, sizeof room, &v, 0, &error));
  CHECK_INT(0, size);
  many[0] = (1 << 9) - 1; /* a little less than 2 GiB */
  CHECK_CODE(DLB_ERROR_ROOM, dlb_tensorflow_encode(&size, room, sizeof room, &v, 0, &error));
  CHECK(size > (INT64_C(1) << 31) - (1 << 23));
  good.dl_tensor.strides = NULL;
  int64_t ones[256];
  for (int i = 0; i < 256; i++) ones[i] = 1;
  good.dl_tensor.shape = ones;
  good.dl_tensor.ndim = 256;
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_decthings_encode(&size, room, sizeof room, &v, 0, &error));
  CHECK_CODE(DLB_ERROR_LAYOUT, dlb_tensorflow_encode(&size, room, sizeof room, &v, 0, &error));
  CHECK_INT(0, deletes);
  check_nothing_is_left(__func__);
}

static void rules_are_checked(void) {
  float data[6];
  int64_t shape[] = {2, 3};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes);
  made.dl_tensor.device.device_type = kDLCUDA; /* the elements are not read */
  dlb_value tensor = {&made, NULL, 0, 0};
  dlb_elements e = {{"image", 5}, 2, shape, 99, NULL, NULL}; /* nor are these */
  dlb_value elements = {NULL, &e, 0, 0};
  const struct {
    const char *rules;
    int32_t tensor, elements;
  } rows[] = {
      {"{\"shape\":[2,-1],\"allowedTypes\":[\"f32\",\"image\"]}", DLB_OK, DLB_OK},
      {"{\"shape\":[2,-1],\"allowedTypes\":[\"f32\"],\"annotations\":[]}", DLB_OK, DLB_ERROR_DTYPE},
      {"{\"shape\":[2,-1],\"allowedTypes\":[]}", DLB_ERROR_DTYPE, DLB_ERROR_DTYPE},
      {"{\"shape\":[2,4],\"allowedTypes\":[\"image\"]}", DLB_ERROR_DTYPE, DLB_ERROR_LAYOUT},
      {"{\"shape\":[],\"allowedTypes\":[\"f32\"]}", DLB_ERROR_LAYOUT, DLB_ERROR_DTYPE},
      {"{\"shape\":[-2],\"allowedTypes\":[\"f32\"]}", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT},
      {"{\"shape\":[2,3],\"allowedTypes\":[\"float\"]}", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT},
      {"{\"shape\":[2,3]}", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT},
      {"rules", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT},
      {"", DLB_ERROR_ARGUMENT, DLB_ERROR_ARGUMENT},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    dlb_bytes rules = {rows[i].rules, strlen(rows[i].rules)};
    CHECK_CODE(rows[i].tensor, dlb_decthings_check(rules, &tensor, &error));
    CHECK_CODE(rows[i].elements, dlb_decthings_check(rules, &elements, &error));
  }
  dlb_bytes rules = {"{\"shape\":[],\"allowedTypes\":[\"f32\"]}", 35};
  made.dl_tensor.dtype.bits = 16;
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_decthings_check(rules, &tensor, &error));
  e.type = (dlb_bytes){"no", 2};
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_decthings_check(rules, &elements, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_decthings_check(rules, NULL, &error));
  rules.data = NULL;
  CHECK_CODE(DLB_ERROR_NULL, dlb_decthings_check(rules, &tensor, &error));
  CHECK_INT(0, deletes);
  check_nothing_is_left(__func__);
}

enum { THREADS = 8, ROUNDS = 300 };

static void *read_and_write(void *ctx) {
  (void)ctx;
  for (int i = 0; i < ROUNDS; i++) {
    floats f;
    set_up(&f, 0);
    int released = 0;
    dlb_frame text = {TWO, sizeof TWO - 1, count_release, &released, 0};
    dlb_value v, e;
    char out[64];
    size_t size;
    CHECK_OK(dlb_decthings_decode(&v, &f.frame, DLB_DECTHINGS_DOC, &error));
    CHECK_OK(dlb_decthings_decode(&e, &text, DLB_DECTHINGS_DOC, &error));
    CHECK_OK(dlb_decthings_encode(&size, out, sizeof out, &v, DLB_DECTHINGS_DOC, &error));
    CHECK(size == sizeof f.bytes && memcmp(out, f.bytes, size) == 0);
    CHECK_OK(dlb_tensorflow_encode(&size, out, sizeof out, &e, 0, &error));
    dlb_elements_free(e.elements);
    dlb_tensor_release(v.tensor);
    CHECK_INT(1, f.released);
    CHECK_INT(1, released);
  }
  return NULL;
}

static void threads_read_and_write_at_once(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, read_and_write, NULL));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  check_nothing_is_left(__func__);
}

/* G60: a forked child can use and release decoded values; functions that need Go return an error immediately. */
static void a_forked_child_is_refused_what_needs_go(void) {
  floats f;
  set_up(&f, 0);
  int released = 0;
  dlb_frame text = {TWO, sizeof TWO - 1, count_release, &released, 0};
  dlb_value v, e;
  CHECK_OK(dlb_decthings_decode(&v, &f.frame, DLB_DECTHINGS_DOC, &error));
  CHECK_OK(dlb_decthings_decode(&e, &text, DLB_DECTHINGS_DOC, &error));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20); /* ends a call that hangs */
    dlb_value no;
    size_t size;
    char out[64];
    dlb_bytes rules = {"{}", 2};
    memset(&no, 0xff, sizeof no);
    CHECK_CODE(DLB_ERROR_FORKED, dlb_decthings_decode(&no, &f.frame, 0, &error));
    check_zero(&no, sizeof no);
    CHECK_CODE(DLB_ERROR_FORKED, dlb_decthings_decode_batch(&no, 1, &(size_t){0}, &f.frame, 0, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_tensorflow_decode(&no, &f.frame, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_decthings_encode(&size, out, sizeof out, &v, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_tensorflow_encode(&size, out, sizeof out, &e, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_decthings_check(rules, &v, &error));
    CHECK_INT(0, f.released);
    CHECK(is(e.elements->values[1], ", world!"));
    dlb_elements_free(e.elements);
    dlb_tensor_release(v.tensor);
    CHECK_INT(1, f.released);
    CHECK_INT(1, released);
    check_nothing_is_left("the child");
    _exit(0);
  }
  int status = -1;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK_INT(0, f.released);
  dlb_elements_free(e.elements);
  dlb_tensor_release(v.tensor);
  check_nothing_is_left(__func__);
}

int main(void) {
  check_nothing_is_left("nothing");
  a_tensor_is_the_frames_memory();
  what_is_not_aligned_is_copied();
  elements_are_the_frames_memory();
  elements_of_the_callers_are_written();
  elements_that_the_frame_has_not_are_kept_with_them();
  small_elements_are_padded();
  tensors_are_written_row_major();
  a_buffer_may_have_the_tensor_in_it();
  a_buffer_that_is_too_small_is_an_error();
  a_stream_is_read_in_turns();
  a_call_reads_what_it_is_good_for();
  a_limit_bounds_copies_and_elements();
  reading_refuses_and_releases_nothing();
  writing_refuses_and_takes_nothing();
  rules_are_checked();
  threads_read_and_write_at_once();
  a_forked_child_is_refused_what_needs_go();
  return 0;
}
