/* The message functions: ownership at each step, and all errors. */
#include "formats.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* A message of three parts, in frames that count their releases: a float32 tensor of 2 by 3 in a writable part; the
 * transpose of it on the same part; an int16 tensor of 4 with a negative stride; and a part without a tensor. */
enum { FRAMES = 5 };

static const char LABEL[] =
    "{\"TENS\":{\"metadata\":{\"run\":7},\"tensors\":["
    "{\"shape\":[2,3],\"word\":4,\"dtype\":\"f\",\"metadata\":{\"name\":\"first\"}},"
    "{\"shape\":[3,2],\"word\":4,\"dtype\":\"f\",\"part\":0,\"order\":[0,1]},"
    "{\"shape\":[4],\"word\":2,\"dtype\":\"i\",\"part\":1,\"ascend\":[false]}]}}";

typedef struct {
  char prefix[512];
  char header[24];
  float first[6];
  int16_t second[4];
  char third[3];
  int released[FRAMES];
  dlb_frame frames[FRAMES];
} fixture;

static void set_up(fixture *f) {
  memset(f, 0, sizeof *f);
  int n = snprintf(f->prefix, sizeof f->prefix, "ZIO3TENS%s", LABEL);
  f->header[0] = 5; /* origin */
  f->header[9] = 1; /* granule 256 */
  f->header[16] = 7;
  for (int i = 0; i < 6; i++) f->first[i] = (float)i;
  for (int i = 0; i < 4; i++) f->second[i] = (int16_t)(10 + i);
  const dlb_frame frames[FRAMES] = {
      {f->prefix, (size_t)n, count_release, &f->released[0], 0},
      {f->header, 24, count_release, &f->released[1], 0},
      {f->first, sizeof f->first, count_release, &f->released[2], DLB_FRAME_WRITABLE},
      {f->second, sizeof f->second, count_release, &f->released[3], 0},
      {f->third, sizeof f->third, count_release, &f->released[4], 0},
  };
  memcpy(f->frames, frames, sizeof frames);
}

static void check_released(const fixture *f, int a, int b, int c, int d, int e) {
  const int want[FRAMES] = {a, b, c, d, e};
  for (int i = 0; i < FRAMES; i++) CHECK_INT(want[i], f->released[i]);
}

static int is(dlb_bytes bytes, const char *text) {
  return bytes.size == strlen(text) && memcmp(bytes.data, text, bytes.size) == 0;
}

static void decode_views_the_frames(void) {
  fixture f;
  set_up(&f);
  dlb_message *m = (void *)-1;
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));
  check_released(&f, 0, 0, 0, 0, 0);

  dlb_header header;
  CHECK_OK(dlb_message_header(&header, m, &error));
  CHECK_INT(3, header.level);
  CHECK(memcmp(header.form, "TENS", 4) == 0);
  CHECK_INT(5, header.origin);
  CHECK_INT(256, header.granule);
  CHECK_INT(7, header.seqno);
  dlb_bytes text;
  CHECK_OK(dlb_message_label(&text, m, &error));
  CHECK(is(text, LABEL));
  CHECK(text.data == f.prefix + 8);
  CHECK_OK(dlb_message_metadata(&text, m, &error));
  CHECK(is(text, "{\"run\":7}"));
  CHECK_INT(3, dlb_message_part_count(m));
  CHECK_INT(3, dlb_message_tensor_count(m));
  CHECK_INT(5, dlb_message_frame_count(m));
  CHECK_OK(dlb_message_tensor_metadata(&text, m, 0, &error));
  CHECK(is(text, "{\"name\":\"first\"}"));
  CHECK_OK(dlb_message_tensor_metadata(&text, m, 1, &error));
  CHECK(text.data == NULL && text.size == 0);
  CHECK_INT(0, dlb_message_copied(m, 0));
  CHECK_INT(0, dlb_message_tensor_part(m, 1));
  CHECK_INT(1, dlb_message_tensor_part(m, 2));

  DLManagedTensorVersioned *t[3], *part;
  for (size_t i = 0; i < 3; i++) {
    CHECK_OK(dlb_message_tensor_at(&t[i], m, i, &error));
    CHECK_OK(dlb_tensor_validate(t[i], &error));
  }
  CHECK(t[0]->dl_tensor.data == f.first);
  CHECK_INT(0, t[0]->flags); /* its frame is writable */
  CHECK_INT(3, t[0]->dl_tensor.strides[0]);
  CHECK(t[1]->dl_tensor.data == f.first);
  CHECK_INT(3, t[1]->dl_tensor.shape[0]);
  CHECK_INT(1, t[1]->dl_tensor.strides[0]);
  CHECK_INT(3, t[1]->dl_tensor.strides[1]);
  CHECK(t[2]->dl_tensor.data == f.second + 3);
  CHECK_INT(-1, t[2]->dl_tensor.strides[0]);
  CHECK_INT(DLPACK_FLAG_BITMASK_READ_ONLY, t[2]->flags); /* its frame is not */
  CHECK_INT(kDLInt, t[2]->dl_tensor.dtype.code);
  CHECK_INT(16, t[2]->dl_tensor.dtype.bits);
  ((float *)t[0]->dl_tensor.data)[2] = 42; /* element (0, 2) is (2, 0) of the transpose */
  CHECK(((float *)t[1]->dl_tensor.data)[2 * t[1]->dl_tensor.strides[0]] == 42);
  CHECK(f.first[2] == 42);

  CHECK_OK(dlb_message_part(&part, m, 2, &error));
  CHECK(part->dl_tensor.data == f.third);
  CHECK_INT(1, part->dl_tensor.ndim);
  CHECK_INT(3, part->dl_tensor.shape[0]);
  CHECK_INT(kDLUInt, part->dl_tensor.dtype.code);
  CHECK_INT(DLPACK_FLAG_BITMASK_READ_ONLY, part->flags);

  /* Each frame is released when nothing needs it any more. */
  dlb_message_free(m);
  check_released(&f, 1, 1, 0, 0, 0);
  dlb_tensor_release(t[0]);
  check_released(&f, 1, 1, 0, 0, 0);
  dlb_tensor_release(t[1]);
  check_released(&f, 1, 1, 1, 0, 0);
  dlb_tensor_release(part);
  check_released(&f, 1, 1, 1, 0, 1);
  dlb_tensor_release(t[2]);
  check_released(&f, 1, 1, 1, 1, 1);
  check_nothing_is_left(__func__);
}

/* DLB_LIMIT counts the prefix and the frames, and refuses before a frame is taken over. */
static void a_limit_bounds_a_message(void) {
  for (int message_only = 0; message_only < 2; message_only++) {
    fixture f;
    set_up(&f);
    dlb_message *m;
    dlb_frame whole;
    dlb_error error;
    uint64_t options = message_only ? DLB_DECODE_MESSAGE_ONLY : 0;
    size_t takes = FRAMES * 128 + (message_only ? 0 : f.frames[0].size * 48);
    CHECK_INT(DLB_ERROR_FORMAT, dlb_message_decode(&m, f.frames, FRAMES, options | DLB_LIMIT(takes - 1), &error));
    CHECK(m == NULL && strstr(error.message, "DLB_LIMIT allows more") != NULL);
    check_released(&f, 0, 0, 0, 0, 0);
    CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, options | DLB_LIMIT(takes), &error));
    CHECK_OK(dlb_message_encode_packed(&whole, m, &error));
    dlb_message_free(m);
    const uint64_t huge[] = {((uint64_t)1 << 47) - 1, (uint64_t)1 << 47, (uint64_t)1 << 48, ((uint64_t)1 << 48) + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) CHECK(DLB_LIMIT(huge[i]) == DLB_LIMIT(huge[0]));
    CHECK_INT(DLB_ERROR_FORMAT, dlb_message_decode_packed(&m, &whole, options | DLB_LIMIT(1), &error));
    CHECK_INT(DLB_ERROR_FORMAT, dlb_message_decode_packed(&m, &whole, options | DLB_LIMIT(takes - 1), &error));
    CHECK(m == NULL);
    CHECK_OK(dlb_message_decode_packed(&m, &whole, options | DLB_LIMIT(takes), &error));
    dlb_message_free(m);
    check_released(&f, 1, 1, 1, 1, 1);
    check_nothing_is_left(__func__);
  }
}

