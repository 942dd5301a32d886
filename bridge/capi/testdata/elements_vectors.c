/* Decodes tensors that other programs have written, encodes them again, and prints the results. Each line of the standard input
 * is one of
 *
 *   NAME OPTIONS FILE               dlb_NAME_decode, and what dlb_NAME_encode makes of it, in each form of the format
 *   NAME_batch OPTIONS COUNT FILE   dlb_NAME_decode_batch, COUNT values at a time
 */
#include "formats.h"

static dlb_frame frame;
static int released;

static void read_file(const char *path) {
  FILE *file = fopen(path, "rb");
  CHECK(file != NULL);
  CHECK(fseek(file, 0, SEEK_END) == 0);
  long size = ftell(file);
  CHECK(size >= 0);
  rewind(file);
  char *data = aligned_alloc(64, ((size_t)size + 64) & ~(size_t)63);
  CHECK(fread(data, 1, (size_t)size, file) == (size_t)size);
  fclose(file);
  released = 0;
  frame = (dlb_frame){data, (size_t)size, count_release, &released, DLB_FRAME_WRITABLE};
}

static void print_hex(const void *data, size_t size) {
  putchar(' ');
  for (size_t i = 0; i < size; i++) printf("%02x", ((const unsigned char *)data)[i]);
  if (size == 0) putchar('-');
}

static void print_text(dlb_bytes text) { print_hex(text.data, text.size); }

/* Returns the offset of bytes in the frame, or -1 if they are not in it. */
static long long place_of(const void *data) {
  uintptr_t at = (uintptr_t)data - (uintptr_t)frame.data;
  return data != NULL && at <= frame.size ? (long long)at : -1;
}

static void print_value(const dlb_value *v) {
  CHECK((v->tensor == NULL) != (v->elements == NULL));
  if (v->tensor != NULL) {
    const DLTensor *t = &v->tensor->dl_tensor;
    CHECK_OK(dlb_tensor_validate(v->tensor, &error));
    int64_t nbytes;
    CHECK_OK(dlb_tensor_nbytes(&nbytes, v->tensor, &error));
    printf("tensor %d %d %d %d at %lld shape", t->dtype.code, t->dtype.bits, t->dtype.lanes,
           (int)v->tensor->flags, place_of(t->data));
    for (int32_t d = 0; d < t->ndim; d++) printf(" %lld", (long long)t->shape[d]);
    CHECK_INT(v->copied, (v->tensor->flags & DLPACK_FLAG_BITMASK_IS_COPIED) != 0);
    CHECK(!v->copied || place_of(t->data) < 0);
    print_hex(t->data, (size_t)nbytes);
  } else {
    const dlb_elements *e = v->elements;
    CHECK_INT(0, v->copied);
    printf("elements %.*s shape", (int)e->type.size, e->type.data);
    for (int32_t d = 0; d < e->ndim; d++) printf(" %lld", (long long)e->shape[d]);
    printf(" values");
    for (size_t i = 0; i < e->count; i++) {
      print_text(e->values[i]);
      if (e->formats != NULL) print_text(e->formats[i]);
      printf(" at %lld", e->values[i].size > 0 ? place_of(e->values[i].data) : -1);
    }
  }
  printf(" size %zu\n", v->size);
}

/* The frame is released when no value needs it. Copies do not need it. */
static void end_value(dlb_value *v) {
  CHECK_INT(v->copied, released);
  dlb_tensor_release(v->tensor);
  dlb_elements_free(v->elements);
}

static void print_error(int32_t code, const dlb_error *error) {
  CHECK_INT(code, error->code);
  CHECK_INT(0, released);
  const char *text = strstr(error->message, ": "); /* of Go, behind the name of the function */
  CHECK(text != NULL && strncmp(error->message, "dlb_", 4) == 0);
  printf("refused %s %s\n", dlb_error_name(code), text + 2);
}

/* Encodes twice: to get the size, and into a buffer of exactly this size. */
static void print_written(const test_format *f, const dlb_value *value, uint64_t how) {
  size_t size = SIZE_MAX, again = SIZE_MAX;
  dlb_error error;
  if (f->encode(&size, NULL, 0, value, how, &error) != DLB_OK) {
    print_error(error.code, &error);
    return;
  }
  char *data = malloc(size + 1);
  data[size] = 0x5a;
  if (size > 0) { /* one byte too few: an error, and nothing is written */
    memset(data, 0x5a, size);
    CHECK_CODE(DLB_ERROR_ROOM, f->encode(&again, data, size - 1, value, how, &error));
    CHECK_INT(size, again);
    for (size_t i = 0; i < size; i++) CHECK_INT(0x5a, data[i]);
  }
  CHECK_OK(f->encode(&again, data, size, value, how, &error));
  CHECK_INT(size, again);
  CHECK_INT(0x5a, data[size]);
  printf("written");
  print_hex(data, size);
  putchar('\n');
  free(data);
}

int main(void) {
  char what[32], path[4096];
  unsigned long long how, count;
  while (scanf("%31s %llu", what, &how) == 2) {
    dlb_value value;
    dlb_error error;
    memset(&value, 0xff, sizeof value);
    const test_format *f = all_formats;
    while (strncmp(what, f->name, strlen(f->name)) != 0) CHECK(++f < all_formats + FORMAT_COUNT);
    if (strcmp(what + strlen(f->name), "_batch") == 0) {
      CHECK(scanf("%llu %4095[^\n]", &count, path) == 2);
      read_file(path);
      size_t offset = 0;
      dlb_value *values = malloc(count * sizeof *values);
      for (;;) {
        memset(values, 0xff, count * sizeof *values);
        released = 0;
        size_t next = 99;
        int32_t code = f->decode_batch(values, count, &next, &frame, offset, how, &error);
        if (code != DLB_OK) {
          print_error(code, &error);
          CHECK_INT(0, next);
          for (size_t i = 0; i < count * sizeof *values; i++) CHECK_INT(0, ((char *)values)[i]);
          break;
        }
        size_t n = 0;
        int needed = 0; /* values that need the frame */
        for (; n < count && values[n].size > 0; n++) {
          print_value(&values[n]);
          offset += values[n].size;
          needed += !values[n].copied;
        }
        CHECK_INT(offset, next);
        for (size_t i = n; i < count; i++) {
          CHECK(values[i].tensor == NULL && values[i].elements == NULL && values[i].size == 0);
        }
        for (size_t i = 0; i < n; i++) {
          CHECK_INT(needed == 0, released);
          needed -= !values[i].copied;
          dlb_tensor_release(values[i].tensor);
          dlb_elements_free(values[i].elements);
        }
        CHECK_INT(1, released);
        if (n == 0) break;
      }
      free(values);
    } else {
      CHECK(scanf(" %4095[^\n]", path) == 1);
      read_file(path);
      int32_t code = f->decode(&value, &frame, how, &error);
      if (code != DLB_OK) {
        print_error(code, &error);
        for (size_t i = 0; i < sizeof value; i++) CHECK_INT(0, ((char *)&value)[i]);
      } else {
        CHECK_INT(frame.size, value.size);
        print_value(&value);
        for (int i = 0; i < 2 && (i == 0 || f->forms[i] != 0); i++) print_written(f, &value, f->forms[i] != 0 ? f->forms[i] : how);
        end_value(&value);
        CHECK_INT(1, released);
      }
    }
    free((void *)frame.data);
  }
  check_nothing_is_left("values");
  return 0;
}
