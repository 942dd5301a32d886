/* The functions for Decthings: what only this format does. */
#include "values.h"

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

/* Unaligned elements are copied: the value reports the copy, which may be written to, and the frame is released immediately. */
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
      CHECK_INT(DLPACK_FLAG_BITMASK_IS_COPIED, v.tensor->flags);
      CHECK_INT(0, (uintptr_t)v.tensor->dl_tensor.data % 256);
      memset(moved, 0, sizeof moved);
      CHECK(memcmp(v.tensor->dl_tensor.data, f.bytes + 4, 24) == 0);
      dlb_tensor_release(v.tensor);
      CHECK_INT(1, f.released);
    }
  }
  check_nothing_is_left(__func__);
}

static const char TWO[] = "\x0b\x01\x02\x05hello\x08, world!"; /* the example of the Decthings document */

/* the example of the Decthings document */

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

  e = (dlb_elements){{"binary", 6}, 0, NULL, 1, &(dlb_bytes){"", 0}, NULL};
  CHECK_OK(dlb_decthings_encode(&size, out, sizeof out, &v, DLB_DECTHINGS_PY004, &error));
  CHECK(size == 4 && memcmp(out, "\x0c\x00\x01\x00", 4) == 0);
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
  CHECK(strstr(error.message, "decthings: byte 14: element 0 of a bool tensor is 2") != NULL);
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
  CHECK(strstr(error.message, "needs 8 bytes besides the frame, but the limit leaves 7") != NULL);
  CHECK_OK(dlb_decthings_decode_batch(v, 2, &next, &frame, 3, DLB_LIMIT(8), &error));
  CHECK_INT(14, next);
  CHECK_INT(1, v[0].copied);
  dlb_tensor_release(v[0].tensor);
  CHECK_INT(2, released);

  /* The limit is that of the whole call: of two values that are copied, it ends before the second. */
  memcpy(bytes, "\x01\x01\x02" "01234567" "\x01\x01\x02" "01234567", 22);
  frame.size = 22;
  CHECK_OK(dlb_decthings_decode_batch(v, 2, &next, &frame, 0, DLB_LIMIT(8), &error));
  CHECK(v[0].copied && v[1].tensor == NULL);
  CHECK_INT(11, next);
  dlb_tensor_release(v[0].tensor);
  CHECK_OK(dlb_decthings_decode_batch(v, 2, &next, &frame, 0, DLB_LIMIT(16), &error));
  CHECK(v[0].copied && v[1].copied);
  for (size_t i = 0; i < 2; i++) dlb_tensor_release(v[i].tensor);
  CHECK_INT(4, released);
  check_nothing_is_left(__func__);
}

/* After every error the outputs are zero, whatever they were before, and no frame is released. */
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
      {"dialect 3", DLB_ERROR_ARGUMENT, &f.frame, 0, 3, "dialect = 3"},
      {"dialect -1", DLB_ERROR_ARGUMENT, &f.frame, 0, UINT64_MAX, "dialect = 65535"},
      {"offset", DLB_ERROR_ARGUMENT, &f.frame, sizeof f.bytes + 1, 0, "offset is 29, but frame has 28 bytes"},
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
  /* A frame with one byte after the tensor is refused. */
  char more[4] = {13, 0, 1, 0};
  dlb_frame trailing = {more, 4, count_release, &f.released, 0};
  dlb_error error;
  CHECK_INT(DLB_ERROR_FORMAT, dlb_decthings_decode(&v, &trailing, 0, &error));
  CHECK(strstr(error.message, "decthings: byte 3: 1 bytes follow the tensor") != NULL);
  CHECK_INT(0, f.released);
  check_nothing_is_left(__func__);
}

/* What only some formats refuse. */
static void writing_refuses_what_has_no_type(void) {
  float data[6] = {0};
  int64_t shape[] = {2, 3}, one[] = {1}, many[] = {1 << 20, 1 << 20}, nowhere[] = {0, 0};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes), half = made;
  half.dl_tensor.dtype.bits = 16;
  const dlb_bytes value = {"x", 1}, bad_text = {"\xff", 1};
  dlb_elements image = {{"image", 5}, 1, one, 1, &value, NULL}, text = {{"string", 6}, 1, one, 1, &bad_text, NULL};
  char room[256];
  size_t size;
  CHECK_CODE(DLB_ERROR_DTYPE, dlb_decthings_encode(&size, room, sizeof room, &(dlb_value){.tensor = &half}, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_decthings_encode(&size, room, sizeof room, &(dlb_value){.elements = &image}, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_decthings_encode(&size, room, sizeof room, &(dlb_value){.elements = &text}, 0, &error));
  CHECK_INT(0, size);
  made.dl_tensor.shape = many; /* one element for all: it is neither assembled nor read */
  made.dl_tensor.strides = nowhere;
  CHECK_CODE(DLB_ERROR_ROOM, dlb_decthings_encode(&size, room, sizeof room, &(dlb_value){.tensor = &made}, 0, &error));
  CHECK(size > INT64_C(1) << 42);
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

int main(void) {
  a_tensor_is_the_frames_memory();
  what_is_not_aligned_is_copied();
  elements_are_the_frames_memory();
  elements_of_the_callers_are_written();
  tensors_are_written_row_major();
  a_stream_is_read_in_turns();
  a_call_reads_what_it_is_good_for();
  a_limit_bounds_copies_and_elements();
  reading_refuses_and_releases_nothing();
  writing_refuses_what_has_no_type();
  rules_are_checked();
  return 0;
}
