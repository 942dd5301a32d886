/* Tests of the functions for values that apply to all formats. capi_NAME.c in the folder of a format has the rest. */
#include "values.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define EACH_ENCODING(f, how) \
  EACH_FORMAT(f) for (const uint64_t *how = f->encodings; how < f->encodings + sizeof f->encodings / sizeof *how; how++)

/* The tensor may lie anywhere in the output buffer, or next to it. */
static void a_buffer_may_have_the_tensor_in_it(void) {
  enum { SIZE = 8, AT = 100, ROOM = 200 };
  int64_t shape[] = {SIZE};
  for (int start = AT - 40; start <= AT + 40; start++) {
    EACH_ENCODING(f, how) {
      unsigned char memory[ROOM + AT + 40], want[ROOM];
      memset(memory, 0xee, sizeof memory);
      for (int i = 0; i < SIZE; i++) memory[AT + i] = (unsigned char)i;
      DLTensor view = {.data = memory + AT, .device = {kDLCPU, 0}, .ndim = 1, .dtype = UINT8, .shape = shape};
      dlb_value value = {0};
      CHECK_OK(dlb_tensor_lend(&value.tensor, &view, 0, NULL, NULL, &error));
      size_t size = 0, written = 0;
      CHECK_OK(f->encode(&size, want, sizeof want, &value, *how, &error));
      CHECK_OK(f->encode(&written, memory + start, ROOM, &value, *how, &error));
      CHECK_INT(size, written);
      CHECK(memcmp(want, memory + start, size) == 0);
      dlb_tensor_release(value.tensor);
    }
  }
  check_nothing_is_left(__func__);
}

/* If the buffer is too small, the call writes nothing, and returns the required size with the error. Without a buffer
 * the call returns only the size. */
static void a_buffer_that_is_too_small_is_an_error(void) {
  float data[6] = {0, 1, 2, 3, 4, 5};
  int64_t shape[] = {2, 3};
  int deletes = 0;
  DLManagedTensorVersioned made = made_by_producer(data, shape, &deletes);
  static const int64_t two[] = {2};
  static const dlb_bytes text[] = {{"hello", 5}, {", world!", 8}};
  dlb_elements strings = {{"string", 6}, 1, two, 2, text, NULL};
  const dlb_value values[] = {{&made, NULL, 0, 0}, {NULL, &strings, 0, 0}};
  EACH_ENCODING(f, how) {
    for (const dlb_value *v = values; v < values + 2; v++) {
      size_t need = 0;
      CHECK_OK(f->encode(&need, NULL, 0, v, *how, &error));
      CHECK(need > 16);
      char whole[256], out[256];
      for (size_t room = 0; room <= need; room++) {
        size_t size = SIZE_MAX;
        memset(out, 0x5a, sizeof out);
        if (room < need) {
          dlb_error error;
          int32_t code = f->encode(&size, out, room, v, *how, &error);
          CHECK_INT(DLB_ERROR_ROOM, code);
          CHECK_INT(DLB_ERROR_ROOM, error.code);
          char says[128];
          snprintf(says, sizeof says, "_encode: data has room for %zu bytes, but %zu are required", room, need);
          CHECK(strstr(error.message, says) != NULL);
          CHECK_INT(DLB_ERROR_ROOM, f->encode(&size, out, room, v, *how, NULL));
        } else {
          CHECK_OK(f->encode(&size, out, room, v, *how, &error));
          memcpy(whole, out, need);
        }
        CHECK_INT(need, size);
        for (size_t k = room < need ? 0 : need; k < sizeof out; k++) CHECK_INT(0x5a, out[k]);
      }
      size_t size = 0; /* the rest of a larger buffer is not written */
      memset(out, 0x5a, sizeof out);
      CHECK_OK(f->encode(&size, out, sizeof out, v, *how, &error));
      CHECK_INT(need, size);
      CHECK(memcmp(whole, out, need) == 0);
      for (size_t k = need; k < sizeof out; k++) CHECK_INT(0x5a, out[k]);
      CHECK_CODE(DLB_ERROR_NULL, f->encode(&size, NULL, need, v, *how, &error)); /* as if malloc had failed */
      CHECK_INT(0, size);
    }
  }
  CHECK_INT(0, deletes);
  check_nothing_is_left(__func__);
}