static void frames_out_are_the_frames_in(void) {
  fixture f;
  set_up(&f);
  dlb_message *m;
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, DLB_DECODE_MESSAGE_ONLY, &error));
  CHECK_INT(0, dlb_message_tensor_count(m));
  CHECK_INT(3, dlb_message_part_count(m));
  dlb_bytes text;
  CHECK_OK(dlb_message_metadata(&text, m, &error));
  CHECK(text.data == NULL);
  dlb_frame out[FRAMES], packed;
  for (size_t i = 0; i < FRAMES; i++) {
    memset(&out[i], 0xff, sizeof out[i]);
    CHECK_OK(dlb_message_frame(&out[i], m, i, &error));
    CHECK(out[i].data == f.frames[i].data);
    CHECK_INT(f.frames[i].size, out[i].size);
    CHECK_INT(f.frames[i].flags, out[i].flags);
  }
  CHECK_OK(dlb_message_encode_packed(&packed, m, &error));
  dlb_message_free(m);
  check_released(&f, 0, 0, 0, 0, 0);
  for (size_t i = FRAMES; i-- > 0;) {
    CHECK_INT(0, f.released[i]);
    out[i].release(out[i].ctx);
    CHECK_INT(1, f.released[i]);
  }

  /* The packed form: one frame, which is released once, with the last of its views. */
  int released = 0;
  dlb_frame whole = {packed.data, packed.size, count_release, &released, DLB_FRAME_WRITABLE};
  CHECK_OK(dlb_message_decode_packed(&m, &whole, 0, &error));
  CHECK_INT(3, dlb_message_tensor_count(m));
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_message_tensor_at(&t, m, 2, &error));
  CHECK((const char *)t->dl_tensor.data > (const char *)packed.data &&
        (const char *)t->dl_tensor.data < (const char *)packed.data + packed.size);
  int16_t last;
  memcpy(&last, t->dl_tensor.data, sizeof last);
  CHECK_INT(13, last);
  CHECK_INT(0, t->flags);
  dlb_frame again;
  CHECK_OK(dlb_message_encode_packed(&again, m, &error));
  CHECK(again.data != packed.data && again.size == packed.size);
  CHECK(memcmp(again.data, packed.data, packed.size) == 0);
  again.release(again.ctx);
  dlb_message_free(m);
  CHECK_INT(0, released);
  t->deleter(t);
  CHECK_INT(1, released);

  for (size_t size = 0; size < packed.size; size++) { /* a message cut anywhere is refused, and not taken over */
    if (size == packed.size - 4) continue;            /* here only the part without a tensor is missing */
    char *cut = malloc(size + 1);
    memcpy(cut, packed.data, size);
    dlb_frame frame = {cut, size, count_release, &released, 0};
    m = (void *)-1;
    dlb_error error;
    int32_t code = dlb_message_decode_packed(&m, &frame, 0, &error);
    CHECK_INT(DLB_ERROR_FORMAT, code);
    CHECK(m == NULL);
    CHECK_INT(1, released);
    free(cut);
  }
  packed.release(packed.ctx);
  check_nothing_is_left(__func__);
}

static void all_frames_come_and_go_at_once(void) {
  fixture f;
  set_up(&f);
  dlb_message *m;
  dlb_frame out[FRAMES + 1];
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));
  for (size_t count = 0; count <= FRAMES + 1; count++) {
    if (count == FRAMES) continue;
    memset(out, 0xff, sizeof out);
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_frames(out, count, m, &error));
    for (size_t i = 0; i < count; i++) CHECK(out[i].data == NULL && out[i].release == NULL && out[i].ctx == NULL);
  }
  CHECK_OK(dlb_message_frames(out, FRAMES, m, &error));
  dlb_message_free(m);
  for (int i = 0; i < FRAMES; i++) {
    CHECK(out[i].data == f.frames[i].data);
    CHECK_INT(f.frames[i].size, out[i].size);
    CHECK_INT(f.frames[i].flags, out[i].flags);
  }
  check_released(&f, 0, 0, 0, 0, 0);
  dlb_frames_release(out, 2);
  check_released(&f, 1, 1, 0, 0, 0);
  CHECK(out[1].data == NULL && out[1].release == NULL && out[2].release != NULL);
  dlb_frames_release(out, FRAMES); /* those that are released are zero */
  check_released(&f, 1, 1, 1, 1, 1);
  dlb_frames_release(NULL, FRAMES);
  dlb_frames_release(out, 0);
  check_nothing_is_left(__func__);
}

/* Messages in the packed form, one after another, are read one by one. Each message has a share of the frame. */
static void messages_are_read_one_after_another(void) {
  enum { COUNT = 3 };
  fixture f;
  set_up(&f);
  dlb_message *m = (void *)-1, *all[COUNT];
  dlb_frame one;
  dlb_error error;
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));
  CHECK_OK(dlb_message_encode_packed(&one, m, &error));
  dlb_message_free(m);
  char *data = malloc(COUNT * one.size + 1);
  for (int i = 0; i < COUNT; i++) memcpy(data + (size_t)i * one.size, one.data, one.size);
  int released = 0;
  dlb_frame whole = {data, COUNT * one.size, count_release, &released, DLB_FRAME_WRITABLE};
  size_t offset = 0;
  for (int i = 0; i < COUNT; i++) {
    CHECK_OK(dlb_message_decode_next(&all[i], &offset, &whole, offset, 0, &error));
    CHECK_INT((i + 1) * one.size, offset);
    CHECK_INT(3, dlb_message_tensor_count(all[i]));
    CHECK_INT(3, dlb_message_part_count(all[i]));
  }
  CHECK_INT(0, released);
  CHECK_OK(dlb_message_decode_next(&m, &offset, &whole, offset, 0, &error)); /* at the end there is none */
  CHECK(m == NULL);
  CHECK_INT(whole.size, offset);
  CHECK_INT(1, released); /* that call had nothing to hold the frame for */
  for (int i = 0; i < COUNT; i++) {
    DLManagedTensorVersioned *t;
    CHECK_OK(dlb_message_tensor_at(&t, all[i], 2, &error));
    dlb_message_free(all[i]);
    CHECK((const char *)t->dl_tensor.data > data + (size_t)i * one.size && (const char *)t->dl_tensor.data < data + (size_t)(i + 1) * one.size);
    CHECK_INT(1 + i, released);
    dlb_tensor_release(t);
    CHECK_INT(2 + i, released); /* each call has taken over a frame of its own */
  }
  released = 0;

  /* As one message, it is refused. */
  CHECK_INT(DLB_ERROR_FORMAT, dlb_message_decode_packed(&m, &whole, 0, &error));
  CHECK(m == NULL && strstr(error.message, "dlb_message_decode_next") != NULL);

  /* After an error nothing is set, and the frame is not taken over. */
  size_t next = 1;
  CHECK_INT(DLB_ERROR_ARGUMENT, dlb_message_decode_next(&m, &next, &whole, whole.size + 1, 0, &error));
  CHECK(m == NULL && next == 0 && strstr(error.message, "offset is ") != NULL);
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode_next(&m, NULL, &whole, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode_next(NULL, &next, &whole, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode_next(&m, &next, NULL, 0, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_decode_next(&m, &next, &whole, 0, 4, &error));
  next = 1;
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_message_decode_next(&m, &next, &whole, 1, 0, &error));
  CHECK(m == NULL && next == 0);
  next = 1;
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_message_decode_next(&m, &next, &whole, 0, DLB_LIMIT(FRAMES * 128), &error));
  CHECK(m == NULL && next == 0);
  whole.size--;
  CHECK_OK(dlb_message_decode_next(&m, &next, &whole, one.size, 0, &error));
  dlb_message_free(m);
  CHECK_INT(1, released);
  CHECK_INT(DLB_ERROR_FORMAT, dlb_message_decode_next(&m, &next, &whole, next, 0, &error)); /* the last one is cut */
  CHECK(strstr(error.message, "cut short") != NULL);
  CHECK_INT(1, released);
  free(data);
  one.release(one.ctx);

  /* A part that begins as a prefix header does has no packed form. */
  static const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  dlb_frame part = {"ZIO0TENS", 8, NULL, NULL, 0};
  CHECK_OK(dlb_message_encode_parts(&m, &header, (dlb_bytes){NULL, 0}, &part, 1, &error));
  CHECK_INT(DLB_ERROR_ARGUMENT, dlb_message_encode_packed(&one, m, &error));
  CHECK(strstr(error.message, "send separate frames") != NULL);
  dlb_message_free(m);
  check_nothing_is_left(__func__);
}

