/* Allocations fail and Go panics. After each such error the caller still owns its inputs, nothing leaks, and the process
 * continues.
 *
 * The library is built with the tag dlbridge_fault and with -Wl,--wrap=malloc,--wrap=calloc,
 * --wrap=posix_memalign, so that this program can make its allocations fail. */
#include "formats.h"

void capiFault(int where);

static __thread int failing, allocations;

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

void *__wrap_malloc(size_t size) { return ++allocations == failing ? NULL : malloc(size); }

void *__wrap_calloc(size_t count, size_t size) {
  return ++allocations == failing ? NULL : calloc(count, size);
}

int __wrap_posix_memalign(void **out, size_t alignment, size_t size) {
  return ++allocations == failing ? 12 : posix_memalign(out, alignment, size);
}

/* A message of three parts on frames that count their releases, and three tensors on memory that counts its releases. The
 * second tensor must be copied. */
static float data[6] = {0, 1, 2, 3, 4, 5};
static int64_t shape[] = {2, 3}, broadcast[] = {0, 1};
static int released[8];
static dlb_frame frames[5], packed;
static DLManagedTensorVersioned made[3];
static dlb_message_tensor tensors[3];

static void set_up(void) {
  static const char prefix[] =
      "ZIO0TENS{\"TENS\":{\"tensors\":[{\"shape\":[2,3],\"word\":4,\"dtype\":\"f\",\"metadata\":{\"a\":1}}]}}";
  static const char header[24];
  const dlb_frame all[5] = {
      {prefix, sizeof prefix - 1, count_release, &released[0], 0},
      {header, 24, count_release, &released[1], 0},
      {data, 24, count_release, &released[2], 0},
      {data, 24, count_release, &released[3], 0},
      {data, 24, count_release, &released[4], 0},
  };
  memcpy(frames, all, sizeof all);
  for (int i = 0; i < 3; i++) {
    made[i] = made_by_producer(data, shape, &released[5 + i]);
    tensors[i].tensor = &made[i];
  }
  made[1].dl_tensor.strides = broadcast;
}

static int32_t decode(dlb_message **out) { return dlb_message_decode(out, frames, 5, 0, NULL); }
static int32_t unpack(dlb_message **out) { return dlb_message_decode_packed(out, &packed, 0, NULL); }
static int32_t next(dlb_message **out) { return dlb_message_decode_next(out, &(size_t){0}, &packed, 0, 0, NULL); }
static int32_t encode(dlb_message **out) { return dlb_message_encode(out, NULL, tensors, 3, NULL); }

static int32_t make(dlb_message **out) {
  const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  return dlb_message_encode_parts(out, &header, (dlb_bytes){"label", 5}, frames + 2, 3, NULL);
}

static const struct {
  const char *name;
  int32_t (*call)(dlb_message **);
  int releases[8]; /* after the message is freed */
  int allocations; /* that may fail, at least */
} rows[] = {
    {"decode", decode, {1, 1, 1, 1, 1, 0, 0, 0}, 6},
    {"unpack", unpack, {1, 0, 0, 0, 0, 0, 0, 0}, 2},
    {"next", next, {1, 0, 0, 0, 0, 0, 0, 0}, 2},
    {"make", make, {0, 0, 1, 1, 1, 0, 0, 0}, 5},
    {"encode", encode, {0, 0, 0, 0, 0, 1, 1, 1}, 6},
};

static void check_no_releases(void) {
  static const int none[8];
  CHECK(memcmp(released, none, sizeof released) == 0);
}

/* Makes each allocation of each call fail in turn, until the call succeeds. */
static void memory_runs_out(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int nth = 1;; nth++) {
      memset(released, 0, sizeof released);
      dlb_message *m = (void *)-1;
      allocations = 0;
      failing = nth;
      int32_t code = rows[i].call(&m);
      int reached = allocations >= nth;
      failing = 0;
      if (!reached) {
        CHECK_INT(DLB_OK, code);
        CHECK(nth > rows[i].allocations);
        dlb_message_free(m);
        CHECK(memcmp(released, rows[i].releases, sizeof released) == 0);
        break;
      }
      CHECK_INT(DLB_ERROR_MEMORY, code);
      CHECK(m == NULL);
      check_no_releases();
      check_nothing_is_left(rows[i].name);
    }
    check_nothing_is_left(rows[i].name);
  }
}