/* After every error the outputs are zero, whatever they were before, and no frame is released. */
static void reading_refuses_and_releases_nothing(const test_format *f) {
  int released = 0;
  const dlb_frame good = {f->strings.data, f->strings.size, count_release, &released, 0};
  const struct {
    const char *name;
    int32_t code;
    const dlb_frame *frame;
    size_t offset;
    uint64_t options;
    const char *says;
  } rows[] = {
      {"frame NULL", DLB_ERROR_NULL, NULL, 0, 0, "frame is NULL"},
      {"data NULL", DLB_ERROR_NULL, &(dlb_frame){NULL, 8, count_release, &released, 0}, 0, 0, "frame[0].data is NULL"},
      {"2^63 bytes", DLB_ERROR_OVERFLOW, &(dlb_frame){"", (size_t)1 << 63, count_release, &released, 0}, 0, 0, "frame[0].data"},
      {"flags", DLB_ERROR_ARGUMENT, &(dlb_frame){"", 0, count_release, &released, 2}, 0, 0, "flags = 0x2"},
      {"options", DLB_ERROR_ARGUMENT, &good, 0, 1 << 15, ""},
      {"offset", DLB_ERROR_ARGUMENT, &good, good.size + 1, 0, "offset is "},
      {"cut", DLB_ERROR_FORMAT, &(dlb_frame){good.data, good.size - 1, count_release, &released, 0}, 0, 0, ": byte "},
  };
  dlb_value v[3];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    for (int batch = rows[i].offset > 0; batch < (f->decode_batch == NULL ? 1 : 2); batch++) {
      dlb_error error;
      memset(v, 0xff, sizeof v);
      memset(&error, 0xff, sizeof error);
      int32_t code = batch ? f->decode_batch(v, 3, &(size_t){0}, rows[i].frame, rows[i].offset, rows[i].options, &error)
                           : f->decode(v, rows[i].frame, rows[i].options, &error);
      if (code != rows[i].code || code != error.code || strstr(error.message, rows[i].says) == NULL) {
        fprintf(stderr, "%s of %s: %s: %s\n", rows[i].name, f->name, dlb_error_name(code), error.message);
        exit(1);
      }
      check_zero(v, (batch ? 3 : 1) * sizeof *v);
      CHECK_INT(0, released);
    }
  }
  CHECK_CODE(DLB_ERROR_NULL, f->decode(NULL, &good, 0, &error));
  CHECK_INT(DLB_ERROR_FORMAT, f->decode(v, &(dlb_frame){"\xff", 1, NULL, NULL, 0}, 0, NULL));
  if (f->decode_batch != NULL) {
    CHECK_CODE(DLB_ERROR_NULL, f->decode_batch(NULL, 1, &(size_t){0}, &good, 0, 0, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, f->decode_batch(v, 0, &(size_t){0}, &good, 0, 0, &error));
    CHECK_CODE(DLB_ERROR_ARGUMENT, f->decode_batch(v, SIZE_MAX / 2, &(size_t){0}, &good, 0, 0, &error));
  }
  CHECK_INT(0, released);
  check_nothing_is_left(__func__);
}