static void release_may_be_null_and_frames_empty(void) {
  dlb_message *m;
  char header[24] = {0};
  dlb_frame frames[] = {
      {"ZIO0FLOW", 8, NULL, NULL, 0},
      {header, 24, NULL, NULL, 0},
      {NULL, 0, NULL, NULL, DLB_FRAME_WRITABLE},
  };
  CHECK_OK(dlb_message_decode(&m, frames, 3, 0, &error));
  CHECK_INT(0, dlb_message_tensor_count(m));
  dlb_bytes text = {"?", 1};
  CHECK_OK(dlb_message_label(&text, m, &error));
  CHECK_INT(0, text.size);
  DLManagedTensorVersioned *part;
  CHECK_OK(dlb_message_part(&part, m, 0, &error));
  CHECK(part->dl_tensor.data == NULL);
  CHECK_INT(0, part->dl_tensor.shape[0]);
  CHECK_INT(0, part->flags);
  dlb_frame out;
  CHECK_OK(dlb_message_frame(&out, m, 2, &error));
  CHECK(out.data == NULL && out.size == 0 && out.release != NULL);
  dlb_message_free(m);
  out.release(out.ctx);
  dlb_tensor_release(part);
  check_nothing_is_left(__func__);
}

/* Each row makes one frame or argument of a valid message invalid. */
static void decode_refuses_and_releases_nothing(void) {
  static char label[600];
  static const struct {
    const char *name;
    int32_t code;
    size_t frame, count;
    dlb_frame spoilt;
    uint64_t options;
    const char *says;
  } rows[] = {
      {"no frames", DLB_ERROR_FORMAT, 0, 0, {"", 0, NULL, NULL, 0}, 0, "tens: "},
      {"one frame", DLB_ERROR_FORMAT, 2, 1, {"", 0, NULL, NULL, 0}, 0, "tens: "},
      {"data NULL", DLB_ERROR_NULL, 2, 5, {NULL, 24, NULL, NULL, 0}, 0, "frames[2].data is NULL, but size is 24 bytes"},
      {"2^63 bytes", DLB_ERROR_OVERFLOW, 3, 5, {"", (size_t)1 << 63, NULL, NULL, 0}, 0, "frames[3].data"},
      {"beyond memory", DLB_ERROR_OVERFLOW, 4, 5, {(char *)UINTPTR_MAX, 2, NULL, NULL, 0}, 0, "frames[4].data"},
      {"unknown flag", DLB_ERROR_ARGUMENT, 2, 5, {"", 0, NULL, NULL, 6}, 0, "frames[2].flags = 0x6"},
      {"unknown option", DLB_ERROR_ARGUMENT, 4, 5, {"", 0, NULL, NULL, 0}, 4, "options = 0x4"},
      {"no magic", DLB_ERROR_FORMAT, 0, 5, {"ZIQ0TENS{}", 10, NULL, NULL, 0}, 0, "tens: "},
      {"level 9", DLB_ERROR_FORMAT, 0, 5, {"ZIO9TENS{}", 10, NULL, NULL, 0}, 0, "tens: "},
      {"no TENS", DLB_ERROR_FORMAT, 0, 5, {"ZIO0TENS{}", 10, NULL, NULL, 0}, 0, "tens: "},
      {"short header", DLB_ERROR_FORMAT, 1, 5, {"", 0, NULL, NULL, 0}, 0, "tens: "},
      {"short part", DLB_ERROR_FORMAT, 2, 5, {"1234567890123456789012", 23, NULL, NULL, 0}, 0, "tens: "},
      {"label for one part more", DLB_ERROR_FORMAT, 2, 3, {"123456789012345678901234", 24, NULL, NULL, 0}, 0, "tens: "},
      {"long label", DLB_ERROR_FORMAT, 0, 5, {label, sizeof label, NULL, NULL, 0}, 0, "tens: "},
  };
  memset(label, '[', sizeof label);
  memcpy(label, "ZIO0TENS", 8);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    set_up(&f);
    if (rows[i].spoilt.data == NULL || rows[i].spoilt.size > 0 || rows[i].spoilt.flags != 0 || rows[i].frame == 1) {
      f.frames[rows[i].frame] = rows[i].spoilt;
      f.frames[rows[i].frame].release = count_release;
      f.frames[rows[i].frame].ctx = &f.released[rows[i].frame];
    }
    dlb_message *m = (void *)-1;
    dlb_error error;
    memset(&error, 0xff, sizeof error);
    int32_t code = dlb_message_decode(&m, f.frames, rows[i].count, rows[i].options, &error);
    if (code != rows[i].code || strstr(error.message, rows[i].says) == NULL) {
      fprintf(stderr, "%s: %s: %s\n", rows[i].name, dlb_error_name(code), error.message);
      exit(1);
    }
    CHECK_INT(code, error.code);
    CHECK(m == NULL);
    CHECK_INT(code, dlb_message_decode(&m, f.frames, rows[i].count, rows[i].options, NULL));
    check_released(&f, 0, 0, 0, 0, 0);
  }
  fixture f;
  set_up(&f);
  dlb_message *m = (void *)-1;
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode(NULL, f.frames, FRAMES, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode(&m, NULL, FRAMES, 0, &error));
  CHECK(m == NULL);
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_decode(&m, f.frames, SIZE_MAX / 2, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode_packed(NULL, f.frames, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode_packed(&m, NULL, 0, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_decode_packed(&m, f.frames, 4, &error));
  f.frames[0].data = NULL;
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_decode_packed(&m, f.frames, 0, &error));
  check_released(&f, 0, 0, 0, 0, 0);
  check_nothing_is_left(__func__);
}

/* The other tensors of the message, and its own metadata, can be read. */
static void an_unknown_packing_refuses_its_own_tensor(void) {
  static const char prefix[] =
      "ZIO0TENS{\"TENS\":{\"tensors\":["
      "{\"shape\":[100],\"word\":4,\"dtype\":\"f\",\"part\":7,\"packing\":\"sparse\",\"metadata\":{\"a\":1}},"
      "{\"shape\":[2],\"word\":1,\"dtype\":\"u\",\"part\":0}]}}";
  static const uint8_t header[24], part[] = {7, 8};
  const dlb_frame frames[] = {{.data = prefix, .size = sizeof prefix - 1}, {.data = header, .size = 24}, {.data = part, .size = 2}};
  dlb_message *m;
  CHECK_OK(dlb_message_decode(&m, frames, 3, 0, &error));
  CHECK_INT(2, dlb_message_tensor_count(m));
  DLManagedTensorVersioned *t = (void *)-1;
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_message_tensor_at(&t, m, 0, &error));
  CHECK(t == NULL);
  CHECK_INT(0, dlb_message_tensor_part(m, 0));
  CHECK_INT(0, dlb_message_copied(m, 0));
  dlb_bytes metadata;
  CHECK_OK(dlb_message_tensor_metadata(&metadata, m, 0, &error));
  CHECK(is(metadata, "{\"a\":1}"));
  CHECK_OK(dlb_message_tensor_at(&t, m, 1, &error));
  CHECK_INT(8, ((const uint8_t *)t->dl_tensor.data)[1]);
  t->deleter(t);
  dlb_message_free(m);
  check_nothing_is_left(__func__);
}

static DLManagedTensorVersioned *numbers(void) {
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_tensor_alloc(&t, (DLDataType){kDLInt, 16, 1}, 2, (const int64_t[]){5, 3}, &error));
  for (int i = 0; i < 15; i++) ((int16_t *)t->dl_tensor.data)[i] = (int16_t)i;
  return t;
}