static void go_panics(void) {
  for (int where = 1; where <= 2; where++) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      memset(released, 0, sizeof released);
      capiFault(where);
      dlb_message *m = (void *)-1;
      CHECK_INT(DLB_ERROR_INTERNAL, rows[i].call(&m));
      CHECK(m == NULL);
      check_no_releases();
      capiFault(0);
      check_nothing_is_left(rows[i].name);
      CHECK_INT(DLB_OK, rows[i].call(&m)); /* the next call succeeds */
      dlb_message_free(m);
      check_nothing_is_left(rows[i].name);
    }
  }
}

static void pack_fails(void) {
  dlb_message *m;
  dlb_frame out;
  CHECK_INT(DLB_OK, decode(&m));
  allocations = 0;
  failing = 1;
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_message_encode_packed(&out, m, &error));
  failing = 0;
  CHECK(out.data == NULL && out.release == NULL);
  capiFault(1);
  dlb_error error;
  CHECK_INT(DLB_ERROR_INTERNAL, dlb_message_encode_packed(&out, m, &error));
  CHECK(out.data == NULL && out.release == NULL);
  CHECK_INT(DLB_ERROR_INTERNAL, error.code);
  const char *expected = "dlb_message_encode_packed: panic: requested by a test\n  in github.com/dlbridge/dlbridge/bridge/capi.";
  CHECK(strncmp(error.message, expected, strlen(expected)) == 0);
  dlb_counters counters;
  dlb_counters_read(&counters, sizeof counters); /* panics as well, but still returns the counters of C */
  CHECK_INT(1, counters.messages);
  capiFault(0);
  dlb_message_free(m);
  check_nothing_is_left("pack");
}

/* A value of a format, or with decode_batch two, one after the other. */
typedef struct {
  const test_format *format;
  char name[64];
  _Alignas(64) char bytes[128];
  size_t size;
  int allocations; /* that may fail, at least */
} value_row;

static value_row value_rows[6 * FORMAT_COUNT];

static int add_rows(void) {
  int count = 0;
  EACH_FORMAT(f) {
    const dlb_bytes samples[] = {f->tensor, f->copied, f->strings, f->media, f->others[0]};
    static const char *const names[] = {"a tensor", "a copy", "strings", "media", "another value", "strings and a copy"};
    for (int i = 0; i < 6; i++) {
      const dlb_bytes one = i < 5 ? samples[i] : f->strings, next = i < 5 ? (dlb_bytes){"", 0} : f->copied;
      if (one.data == NULL || (i == 5 && f->decode_batch == NULL)) continue;
      value_row *row = &value_rows[count++];
      row->format = f;
      snprintf(row->name, sizeof row->name, "%s of %s", names[i], f->name);
      memcpy(row->bytes, one.data, one.size);
      memcpy(row->bytes + one.size, next.data, next.size);
      row->size = one.size + next.size;
      row->allocations = i == 5 ? 3 : i == 1 || i == 2 ? 2 : 1;
    }
  }
  return count;
}

/* Makes a call, and checks that a failure leaves nothing behind. */
static int32_t call_value(const value_row *row, dlb_value values[3]) {
  memset(released, 0, sizeof released);
  memset(values, 0, 3 * sizeof *values);
  const dlb_frame frame = {row->bytes, row->size, count_release, &released[0], 0};
  int32_t code = row->format->decode_batch != NULL ? row->format->decode_batch(values, 3, &(size_t){0}, &frame, 0, 0, NULL)
                                                   : row->format->decode(values, &frame, 0, NULL);
  for (size_t i = 0; code != DLB_OK && i < 3; i++)
    CHECK(values[i].tensor == NULL && values[i].elements == NULL && values[i].size == 0);
  if (code != DLB_OK) {
    check_no_releases();
    check_nothing_is_left(row->name);
  }
  return code;
}