static void writing_refuses_and_takes_nothing(const test_format *f) {
  float data[6] = {0};
  int64_t shape[] = {2, 3}, minus[] = {-1, 3};
  int deletes = 0;
  DLManagedTensorVersioned good = made_by_producer(data, shape, &deletes), lanes = good, older = good,
                           device = good, negative = good, boolean = good;
  lanes.dl_tensor.dtype = (DLDataType){kDLFloat, 16, 2};
  older.version.major = 2;
  device.dl_tensor.device.device_type = kDLCUDA;
  negative.dl_tensor.shape = minus;
  boolean.dl_tensor.dtype = (DLDataType){kDLBool, 8, 1};
  memset(data, 2, sizeof data);
  const dlb_bytes value = {"x", 1}, none = {NULL, 3};
  const int64_t one[] = {1};
  dlb_elements strings = {{"string", 6}, 1, one, 1, &value, NULL}, unknown = strings, numbers = strings,
               few = strings, missing = strings, no_values = strings, no_shape = strings, rank = strings,
               no_type = strings, count = strings;
  unknown.type = (dlb_bytes){"strings", 7};
  numbers.type = (dlb_bytes){"f32", 3};
  few.count = 0;
  missing.values = &none;
  no_values.values = NULL;
  no_shape.shape = NULL;
  rank.ndim = -1;
  no_type.type = (dlb_bytes){NULL, 1};
  count.count = SIZE_MAX / 2;
  const struct {
    const char *name;
    int32_t code;
    dlb_value value;
  } rows[] = {
      {"neither", DLB_ERROR_ARGUMENT, {NULL, NULL, 0, 0}},
      {"both", DLB_ERROR_ARGUMENT, {&good, &strings, 0, 0}},
      {"lanes", DLB_ERROR_DTYPE, {&lanes, NULL, 0, 0}},
      {"version", DLB_ERROR_VERSION, {&older, NULL, 0, 0}},
      {"device", DLB_ERROR_DEVICE, {&device, NULL, 0, 0}},
      {"negative", DLB_ERROR_LAYOUT, {&negative, NULL, 0, 0}},
      {"boolean 2", DLB_ERROR_ARGUMENT, {&boolean, NULL, 0, 0}},
      {"unknown type", DLB_ERROR_DTYPE, {NULL, &unknown, 0, 0}},
      {"numbers", DLB_ERROR_DTYPE, {NULL, &numbers, 0, 0}},
      {"too few", DLB_ERROR_ARGUMENT, {NULL, &few, 0, 0}},
      {"value NULL", DLB_ERROR_NULL, {NULL, &missing, 0, 0}},
      {"values NULL", DLB_ERROR_NULL, {NULL, &no_values, 0, 0}},
      {"shape NULL", DLB_ERROR_NULL, {NULL, &no_shape, 0, 0}},
      {"rank -1", DLB_ERROR_LAYOUT, {NULL, &rank, 0, 0}},
      {"type NULL", DLB_ERROR_NULL, {NULL, &no_type, 0, 0}},
      {"count", DLB_ERROR_ARGUMENT, {NULL, &count, 0, 0}},
  };
  char room[256];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t size = SIZE_MAX;
    int32_t code = f->encode(&size, room, sizeof room, &rows[i].value, 0, NULL);
    if (code != rows[i].code) {
      fprintf(stderr, "%s of %s: %s\n", rows[i].name, f->name, dlb_error_name(code));
      exit(1);
    }
    CHECK_INT(0, size);
  }
  dlb_value v = {&good, NULL, 0, 0};
  size_t size = SIZE_MAX;
  CHECK_CODE(DLB_ERROR_NULL, f->encode(NULL, room, sizeof room, &v, 0, &error));
  CHECK_CODE(DLB_ERROR_NULL, f->encode(&size, room, sizeof room, NULL, 0, &error));
  CHECK_INT(0, size);
  CHECK_CODE(DLB_ERROR_NULL, f->encode(&size, NULL, 1, &v, 0, &error));
  size = SIZE_MAX;
  CHECK_CODE(DLB_ERROR_ARGUMENT, f->encode(&size, room, sizeof room, &v, 1 << 15, &error));
  CHECK_INT(0, size);
  int64_t ones[257];
  for (int i = 0; i < 257; i++) ones[i] = 1;
  good.dl_tensor.shape = ones;
  good.dl_tensor.ndim = f->rank;
  CHECK_OK(f->encode(&size, NULL, 0, &v, 0, &error));
  good.dl_tensor.ndim = f->rank + 1;
  CHECK_CODE(DLB_ERROR_LAYOUT, f->encode(&size, room, sizeof room, &v, 0, &error));
  CHECK_INT(0, deletes);
  check_nothing_is_left(__func__);
}