/* The parts alias the tensor. A broadcast tensor is copied first, and its parts alias the copy. */
static void tensors_are_spread_and_joined(void) {
  for (int broadcast = 0; broadcast < 2; broadcast++) {
    DLManagedTensorVersioned *t = numbers();
    const int16_t *data = t->dl_tensor.data;
    if (broadcast) t->dl_tensor.strides[0] = 0;
    const dlb_message_tensor in[] = {{.tensor = numbers()}, {.tensor = t, .metadata = {"{\"a\":1}", 7}}};
    const dlb_message_fields fields = {.spread = 12}; /* two rows */
    dlb_message *m;
    CHECK_OK(dlb_message_encode(&m, &fields, in, 2, &error));
    CHECK_INT(2, dlb_message_tensor_count(m));
    CHECK_INT(6, dlb_message_part_count(m));
    CHECK_INT(3, dlb_message_tensor_part(m, 1));
    CHECK_INT(broadcast, dlb_message_copied(m, 1));
    DLManagedTensorVersioned *whole;
    CHECK_OK(dlb_message_tensor_at(&whole, m, 1, &error));
    CHECK_INT(5, whole->dl_tensor.shape[0]);
    dlb_frame frames[8];
    CHECK_OK(dlb_message_frames(frames, 8, m, &error));
    if (!broadcast) CHECK(frames[6].data == data + 6);
    CHECK(frames[6].data == (const int16_t *)whole->dl_tensor.data + 6);
    CHECK_INT(6, frames[7].size);
    whole->deleter(whole);
    dlb_message_free(m);

    dlb_message *read;
    const size_t takes = 8 * 128 + 48 * frames[0].size, pieces = 6 * (1600 + 2 * 64), copies = 2 * 30;
    CHECK_CODE(DLB_ERROR_FORMAT, dlb_message_decode(&read, frames, 8, DLB_LIMIT(takes + pieces - 1), &error));
    CHECK_OK(dlb_message_decode(&read, frames, 8, DLB_LIMIT(takes + pieces), &error));
    CHECK_INT(6, dlb_message_tensor_count(read));
    for (size_t i = 0; i < 6; i++) {
      DLManagedTensorVersioned *piece;
      CHECK_OK(dlb_message_tensor_at(&piece, read, i, &error));
      CHECK_INT(i, dlb_message_tensor_part(read, i));
      CHECK_INT(0, dlb_message_copied(read, i));
      CHECK_INT(i % 3 == 2 ? 1 : 2, piece->dl_tensor.shape[0]);
      CHECK_INT(3, piece->dl_tensor.shape[1]);
      CHECK(piece->dl_tensor.data == frames[2 + i].data);
      CHECK_INT(broadcast && i >= 3 ? 1 : 6 * (int)(i % 3) + 1, ((const int16_t *)piece->dl_tensor.data)[1]);
      dlb_bytes metadata;
      CHECK_OK(dlb_message_tensor_metadata(&metadata, read, i, &error));
      CHECK(i < 3 ? metadata.data == NULL : is(metadata, "{\"a\":1}"));
      piece->deleter(piece);
    }
    dlb_frame again[8];
    CHECK_OK(dlb_message_frames(again, 8, read, &error));
    dlb_message_free(read);
    CHECK_CODE(DLB_ERROR_FORMAT, dlb_message_decode(&read, again, 8, DLB_DECODE_JOIN | DLB_LIMIT(takes + copies - 1), &error));
    CHECK_OK(dlb_message_decode(&read, again, 8, DLB_DECODE_JOIN | DLB_LIMIT(takes + copies), &error));
    CHECK_INT(2, dlb_message_tensor_count(read));
    CHECK_INT(8, dlb_message_frame_count(read));
    CHECK_INT(3, dlb_message_tensor_part(read, 1));
    CHECK_INT(1, dlb_message_copied(read, 1));
    DLManagedTensorVersioned *joined;
    CHECK_OK(dlb_message_tensor_at(&joined, read, 1, &error));
    dlb_message_free(read);
    CHECK_INT(DLPACK_FLAG_BITMASK_IS_COPIED, joined->flags);
    CHECK_INT(0, (uintptr_t)joined->dl_tensor.data % 256);
    for (int i = 0; i < 15; i++) CHECK_INT(broadcast ? i % 3 : i, ((const int16_t *)joined->dl_tensor.data)[i]);
    joined->deleter(joined);
    check_nothing_is_left(__func__);
  }
}

