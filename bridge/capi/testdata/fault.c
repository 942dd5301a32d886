/* What only goes wrong when something is broken: memory runs out, or Go panics. Nothing moves, nothing
 * leaks, and the process lives on (G58).
 *
 * The library is built with the tag dlbridge_fault and with -Wl,--wrap=malloc,--wrap=calloc,
 * --wrap=posix_memalign, so that its allocations come here. */
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

/* A message of three parts over counted frames, and three tensors over counted memory, the second of
 * which has to be copied. */
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
static int32_t unpack(dlb_message **out) { return dlb_message_unpack(out, &packed, 0, NULL); }
static int32_t encode(dlb_message **out) { return dlb_message_encode(out, NULL, tensors, 3, NULL); }

static int32_t make(dlb_message **out) {
  const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  return dlb_message_make(out, &header, (dlb_bytes){"label", 5}, frames + 2, 3, NULL);
}

static const struct {
  const char *name;
  int32_t (*call)(dlb_message **);
  int releases[8]; /* after the message is freed */
  int allocations; /* that may fail, at least */
} rows[] = {
    {"decode", decode, {1, 1, 1, 1, 1, 0, 0, 0}, 6},
    {"unpack", unpack, {1, 0, 0, 0, 0, 0, 0, 0}, 2},
    {"make", make, {0, 0, 1, 1, 1, 0, 0, 0}, 5},
    {"encode", encode, {0, 0, 0, 0, 0, 1, 1, 1}, 6},
};

static void check_counters(const char *name) {
  dlb_counters now;
  dlb_counters_read(&now);
  if (now.exports != 0 || now.imports != 0 || now.messages != 0 || now.double_deletes != 0) {
    fprintf(stderr, "%s leaves %" PRId64 " exports, %" PRId64 " imports, %" PRId64 " messages\n", name,
            now.exports, now.imports, now.messages);
    exit(1);
  }
}

static void check_no_releases(void) {
  static const int none[8];
  CHECK(memcmp(released, none, sizeof released) == 0);
}

/* Fails every allocation of each call in turn, until the call gets by without the failing one. */
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
      check_counters(rows[i].name);
    }
    check_counters(rows[i].name);
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
      check_counters(rows[i].name);
      CHECK_INT(DLB_OK, rows[i].call(&m)); /* and the next call is as good as any */
      dlb_message_free(m);
      check_counters(rows[i].name);
    }
  }
}

static void pack_fails(void) {
  dlb_message *m;
  dlb_frame out;
  CHECK_INT(DLB_OK, decode(&m));
  allocations = 0;
  failing = 1;
  CHECK_CODE(DLB_ERROR_MEMORY, dlb_message_pack(&out, m, &error));
  failing = 0;
  CHECK(out.data == NULL && out.release == NULL);
  capiFault(1);
  dlb_error error;
  CHECK_INT(DLB_ERROR_INTERNAL, dlb_message_pack(&out, m, &error));
  CHECK(out.data == NULL && out.release == NULL);
  CHECK_INT(DLB_ERROR_INTERNAL, error.code);
  CHECK(strcmp(error.message, "dlbridge: panic: as asked for") == 0);
  dlb_counters counters;
  dlb_counters_read(&counters); /* panics as well, and still says what C knows */
  CHECK_INT(1, counters.messages);
  capiFault(0);
  dlb_message_free(m);
  check_counters("pack");
}

int main(void) {
  set_up();
  dlb_message *m = NULL;
  dlb_frame whole;
  CHECK_INT(DLB_OK, decode(&m));
  CHECK_INT(DLB_OK, dlb_message_pack(&whole, m, NULL));
  dlb_message_free(m);
  packed = (dlb_frame){whole.data, whole.size, count_release, &released[0], 0};
  CHECK_INT(DLB_OK, encode(&m)); /* the first export of Go's memory sets up what stays */
  dlb_message_free(m);
  memory_runs_out();
  go_panics();
  pack_fails();
  whole.release(whole.ctx);
  return 0;
}