static void end_values(const value_row *row, dlb_value values[3]) {
  for (size_t i = 0; i < 3; i++) {
    dlb_tensor_release(values[i].tensor);
    dlb_elements_free(values[i].elements);
  }
  CHECK_INT(1, released[0]);
  check_nothing_is_left(row->name);
}

static void values_fail(void) {
  dlb_value values[3];
  for (const value_row *row = value_rows, *end = value_rows + add_rows(); row < end; row++) {
    for (int nth = 1;; nth++) {
      allocations = 0;
      failing = nth;
      int32_t code = call_value(row, values);
      int reached = allocations >= nth;
      failing = 0;
      CHECK_INT(reached ? DLB_ERROR_MEMORY : DLB_OK, code);
      if (reached) continue;
      CHECK(nth > row->allocations);
      end_values(row, values);
      break;
    }
    for (int where = 1; where <= 2; where++) {
      capiFault(where);
      CHECK_INT(DLB_ERROR_INTERNAL, call_value(row, values));
      capiFault(0);
      CHECK_INT(DLB_OK, call_value(row, values));
      end_values(row, values);
    }
  }
  dlb_value value = {&made[0], NULL, 0, 0};
  static const char text[] = "{\"shape\":[2,3],\"allowedTypes\":[\"f32\"]}";
  dlb_bytes rules = {text, sizeof text - 1};
  size_t size = SIZE_MAX;
  char room[64];
  capiFault(1);
  EACH_FORMAT(f) {
    CHECK_CODE(DLB_ERROR_INTERNAL, f->encode(&size, room, sizeof room, &value, 0, &error));
    CHECK_INT(0, size);
    if (f->check != NULL) CHECK_CODE(DLB_ERROR_INTERNAL, f->check(rules, &value, &error));
  }
  capiFault(0);
  EACH_FORMAT(f) {
    if (f->check != NULL) CHECK_OK(f->check(rules, &value, &error));
  }
  check_nothing_is_left("values");
}

/* A conversion whose source lies in another order needs a buffer, and goes in small parts without one. */
static void conversion_has_no_buffer(void) {
  enum { ROWS = 150, COLUMNS = 70 };
  static float values[ROWS * COLUMNS];
  int64_t sides[] = {ROWS, COLUMNS}, transposed[] = {1, ROWS};
  int without = 0;
  for (int i = 0; i < ROWS * COLUMNS; i++) values[i] = (float)i;
  DLManagedTensorVersioned source = made_by_producer(values, sides, &released[0]);
  source.dl_tensor.strides = transposed;
  for (int nth = 1, reached = 1; reached; nth++) {
    DLManagedTensorVersioned *t = NULL;
    allocations = 0;
    failing = nth;
    int32_t code = dlb_tensor_convert(&t, &source, (DLDataType){kDLInt, 16, 1}, NULL);
    reached = allocations >= nth;
    failing = 0;
    if (code != DLB_OK) {
      CHECK_INT(DLB_ERROR_MEMORY, code);
      continue;
    }
    without += reached;
    for (int i = 0; i < ROWS * COLUMNS; i++) CHECK(((int16_t *)t->dl_tensor.data)[i] == i / COLUMNS + i % COLUMNS * ROWS);
    dlb_tensor_release(t);
  }
  CHECK_INT(1, without);
  check_nothing_is_left("conversion");
}

int main(void) {
  static char room[512];
  set_up();
  dlb_message *m = NULL;
  dlb_frame whole;
  CHECK_INT(DLB_OK, decode(&m));
  CHECK_INT(DLB_OK, dlb_message_encode_packed(&whole, m, NULL));
  dlb_message_free(m);
  CHECK(whole.size <= sizeof room);
  packed = (dlb_frame){memcpy(room, whole.data, whole.size), whole.size, count_release, &released[0], 0};
  whole.release(whole.ctx);
  CHECK_INT(DLB_OK, encode(&m)); /* the first export by Go makes allocations that stay */
  dlb_message_free(m);
  memory_runs_out();
  go_panics();
  pack_fails();
  values_fail();
  conversion_has_no_buffer();
  return 0;
}