/* NULL and invalid addresses instead of a message, indexes out of range, outputs that are not initialised. */
static void accessors_refuse_what_is_no_message(void) {
  fixture f;
  set_up(&f);
  dlb_message *good;
  CHECK_OK(dlb_message_decode(&good, f.frames, FRAMES, 0, &error));
  static uint64_t zeroes[64], garbage[64];
  memset(garbage, 0xa5, sizeof garbage);
  const struct {
    const dlb_message *message;
    int32_t code;
  } rows[] = {
      {NULL, DLB_ERROR_NULL},
      {(dlb_message *)zeroes, DLB_ERROR_ARGUMENT},
      {(dlb_message *)garbage, DLB_ERROR_ARGUMENT},
      {(dlb_message *)((char *)garbage + 3), DLB_ERROR_ARGUMENT},
      {good, DLB_ERROR_ARGUMENT}, /* with an index that is too large */
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const dlb_message *m = rows[i].message;
    dlb_header header;
    dlb_bytes bytes;
    dlb_frame frame;
    DLManagedTensorVersioned *t;
    size_t found;
    for (size_t index = 5; index != 4; index = index == 5 ? SIZE_MAX : 4) {
#define CHECK_EMPTY(out, call)                                               \
  memset(&out, 0xff, sizeof out);                                            \
  CHECK_CODE(rows[i].code, call);                                            \
  for (size_t k = 0; k < sizeof out; k++) CHECK_INT(0, ((char *)&out)[k])
      CHECK_EMPTY(bytes, dlb_message_tensor_metadata(&bytes, m, index, &error));
      CHECK_EMPTY(bytes, dlb_message_tensor_name(&bytes, m, index, &error));
      CHECK_EMPTY(frame, dlb_message_frame(&frame, m, index, &error));
      CHECK_EMPTY(t, dlb_message_part(&t, m, index, &error));
      CHECK_EMPTY(t, dlb_message_tensor_at(&t, m, index, &error));
      CHECK_EMPTY(found, dlb_message_find(&found, m, "no name", &error));
      CHECK_INT(0, dlb_message_copied(m, index));
      CHECK_INT(0, dlb_message_tensor_part(m, index));
      if (m == good) continue;
      CHECK_EMPTY(header, dlb_message_header(&header, m, &error));
      CHECK_EMPTY(bytes, dlb_message_label(&bytes, m, &error));
      CHECK_EMPTY(bytes, dlb_message_metadata(&bytes, m, &error));
      CHECK_EMPTY(frame, dlb_message_encode_packed(&frame, m, &error));
      CHECK_INT(0, dlb_message_part_count(m));
      CHECK_INT(0, dlb_message_tensor_count(m));
      CHECK_INT(0, dlb_message_frame_count(m));
      dlb_message_free((dlb_message *)m);
#undef CHECK_EMPTY
    }
  }
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_header(NULL, good, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_label(NULL, good, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_metadata(NULL, good, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_part(NULL, good, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_tensor_at(NULL, good, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_tensor_metadata(NULL, good, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_tensor_name(NULL, good, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_find(NULL, good, "first", &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_frame(NULL, good, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode_packed(NULL, good, &error));
  CHECK_INT(DLB_ERROR_NULL, dlb_message_encode_packed(NULL, good, NULL));
  dlb_counters_read(NULL, sizeof(dlb_counters));
  dlb_message_free(good);
  check_released(&f, 1, 1, 1, 1, 1);
  check_nothing_is_left(__func__);
}

static void make_keeps_label_and_parts_as_they_are(void) {
  int released[2] = {0, 0};
  float data[2] = {1, 2};
  dlb_frame parts[] = {
      {data, sizeof data, count_release, &released[0], DLB_FRAME_WRITABLE},
      {"abc", 3, count_release, &released[1], 0},
  };
  dlb_header header = {8, {'F', 'L', 'O', 'W'}, 1, 2, UINT64_MAX}, read;
  dlb_bytes label = {"\0\xff not JSON", 11}, text;
  dlb_message *m = (void *)-1;
  CHECK_OK(dlb_message_encode_parts(&m, &header, label, parts, 2, &error));
  CHECK_OK(dlb_message_label(&text, m, &error));
  CHECK(text.size == 11 && memcmp(text.data, label.data, 11) == 0);
  CHECK_OK(dlb_message_header(&read, m, &error));
  CHECK(memcmp(&read, &header, sizeof read) == 0);
  CHECK_INT(0, dlb_message_tensor_count(m));
  dlb_frame out[4];
  for (size_t i = 0; i < 4; i++) CHECK_OK(dlb_message_frame(&out[i], m, i, &error));
  CHECK(out[2].data == data && out[3].data == parts[1].data);
  CHECK_INT(8 + 11, out[0].size);
  CHECK(memcmp(out[0].data, "ZIO8FLOW\0\xff not JSON", 19) == 0);
  CHECK_INT(24, out[1].size);
  CHECK_INT(2, ((const char *)out[1].data)[8]);
  dlb_message_free(m);
  CHECK_OK(dlb_message_decode(&m, out, 4, 0, &error)); /* takes the frames over */
  CHECK_INT(8, dlb_message_header(&read, m, NULL) + read.level);
  dlb_message_free(m);
  CHECK_INT(1, released[0]);
  CHECK_INT(1, released[1]);

  header.level = 9;
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode_parts(&m, &header, label, parts, 2, &error));
  CHECK(m == NULL);
  header.level = -1;
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode_parts(&m, &header, label, parts, 2, &error));
  header.level = 0;
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode_parts(&m, NULL, label, parts, 2, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode_parts(NULL, &header, label, parts, 2, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode_parts(&m, &header, label, NULL, 2, &error));
  label.data = NULL;
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode_parts(&m, &header, label, parts, 2, &error));
  parts[1].data = NULL;
  label.size = 0;
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode_parts(&m, &header, label, parts, 2, &error));
  CHECK_INT(2, released[0] + released[1]);
  CHECK_OK(dlb_message_encode_parts(&m, &header, label, NULL, 0, &error));
  CHECK_INT(2, dlb_message_frame_count(m));
  dlb_message_free(m);
  check_nothing_is_left(__func__);
}

/* Four tensors over 6 floats: row-major, transposed and read-only, reversed, and broadcast. */
enum { TENSORS = 4 };

typedef struct {
  float data[6];
  int64_t shapes[TENSORS][2], strides[TENSORS][2];
  int deletes[TENSORS];
  DLManagedTensorVersioned made[TENSORS];
  dlb_message_tensor in[TENSORS];
} producer;

static void set_up_producer(producer *p) {
  static const int64_t shapes[TENSORS][2] = {{2, 3}, {3, 2}, {2, 3}, {2, 3}};
  static const int64_t strides[TENSORS][2] = {{3, 1}, {1, 3}, {-3, 1}, {0, 1}};
  memset(p, 0, sizeof *p);
  memcpy(p->shapes, shapes, sizeof shapes);
  memcpy(p->strides, strides, sizeof strides);
  for (int i = 0; i < 6; i++) p->data[i] = (float)i;
  for (int i = 0; i < TENSORS; i++) {
    p->made[i] = made_by_producer(p->data, p->shapes[i], &p->deletes[i]);
    p->made[i].dl_tensor.strides = p->strides[i];
    p->in[i].tensor = &p->made[i];
  }
  p->made[1].flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  p->made[2].dl_tensor.byte_offset = 12;
}

static void encode_aliases_what_has_no_gaps(void) {
  producer p;
  set_up_producer(&p);
  p.in[1].metadata = (dlb_bytes){"{ \"a\": 1 }", 10};
  dlb_message_fields fields;
  memset(&fields, 0, sizeof fields);
  fields.header.level = 2;
  fields.header.seqno = 9;
  fields.label = (dlb_bytes){"{\"more\":[1,2]}", 14};
  fields.metadata = (dlb_bytes){"{\"run\":8}", 9};
  dlb_message *m = (void *)-1;
  CHECK_OK(dlb_message_encode(&m, &fields, p.in, TENSORS, &error));
  static const int copied[TENSORS] = {0, 0, 0, 1};
  for (int i = 0; i < TENSORS; i++) {
    CHECK_INT(copied[i], dlb_message_copied(m, (size_t)i));
    CHECK_INT(copied[i], p.deletes[i]); /* a tensor that was copied is released immediately */
  }
  dlb_header header;
  CHECK_OK(dlb_message_header(&header, m, &error));
  CHECK(memcmp(header.form, "TENS", 4) == 0);
  CHECK_INT(2, header.level);
  CHECK_INT(9, header.seqno);
  dlb_bytes text;
  CHECK_OK(dlb_message_metadata(&text, m, &error));
  CHECK(is(text, "{\"run\":8}"));
  CHECK_OK(dlb_message_tensor_metadata(&text, m, 1, &error));
  CHECK(is(text, "{ \"a\": 1 }"));
  CHECK_OK(dlb_message_label(&text, m, &error));
  CHECK(is(text,
           "{\"TENS\":{\"metadata\":{\"run\":8},\"tensors\":["
           "{\"dtype\":\"f\",\"part\":0,\"shape\":[2,3],\"word\":4},"
           "{\"dtype\":\"f\",\"metadata\":{\"a\":1},\"order\":[0,1],\"part\":1,\"shape\":[3,2],\"word\":4},"
           "{\"ascend\":[false,true],\"dtype\":\"f\",\"part\":2,\"shape\":[2,3],\"word\":4},"
           "{\"dtype\":\"f\",\"part\":3,\"shape\":[2,3],\"word\":4}]},\"more\":[1,2]}"));

  dlb_frame out[2 + TENSORS];
  for (size_t i = 0; i < 2 + TENSORS; i++) CHECK_OK(dlb_message_frame(&out[i], m, i, &error));
  for (size_t i = 0; i < 3; i++) {
    CHECK(out[2 + i].data == p.data);
    CHECK_INT(i == 1 ? 0 : DLB_FRAME_WRITABLE, out[2 + i].flags);
  }
  CHECK(out[5].data != p.data);
  static const float broadcast[] = {0, 1, 2, 0, 1, 2};
  CHECK_INT(sizeof broadcast, out[5].size);
  CHECK(memcmp(out[5].data, broadcast, sizeof broadcast) == 0);

  /* The encoded message and the message decoded from its frames have the same tensors. */
  dlb_message *read;
  CHECK_OK(dlb_message_decode(&read, out, 2 + TENSORS, 0, &error));
  for (size_t i = 0; i < TENSORS; i++) {
    DLManagedTensorVersioned *a, *b;
    CHECK_OK(dlb_message_tensor_at(&a, m, i, &error));
    CHECK_OK(dlb_message_tensor_at(&b, read, i, &error));
    CHECK(a->dl_tensor.data == b->dl_tensor.data);
    CHECK_INT(i == 1 ? DLPACK_FLAG_BITMASK_READ_ONLY : 0, a->flags);
    CHECK_INT(a->flags, b->flags);
    CHECK_INT(2, a->dl_tensor.ndim);
    CHECK_INT(a->dl_tensor.ndim, b->dl_tensor.ndim);
    CHECK(memcmp(a->dl_tensor.shape, b->dl_tensor.shape, 16) == 0);
    CHECK(memcmp(a->dl_tensor.strides, b->dl_tensor.strides, 16) == 0);
    CHECK(memcmp(&a->dl_tensor.dtype, &b->dl_tensor.dtype, 4) == 0);
    dlb_tensor_release(a);
    dlb_tensor_release(b);
  }
  dlb_message_free(m);
  for (int i = 0; i < TENSORS; i++) CHECK_INT(copied[i], p.deletes[i]);
  dlb_message_free(read); /* and the frames with it */
  for (int i = 0; i < TENSORS; i++) CHECK_INT(1, p.deletes[i]);
  check_nothing_is_left(__func__);
}

static void encode_carries_every_type(void) {
  static const struct {
    DLDataType dtype;
    uint64_t flags;
    size_t size; /* of 3 elements */
  } rows[] = {
      {{kDLInt, 8, 1}, 0, 3},
      {{kDLComplex, 128, 1}, 0, 48},
      {{kDLBool, 8, 1}, 0, 3},
      {{kDLFloat, 16, 1}, 0, 6},
      {{kDLBfloat, 16, 1}, 0, 6},
      {{kDLFloat8_e4m3fn, 8, 1}, 0, 3},
      {{kDLFloat, 32, 4}, 0, 48},
      {{kDLFloat4_e2m1fn, 4, 1}, 0, 2},
      {{kDLFloat4_e2m1fn, 4, 1}, DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED, 3},
      {{kDLFloat4_e2m1fn, 4, 2}, 0, 3},
      {{kDLFloat6_e2m3fn, 6, 1}, 0, 3},
  };
  static int64_t data[8], shape[] = {3};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int deletes = 0;
    DLManagedTensorVersioned made = made_by_producer(NULL, shape, &deletes), *t;
    made.dl_tensor.ndim = 1;
    made.dl_tensor.data = data;
    made.dl_tensor.dtype = rows[i].dtype;
    made.flags = rows[i].flags;
    dlb_message_tensor in = {&made, {NULL, 0}};
    dlb_message *m, *read;
    CHECK_OK(dlb_message_encode(&m, NULL, &in, 1, &error));
    dlb_frame out[3];
    for (size_t k = 0; k < 3; k++) CHECK_OK(dlb_message_frame(&out[k], m, k, &error));
    CHECK_INT(rows[i].size, out[2].size);
    dlb_bytes text;
    CHECK_OK(dlb_message_metadata(&text, m, &error));
    CHECK(is(text, "{}"));
    CHECK_OK(dlb_message_decode(&read, out, 3, 0, &error));
    CHECK_OK(dlb_message_metadata(&text, read, &error));
    CHECK(is(text, "{}"));
    CHECK_OK(dlb_message_tensor_at(&t, read, 0, &error));
    CHECK(t->dl_tensor.data == data);
    CHECK(memcmp(&t->dl_tensor.dtype, &rows[i].dtype, 4) == 0);
    CHECK_INT(rows[i].flags, t->flags);
    dlb_message_free(m);
    dlb_message_free(read);
    CHECK_INT(0, deletes);
    dlb_tensor_release(t);
    CHECK_INT(1, deletes);
  }
  dlb_message *m;
  CHECK_OK(dlb_message_encode(&m, NULL, NULL, 0, &error));
  CHECK_INT(0, dlb_message_tensor_count(m));
  CHECK_INT(2, dlb_message_frame_count(m));
  dlb_message_free(m);
  check_nothing_is_left(__func__);
}

/* A tensor without elements is taken over, encoded, and deleted once like any other. */
static void encode_takes_empty_tensors(void) {
  int deletes = 0;
  int64_t shape[] = {0, 3};
  DLManagedTensorVersioned made = made_by_producer(NULL, shape, &deletes), *t;
  dlb_message_tensor in = {&made, {NULL, 0}};
  dlb_message *m;
  CHECK_OK(dlb_message_encode(&m, NULL, &in, 1, &error));
  CHECK_OK(dlb_message_tensor_at(&t, m, 0, &error));
  CHECK(t->dl_tensor.data == NULL);
  CHECK_INT(0, t->dl_tensor.shape[0]);
  CHECK_INT(3, t->dl_tensor.shape[1]);
  CHECK_INT(0, deletes);
  dlb_message_free(m);
  dlb_tensor_release(t);
  CHECK_INT(1, deletes);
  made.deleter = NULL;
  CHECK_OK(dlb_message_encode(&m, NULL, &in, 1, &error));
  dlb_message_free(m);
  check_nothing_is_left(__func__);
}

/* Names are written into the metadata, and found in the encoded and in the decoded message. */
static void named_tensors_are_found(void) {
  producer p;
  set_up_producer(&p);
  p.in[0].name = "w";
  p.in[1].metadata = (dlb_bytes){"{\"unit\":\"m\"}", 12};
  p.in[2].metadata = (dlb_bytes){"{\"unit\":\"m\"}", 12};
  p.in[2].name = "\xc3\xa9\n\"";
  p.in[3].metadata = (dlb_bytes){"{\"name\":\"x\"}", 12};
  dlb_message *m, *read;
  CHECK_OK(dlb_message_encode(&m, NULL, p.in, TENSORS, &error));
  dlb_frame out[2 + TENSORS];
  CHECK_OK(dlb_message_frames(out, 2 + TENSORS, m, &error));
  CHECK_OK(dlb_message_decode(&read, out, 2 + TENSORS, 0, &error));
  const dlb_message *both[] = {m, read};
  for (int k = 0; k < 2; k++) {
    static const char *const names[TENSORS] = {"w", NULL, "\xc3\xa9\n\"", "x"};
    static const char *const metadata[TENSORS] = {"{\"name\":\"w\"}", "{\"unit\":\"m\"}",
                                                  "{\"name\":\"\xc3\xa9\\n\\\"\",\"unit\":\"m\"}", "{\"name\":\"x\"}"};
    for (size_t i = 0; i < TENSORS; i++) {
      dlb_bytes text;
      CHECK_OK(dlb_message_tensor_metadata(&text, both[k], i, &error));
      CHECK(is(text, metadata[i]));
      CHECK_OK(dlb_message_tensor_name(&text, both[k], i, &error));
      if (names[i] == NULL) {
        CHECK(text.data == NULL && text.size == 0);
        continue;
      }
      CHECK(is(text, names[i]));
      size_t found = SIZE_MAX;
      CHECK_OK(dlb_message_find(&found, both[k], names[i], &error));
      CHECK_INT(i, found);
    }
    static const char *const missing[] = {"", "y", "ww", "W"};
    for (int i = 0; i < 4; i++) {
      size_t found = 7;
      CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_find(&found, both[k], missing[i], &error));
      CHECK_INT(0, found);
    }
    CHECK_TEXT(DLB_ERROR_ARGUMENT, "dlb_message_find: none of the 4 tensors is named \"W\"; dlb_message_tensor_name returns",
               dlb_message_find(&(size_t){7}, both[k], "W", &error));
    CHECK_CODE(DLB_ERROR_NULL, dlb_message_find(&(size_t){7}, both[k], NULL, &error));
  }
  dlb_message_free(read);
  dlb_message_free(m);
  check_nothing_is_left(__func__);
}

/* Several tensors may have one name, in a message of another writer, and as the pieces of one tensor, which all have its name. */
static void a_name_of_several_tensors_is_an_error(void) {
  const dlb_message_tensor in[] = {{.tensor = numbers(), .name = "w"}, {.tensor = numbers(), .metadata = {"{\"name\":\"b\"}", 12}}};
  const dlb_message_fields fields = {.spread = 12};
  dlb_message *m, *read;
  CHECK_OK(dlb_message_encode(&m, &fields, in, 2, &error));
  size_t found;
  CHECK_OK(dlb_message_find(&found, m, "b", &error));
  CHECK_INT(1, found);
  dlb_frame frames[8];
  for (int join = 0; join < 2; join++) {
    CHECK_OK(dlb_message_frames(frames, 8, m, &error));
    CHECK_OK(dlb_message_decode(&read, frames, 8, join ? DLB_DECODE_JOIN : 0, &error));
    if (join) {
      CHECK_OK(dlb_message_find(&found, read, "b", &error));
      CHECK_INT(1, found);
    } else {
      CHECK_TEXT(DLB_ERROR_FORMAT, "dlb_message_find: tensors 3 and 4 are both named \"b\"; if they are pieces of one tensor, DLB_DECODE_JOIN",
                 dlb_message_find(&found, read, "b", &error));
      CHECK_INT(0, found);
    }
    dlb_message_free(read);
  }
  dlb_message_free(m);
  check_nothing_is_left(__func__);
}

static void spoil_version(producer *p, dlb_message_fields *f) { p->made[2].version.major = 2, (void)f; }
static void spoil_pointer(producer *p, dlb_message_fields *f) { p->in[2].tensor = NULL, (void)f; }
static void spoil_twice(producer *p, dlb_message_fields *f) { p->in[2].tensor = p->in[0].tensor, (void)f; }
static void spoil_shape(producer *p, dlb_message_fields *f) { p->shapes[2][1] = -3, (void)f; }
static void spoil_size(producer *p, dlb_message_fields *f) { p->shapes[2][1] = INT64_MAX, (void)f; }
static void spoil_room(producer *p, dlb_message_fields *f) { p->shapes[2][0] = INT64_C(1) << 40, p->strides[2][0] = 0, (void)f; }
static void spoil_dtype(producer *p, dlb_message_fields *f) { p->made[2].dl_tensor.dtype.code = 77, (void)f; }
static void spoil_device(producer *p, dlb_message_fields *f) { p->made[2].dl_tensor.device.device_type = kDLCUDA, (void)f; }
static void spoil_metadata(producer *p, dlb_message_fields *f) { p->in[2].metadata = (dlb_bytes){"[1]", 3}, (void)f; }
static void spoil_metadata_data(producer *p, dlb_message_fields *f) { p->in[2].metadata.size = 3, (void)f; }
static void spoil_name(producer *p, dlb_message_fields *f) { p->in[2].name = "", p->in[3].name = "\xff", (void)f; }
static void spoil_names(producer *p, dlb_message_fields *f) { p->in[1].name = p->in[3].name = "w", (void)f; }
static void spoil_name_metadata(producer *p, dlb_message_fields *f) {
  p->in[2].name = "w", p->in[2].metadata = (dlb_bytes){"{\"name\":\"x\"}", 12}, (void)f;
}
static void spoil_level(producer *p, dlb_message_fields *f) { f->header.level = 9, (void)p; }
static void spoil_label(producer *p, dlb_message_fields *f) { f->label = (dlb_bytes){"{\"a\":}", 6}, (void)p; }
static void spoil_label_tens(producer *p, dlb_message_fields *f) { f->label = (dlb_bytes){"{\"TENS\":{}}", 11}, (void)p; }
static void spoil_label_data(producer *p, dlb_message_fields *f) { f->label.size = 6, (void)p; }
static void spoil_fields_metadata(producer *p, dlb_message_fields *f) { f->metadata = (dlb_bytes){"7", 1}, (void)p; }

static void encode_refuses_and_deletes_nothing(void) {
  static const struct {
    void (*spoil)(producer *, dlb_message_fields *);
    int32_t code;
    const char *says;
  } rows[] = {
      {spoil_version, DLB_ERROR_VERSION, "dlb_message_encode: tensors[2].tensor: DLPack version 2.3 is not supported, only 1.x is"},
      {spoil_pointer, DLB_ERROR_NULL, "tensors[2].tensor is NULL"},
      {spoil_twice, DLB_ERROR_ARGUMENT, "is passed twice"},
      {spoil_shape, DLB_ERROR_LAYOUT, "tensors[2].tensor: shape[1] is -3, must not be negative"},
      {spoil_size, DLB_ERROR_OVERFLOW, "tensors[2].tensor: "},
      {spoil_room, DLB_ERROR_MEMORY, "tensor 2: no memory for 13194139533312 bytes"},
      {spoil_dtype, DLB_ERROR_DTYPE, "tensors[2].tensor: dtype"},
      {spoil_device, DLB_ERROR_DEVICE, "tensor 2"},
      {spoil_metadata, DLB_ERROR_ARGUMENT, "tensor 2"},
      {spoil_metadata_data, DLB_ERROR_NULL, "tensors[2].metadata.data is NULL, but size is 3 bytes"},
      {spoil_name, DLB_ERROR_ARGUMENT, "tensor 3: tens: name \"\\xff\" is not UTF-8"},
      {spoil_names, DLB_ERROR_ARGUMENT, "tensors 1 and 3 are both named \"w\""},
      {spoil_name_metadata, DLB_ERROR_ARGUMENT, "tensor 2: tens: name \"w\", but the metadata have the name \"\\\"x\\\"\""},
      {spoil_level, DLB_ERROR_ARGUMENT, "level"},
      {spoil_label, DLB_ERROR_ARGUMENT, "tens: "},
      {spoil_label_tens, DLB_ERROR_ARGUMENT, "tens: "},
      {spoil_label_data, DLB_ERROR_NULL, "fields->label.data is NULL"},
      {spoil_fields_metadata, DLB_ERROR_ARGUMENT, "metadata"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    producer p;
    set_up_producer(&p);
    dlb_message_fields fields;
    memset(&fields, 0, sizeof fields);
    rows[i].spoil(&p, &fields);
    dlb_message *m = (void *)-1;
    dlb_error error;
    memset(&error, 0xff, sizeof error);
    int32_t code = dlb_message_encode(&m, &fields, p.in, TENSORS, &error);
    if (code != rows[i].code || error.code != code || strstr(error.message, rows[i].says) == NULL) {
      fprintf(stderr, "%s: row %zu: %s: %s\n", __func__, i, dlb_error_name(code), error.message);
      exit(1);
    }
    CHECK(m == NULL);
    for (int k = 0; k < TENSORS; k++) CHECK_INT(0, p.deletes[k]);
    CHECK_INT(code, dlb_message_encode(&m, &fields, p.in, TENSORS, NULL));
  }
  producer p;
  set_up_producer(&p);
  dlb_message *m = (void *)-1;
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode(NULL, NULL, p.in, TENSORS, &error));
  CHECK_CODE(DLB_ERROR_NULL, dlb_message_encode(&m, NULL, NULL, TENSORS, &error));
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode(&m, NULL, p.in, SIZE_MAX / 2, &error));
  CHECK(m == NULL);
  check_nothing_is_left(__func__);
}

enum { THREADS = 8, ROUNDS = 300 };

static void *decode_and_encode(void *ctx) {
  (void)ctx;
  for (int i = 0; i < ROUNDS; i++) {
    fixture f;
    set_up(&f);
    dlb_message *m, *again;
    CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));
    dlb_message_tensor in[3] = {{NULL, {NULL, 0}}};
    for (size_t k = 0; k < 3; k++) CHECK_OK(dlb_message_tensor_at(&in[k].tensor, m, k, &error));
    dlb_message_free(m);
    CHECK_OK(dlb_message_encode(&again, NULL, in, 3, &error));
    dlb_frame packed;
    CHECK_OK(dlb_message_encode_packed(&packed, again, &error));
    check_released(&f, 1, 1, 0, 0, 1);
    dlb_message_free(again);
    check_released(&f, 1, 1, 1, 1, 1);
    packed.release(packed.ctx);
  }
  return NULL;
}