/* A decoded tensor in the frame may be written to if the frame may. A copy may always. */
static void only_a_tensor_in_the_frame_is_read_only(const test_format *f) {
  for (int copied = 0; copied < 2; copied++) {
    const dlb_bytes sample = copied ? f->copied : f->tensor;
    for (uint64_t flags = 0; flags <= DLB_FRAME_WRITABLE; flags++) {
      int released = 0;
      const dlb_frame frame = {sample.data, sample.size, count_release, &released, flags};
      dlb_value v;
      DLManagedTensorVersioned *copy;
      CHECK_OK(f->decode(&v, &frame, 0, &error));
      if (copied) CHECK_INT(1, v.copied);
      CHECK_INT(flags == 0 && !v.copied, (v.tensor->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
      CHECK_OK(dlb_tensor_copy(&copy, v.tensor, &error));
      CHECK((copy->flags & DLPACK_FLAG_BITMASK_READ_ONLY) == 0);
      dlb_tensor_release(copy);
      dlb_tensor_release(v.tensor);
      CHECK_INT(1, released);
    }
  }
  check_nothing_is_left(__func__);
}

enum { THREADS = 8, ROUNDS = 300 };

/* The tensor and the elements of a format, on frames that count their releases. */
typedef struct {
  int released[2];
  dlb_value tensor, elements;
} pair;

static void read_pair(const test_format *f, pair *p) {
  memset(p, 0, sizeof *p);
  const dlb_frame frames[] = {{f->tensor.data, f->tensor.size, count_release, &p->released[0], 0},
                              {f->strings.data, f->strings.size, count_release, &p->released[1], 0}};
  CHECK_OK(f->decode(&p->tensor, &frames[0], 0, &error));
  CHECK_OK(f->decode(&p->elements, &frames[1], 0, &error));
}

static void end_pair(pair *p) {
  CHECK(is(p->elements.elements->values[1], ", world!"));
  dlb_elements_free(p->elements.elements);
  dlb_tensor_release(p->tensor.tensor);
  CHECK_INT(1, p->released[0]);
  CHECK_INT(1, p->released[1]);
}

static void *read_and_write(void *ctx) {
  const test_format *f = ctx;
  for (int i = 0; i < ROUNDS; i++) {
    pair p;
    char out[64];
    size_t size;
    read_pair(f, &p);
    CHECK_OK(f->encode(&size, out, sizeof out, &p.tensor, 0, &error));
    CHECK(size == f->tensor.size && memcmp(out, f->tensor.data, size) == 0);
    CHECK_OK(f->encode(&size, out, sizeof out, &p.elements, 0, &error));
    CHECK(size == f->strings.size && memcmp(out, f->strings.data, size) == 0);
    end_pair(&p);
  }
  return NULL;
}

static void threads_read_and_write_at_once(const test_format *f) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) CHECK_INT(0, pthread_create(&threads[i], NULL, read_and_write, (void *)f));
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  check_nothing_is_left(__func__);
}

/* A forked child can use and release decoded values; functions that need Go return an error immediately. */
static void a_forked_child_is_refused_what_needs_go(const test_format *f) {
  pair p;
  read_pair(f, &p);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(20); /* ends a call that hangs */
    dlb_value no;
    size_t size;
    char out[64];
    const dlb_frame frame = {f->tensor.data, f->tensor.size, count_release, &p.released[0], 0};
    int before = p.released[0]; /* 1 if the tensor is a copy */
    memset(&no, 0xff, sizeof no);
    CHECK_CODE(DLB_ERROR_FORKED, f->decode(&no, &frame, 0, &error));
    check_zero(&no, sizeof no);
    if (f->decode_batch != NULL) CHECK_CODE(DLB_ERROR_FORKED, f->decode_batch(&no, 1, &(size_t){0}, &frame, 0, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, f->encode(&size, out, sizeof out, &p.tensor, 0, &error));
    CHECK_CODE(DLB_ERROR_FORKED, f->encode(&size, out, sizeof out, &p.elements, 0, &error));
    if (f->check != NULL) CHECK_CODE(DLB_ERROR_FORKED, f->check((dlb_bytes){"{}", 2}, &p.tensor, &error));
    CHECK_INT(before, p.released[0]);
    end_pair(&p);
    check_nothing_is_left("the child");
    _exit(0);
  }
  int status = -1;
  CHECK_INT(child, waitpid(child, &status, 0));
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  end_pair(&p);
  check_nothing_is_left(__func__);
}

int main(void) {
  check_nothing_is_left("nothing");
  EACH_FORMAT(f) {
    if (f->tensor.data != NULL && f->copied.data != NULL && f->strings.data != NULL && f->rank > 0 &&
        f->changes[0].what != NULL) continue;
    fprintf(stderr, "bridge/capi/testdata/formats.h needs rank and samples of %s: tensor, copied, strings and changes\n", f->name);
    return 1;
  }
  a_buffer_may_have_the_tensor_in_it();
  a_buffer_that_is_too_small_is_an_error();
  EACH_FORMAT(f) {
    reading_refuses_and_releases_nothing(f);
    only_a_tensor_in_the_frame_is_read_only(f);
    writing_refuses_and_takes_nothing(f);
    threads_read_and_write_at_once(f);
    a_forked_child_is_refused_what_needs_go(f);
  }
  return 0;
}
