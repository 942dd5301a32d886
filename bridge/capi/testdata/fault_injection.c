/* Allocations fail and Go panics. After each such error the caller still owns its inputs, nothing leaks, and the process
 * continues (G58).
 *
 * The library is built with the tag dlbridge_fault and with -Wl,--wrap=malloc,--wrap=calloc,
 * --wrap=posix_memalign, so that this program can make its allocations fail. */
#include "check.h"

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
  CHECK(strcmp(error.message, "dlbridge: panic: requested by a test") == 0);
  dlb_counters counters;
  dlb_counters_read(&counters, sizeof counters); /* panics as well, but still returns the counters of C */
  CHECK_INT(1, counters.messages);
  capiFault(0);
  dlb_message_free(m);
  check_nothing_is_left("pack");
}

/* Values: a tensor on the frame, one that is copied, elements, one of each, and a tensor that lies in no
 * frame. */
static int32_t decthings(dlb_value *out, const char *bytes, size_t size) {
  dlb_frame frame = {bytes, size, count_release, &released[0], 0};
  return dlb_decthings_decode_batch(out, 3, &(size_t){0}, &frame, 0, DLB_DECTHINGS_DOC, NULL);
}

static const _Alignas(64) char bytes[] = "\x01\x01\x01\x01\x0b\x00\x02hi\x05\x00""1234";

static int32_t on_frame(dlb_value *out) { return decthings(out, "\x0d\x00\x01", 3); }
static int32_t elements(dlb_value *out) { return decthings(out, bytes + 4, 5); }
static int32_t copied(dlb_value *out) { return decthings(out, bytes + 9, 6); }
static int32_t both(dlb_value *out) { return decthings(out, bytes + 4, 11); }

static int32_t repeated(dlb_value *out) {
  static const char proto[] = "\x08\x03\x12\x04\x12\x02\x08\x03\x3a\x01\x05";
  dlb_frame frame = {proto, sizeof proto - 1, count_release, &released[0], 0};
  return dlb_tensorflow_decode(out, &frame, 0, NULL);
}

static const struct {
  const char *name;
  int32_t (*call)(dlb_value *);
  int allocations; /* that may fail, at least */
} value_rows[] = {
    {"a tensor on the frame", on_frame, 1}, {"a copy", copied, 2},          {"elements", elements, 2},
    {"elements and a copy", both, 3},       {"repeated values", repeated, 2},
};

/* Makes a call, and checks that a failure leaves nothing behind. */
static int32_t call_value(size_t row, dlb_value values[3]) {
  memset(released, 0, sizeof released);
  memset(values, 0, 3 * sizeof *values);
  int32_t code = value_rows[row].call(values);
  for (size_t i = 0; code != DLB_OK && i < 3; i++)
    CHECK(values[i].tensor == NULL && values[i].elements == NULL && values[i].size == 0);
  if (code != DLB_OK) {
    check_no_releases();
    check_nothing_is_left(value_rows[row].name);
  }
  return code;
}

static void end_values(size_t row, dlb_value values[3]) {
  for (size_t i = 0; i < 3; i++) {
    dlb_tensor_release(values[i].tensor);
    dlb_elements_free(values[i].elements);
  }
  CHECK_INT(1, released[0]);
  check_nothing_is_left(value_rows[row].name);
}

static void values_fail(void) {
  dlb_value values[3];
  for (size_t i = 0; i < sizeof value_rows / sizeof *value_rows; i++) {
    for (int nth = 1;; nth++) {
      allocations = 0;
      failing = nth;
      int32_t code = call_value(i, values);
      int reached = allocations >= nth;
      failing = 0;
      CHECK_INT(reached ? DLB_ERROR_MEMORY : DLB_OK, code);
      if (reached) continue;
      CHECK(nth > value_rows[i].allocations);
      end_values(i, values);
      break;
    }
    for (int where = 1; where <= 2; where++) {
      capiFault(where);
      CHECK_INT(DLB_ERROR_INTERNAL, call_value(i, values));
      capiFault(0);
      CHECK_INT(DLB_OK, call_value(i, values));
      end_values(i, values);
    }
  }
  dlb_value value = {&made[0], NULL, 0, 0};
  static const char text[] = "{\"shape\":[2,3],\"allowedTypes\":[\"f32\"]}";
  dlb_bytes rules = {text, sizeof text - 1};
  size_t size = SIZE_MAX;
  char room[64];
  capiFault(1);
  CHECK_CODE(DLB_ERROR_INTERNAL, dlb_decthings_encode(&size, room, sizeof room, &value, 0, &error));
  CHECK_INT(0, size);
  CHECK_CODE(DLB_ERROR_INTERNAL, dlb_tensorflow_encode(&size, room, sizeof room, &value, 0, &error));
  CHECK_INT(0, size);
  CHECK_CODE(DLB_ERROR_INTERNAL, dlb_decthings_check(rules, &value, &error));
  capiFault(0);
  CHECK_CODE(DLB_OK, dlb_decthings_check(rules, &value, &error));
  check_nothing_is_left("values");
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
  return 0;
}