static void threads_make_messages_at_once(void) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, decode_and_encode, NULL));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  check_nothing_is_left(__func__);
}

static DLManagedTensorVersioned *shared[THREADS][ROUNDS];

static void *delete_shared(void *row) {
  DLManagedTensorVersioned **tensors = row;
  for (int i = 0; i < ROUNDS; i++) tensors[i]->deleter(tensors[i]);
  return NULL;
}

/* The last share of a frame may end on any of 8 threads. */
static void threads_delete_what_shares_a_frame(void) {
  fixture f;
  set_up(&f);
  dlb_message *m;
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));
  for (int i = 0; i < THREADS; i++) {
    for (int k = 0; k < ROUNDS; k++) CHECK_OK(dlb_message_tensor_at(&shared[i][k], m, 1, &error));
  }
  dlb_message_free(m);
  check_released(&f, 1, 1, 0, 1, 1);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, delete_shared, shared[i]));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  check_released(&f, 1, 1, 1, 1, 1);
  check_nothing_is_left(__func__);
}

/* A forked child can use and release messages and tensors; functions that need Go return an error immediately. The
 * parent is not affected. */
static void a_forked_child_is_refused_what_needs_go(void) {
  fixture f;
  producer p;
  set_up(&f);
  set_up_producer(&p);
  dlb_message *m, *made;
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));
  CHECK_OK(dlb_message_encode(&made, NULL, p.in, TENSORS, &error));
  CHECK_OK(dlb_message_tensor_at(&t, m, 0, &error));
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20); /* ends a call that hangs */
    dlb_message *no = (void *)-1;
    dlb_frame packed;
    dlb_header header = {0};
    CHECK_CODE(DLB_ERROR_FORKED, dlb_message_decode(&no, f.frames, FRAMES, 0, &error));
    CHECK(no == NULL);
    CHECK_CODE(DLB_ERROR_FORKED, dlb_message_decode_packed(&no, f.frames, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_message_decode_next(&no, &(size_t){0}, f.frames, 0, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_message_encode_parts(&no, &header, (dlb_bytes){0}, NULL, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_message_encode(&no, NULL, NULL, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, dlb_message_encode_packed(&packed, m, &error));
    CHECK(packed.release == NULL);
    check_released(&f, 0, 0, 0, 0, 0);
    DLManagedTensorVersioned *again, *copy;
    CHECK_OK(dlb_message_tensor_at(&again, m, 1, &error));
    CHECK_OK(dlb_tensor_copy(&copy, again, &error));
    CHECK(((float *)copy->dl_tensor.data)[1] == 3);
    dlb_frame frame;
    CHECK_OK(dlb_message_frame(&frame, made, 5, &error)); /* elements that Go has copied */
    CHECK(((const float *)frame.data)[4] == 1);
    frame.release(frame.ctx);
    dlb_message_free(m);
    dlb_message_free(made);
    dlb_tensor_release(copy);
    dlb_tensor_release(again);
    check_released(&f, 1, 1, 0, 1, 1);
    t->deleter(t);
    check_released(&f, 1, 1, 1, 1, 1);
    for (int i = 0; i < TENSORS; i++) CHECK_INT(1, p.deletes[i]);
    dlb_counters counters;
    dlb_counters_read(&counters, sizeof counters);
    CHECK_INT(0, counters.messages);
    CHECK_INT(0, counters.imports);
    _exit(0);
  }
  int status = -1;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  check_released(&f, 0, 0, 0, 0, 0);
  dlb_message_free(m);
  dlb_message_free(made);
  dlb_tensor_release(t);
  check_released(&f, 1, 1, 1, 1, 1);
  check_nothing_is_left(__func__);
}

/* A signal handler that the program has installed is still called. */
static volatile sig_atomic_t signals;

static void on_signal(int number) { signals += number == SIGUSR1; }

static void signal_handlers_stay(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, NULL);
  fixture f;
  set_up(&f);
  dlb_message *m;
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));
  raise(SIGUSR1);
  CHECK_INT(1, signals);
  dlb_message_free(m);
}

static void check_double_deletes(uint64_t want) {
  dlb_counters now;
  dlb_counters_read(&now, sizeof now);
  CHECK_INT(want, now.double_deletes);
}

/* Every function that takes a frame refuses it for the given reason. */
static void check_frame_is_refused(const dlb_frame *frame, const char *why) {
  static const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  dlb_message *m;
  dlb_value v;
  dlb_error error;
  const int32_t codes[] = {
      dlb_message_decode(&m, frame, 1, 0, NULL),
      dlb_message_decode_packed(&m, frame, 0, NULL),
      dlb_message_decode_next(&m, &(size_t){0}, frame, 0, 0, NULL),
      dlb_message_encode_parts(&m, &header, (dlb_bytes){NULL, 0}, frame, 1, NULL),
  };
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) CHECK_INT(DLB_ERROR_ARGUMENT, codes[i]);
  EACH_FORMAT(f) {
    CHECK_INT(DLB_ERROR_ARGUMENT, f->decode(&v, frame, 0, &error));
    CHECK(strstr(error.message, why) != NULL);
    if (f->decode_batch != NULL) CHECK_INT(DLB_ERROR_ARGUMENT, f->decode_batch(&v, 1, &(size_t){0}, frame, 0, 0, NULL));
  }
}

/* A frame of the library is recognised by release and ctx, whatever the other fields are, and also in a copy of the
 * struct. */
static void frames_that_are_not_the_callers_are_refused(void) {
  static const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  fixture f;
  set_up(&f);
  dlb_message *m, *whole, *twice;
  dlb_frame part, copy, packed;
  CHECK_OK(dlb_message_decode(&m, f.frames, FRAMES, 0, &error));

  CHECK_OK(dlb_message_frame(&part, m, 4, &error));
  CHECK_CODE(DLB_ERROR_FORMAT, dlb_message_decode_packed(&whole, &part, 0, &error)); /* after an error the caller still owns it */
  dlb_frame both[] = {part, part};
  CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode_parts(&twice, &header, (dlb_bytes){NULL, 0}, both, 2, &error));
  CHECK(twice == NULL);
  copy = part;
  copy.data = "abcdef", copy.size = 6, copy.flags = DLB_FRAME_WRITABLE;
  part.release(part.ctx);
  check_frame_is_refused(&part, "was released");
  check_frame_is_refused(&copy, "was released");
  check_double_deletes(0);
  copy.release(copy.ctx);
  check_double_deletes(1);

  CHECK_OK(dlb_message_encode_packed(&packed, m, &error));
  copy = packed;
  CHECK_OK(dlb_message_decode_packed(&whole, &packed, 0, &error));
  check_frame_is_refused(&packed, "was taken over");
  check_frame_is_refused(&copy, "was taken over");
  packed.release(packed.ctx); /* the message owns it, so that this has no effect */
  check_double_deletes(2);
  DLManagedTensorVersioned *t;
  CHECK_OK(dlb_message_tensor_at(&t, whole, 0, &error));
  dlb_message_free(whole);
  check_frame_is_refused(&packed, "was taken over");
  CHECK(((float *)t->dl_tensor.data)[5] == 5);
  dlb_tensor_release(t);
  check_frame_is_refused(&packed, "was released");
  dlb_message_free(m);
  check_released(&f, 1, 1, 1, 1, 1);
}

/* A tensor of the library is taken over once, by any function. */
static void tensors_that_are_not_the_callers_are_refused(void) {
  static const struct {
    int64_t strides[2];
    int copied;
  } rows[] = {{{3, 1}, 0}, {{0, 1}, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    float data[6] = {0};
    int64_t shape[] = {2, 3}, strides[] = {rows[i].strides[0], rows[i].strides[1]};
    int released = 0;
    DLTensor view = {.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = FLOAT32, .shape = shape, .strides = strides};
    DLManagedTensorVersioned *t, *next;
    DLManagedTensor *old;
    dlb_message *m, *none;
    char room[256];
    size_t size;
    CHECK_OK(dlb_tensor_lend(&t, &view, 0, count_release, &released, &error));
    CHECK_OK(dlb_tensor_lend(&next, &view, 0, count_release, &released, &error));
    dlb_message_tensor in = {t, {NULL, 0}}, both[] = {{next, {NULL, 0}}, {t, {NULL, 0}}};
    dlb_value value = {t, NULL, 0, 0};
    dlb_bytes rules = {"{\"shape\":[2,3],\"allowedTypes\":[\"f32\"]}", 38};
    CHECK_OK(dlb_message_encode(&m, NULL, &in, 1, &error));
    CHECK_INT(rows[i].copied, dlb_message_copied(m, 0));
    CHECK_INT(rows[i].copied, released);
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode(&none, NULL, &in, 1, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode(&none, NULL, both, 2, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_tensor_to_legacy(&old, t, &error));
    EACH_FORMAT(f) {
      CHECK_CODE(DLB_ERROR_ARGUMENT, f->encode(&size, room, sizeof room, &value, 0, &error));
      if (f->check != NULL) CHECK_CODE(DLB_ERROR_ARGUMENT, f->check(rules, &value, &error));
    }
    dlb_tensor_release(t);
    CHECK_INT(rows[i].copied, released);
    dlb_message_free(m);
    CHECK_INT(1, released);
    CHECK_OK(dlb_tensor_to_legacy(&old, next, &error));
    in.tensor = next;
    CHECK_CODE(DLB_ERROR_ARGUMENT, dlb_message_encode(&none, NULL, &in, 1, &error));
    old->deleter(old);
    CHECK_INT(2, released);
  }
  check_double_deletes(4);
}

int main(void) {
  check_nothing_is_left("nothing");
  decode_views_the_frames();
  frames_out_are_the_frames_in();
  a_limit_bounds_a_message();
  messages_are_read_one_after_another();
  all_frames_come_and_go_at_once();
  release_may_be_null_and_frames_empty();
  decode_refuses_and_releases_nothing();
  an_unknown_packing_refuses_its_own_tensor();
  tensors_are_spread_and_joined();
  accessors_refuse_what_is_no_message();
  make_keeps_label_and_parts_as_they_are();
  encode_aliases_what_has_no_gaps();
  named_tensors_are_found();
  a_name_of_several_tensors_is_an_error();
  encode_carries_every_type();
  encode_takes_empty_tensors();
  encode_refuses_and_deletes_nothing();
  threads_make_messages_at_once();
  threads_delete_what_shares_a_frame();
  a_forked_child_is_refused_what_needs_go();
  signal_handlers_stay();
  frames_that_are_not_the_callers_are_refused();
  tensors_that_are_not_the_callers_are_refused();
  return 0;
}
