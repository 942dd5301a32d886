/* Decodes messages that other programs have written. The standard input lists them with the expected results:
 *
 *   message NAME packed? message-only? FRAMES
 *   FILE                                       for each frame, or one for the packed form
 *   refused                                    or
 *   tensors COUNT
 *   SIZE METADATA                              and for each tensor
 *   SIZE METADATA
 *   PART CODE BITS LANES OFFSET NDIM SHAPE... STRIDES...
 *
 * METADATA is the text in the label, of SIZE bytes. OFFSET is in bytes from the beginning of the part, or -1 if there are no elements.
 * PART is -1, and nothing follows, for a tensor that is only metadata. */
#include "check.h"

enum { FRAMES_MAX = 64, RANK_MAX = 32 };

static char name[64];

#define REQUIRE(condition)                                                        \
  do {                                                                            \
    if (!(condition)) {                                                           \
      fprintf(stderr, "%s: line %d: not so: %s\n", name, __LINE__, #condition);   \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

static int64_t number(void) {
  int64_t n;
  REQUIRE(scanf("%" SCNd64, &n) == 1);
  return n;
}

static void check_metadata(dlb_bytes got) {
  size_t size = (size_t)number();
  char *want = malloc(size + 1);
  REQUIRE(getchar() == ' ');
  REQUIRE(fread(want, 1, size, stdin) == size);
  REQUIRE(got.size == size && (size == 0 || memcmp(got.data, want, size) == 0));
  free(want);
}

static void read_file(dlb_frame *frame) {
  char path[4096];
  REQUIRE(scanf(" %4095[^\n]", path) == 1);
  FILE *file = fopen(path, "rb");
  REQUIRE(file != NULL);
  REQUIRE(fseek(file, 0, SEEK_END) == 0);
  long size = ftell(file);
  REQUIRE(size >= 0);
  rewind(file);
  char *data = malloc((size_t)size + 1);
  REQUIRE(fread(data, 1, (size_t)size, file) == (size_t)size);
  fclose(file);
  frame->data = data;
  frame->size = (size_t)size;
}

/* Checks the address of each tensor, and that a message encoded from the tensors has the same parts at the same addresses
 * and describes the same tensors. */
static void check_tensors(const dlb_message *m) {
  size_t count = (size_t)number();
  REQUIRE(dlb_message_tensor_count(m) == count);
  dlb_message_fields fields;
  memset(&fields, 0, sizeof fields);
  REQUIRE(dlb_message_metadata(&fields.metadata, m, NULL) == DLB_OK);
  check_metadata(fields.metadata);
  dlb_message_tensor *tensors = calloc(count + 1, sizeof *tensors);
  const char **parts = calloc(count + 1, sizeof *parts);
  size_t *sizes = calloc(count + 1, sizeof *sizes);
  size_t readable = 0; /* tensors that are not only metadata */
  for (size_t index = 0; index < count; index++) {
    dlb_bytes metadata;
    REQUIRE(dlb_message_tensor_metadata(&metadata, m, index, NULL) == DLB_OK);
    check_metadata(metadata);
    size_t part = (size_t)number(), i = readable;
    if (part == (size_t)-1) {
      DLManagedTensorVersioned *t = (void *)-1;
      REQUIRE(dlb_message_tensor_at(&t, m, index, NULL) == DLB_ERROR_METADATA);
      REQUIRE(t == NULL && metadata.size > 0);
      continue;
    }
    int64_t code = number(), bits = number(), lanes = number(), offset = number(), ndim = number();
    DLManagedTensorVersioned *p, *t;
    REQUIRE(dlb_message_part(&p, m, part, NULL) == DLB_OK);
    REQUIRE(dlb_message_tensor_at(&t, m, index, NULL) == DLB_OK);
    REQUIRE(dlb_tensor_validate(t, NULL) == DLB_OK);
    REQUIRE(t->dl_tensor.dtype.code == code);
    REQUIRE(t->dl_tensor.dtype.bits == bits);
    REQUIRE(t->dl_tensor.dtype.lanes == lanes);
    REQUIRE(t->dl_tensor.ndim == ndim);
    parts[i] = p->dl_tensor.data;
    sizes[i] = (size_t)p->dl_tensor.shape[0];
    if (offset < 0) REQUIRE(t->dl_tensor.data == NULL);
    else REQUIRE((const char *)t->dl_tensor.data == parts[i] + offset);
    REQUIRE(t->flags == p->flags);
    for (int64_t d = 0; d < ndim; d++) REQUIRE(number() == t->dl_tensor.shape[d]);
    for (int64_t d = 0; d < ndim; d++) {
      int64_t stride = number();
      if (offset >= 0 && t->dl_tensor.shape[d] != 1) REQUIRE(stride == t->dl_tensor.strides[d]);
    }
    dlb_tensor_release(p);
    tensors[i].tensor = t;
    tensors[i].metadata = metadata;
    readable++;
  }
  count = readable;
  dlb_message *again, *reread;
  dlb_error error;
  if (dlb_message_encode(&again, &fields, tensors, count, &error) != DLB_OK) {
    fprintf(stderr, "%s: %s\n", name, error.message);
    exit(1);
  }
  dlb_frame *out = calloc(count + 2, sizeof *out);
  for (size_t i = 0; i < count + 2; i++) {
    REQUIRE(dlb_message_frame(&out[i], again, i, NULL) == DLB_OK);
    if (i < 2) continue;
    REQUIRE(!dlb_message_copied(again, i - 2));
    REQUIRE(out[i].size == sizes[i - 2]);
    REQUIRE(out[i].size == 0 || out[i].data == parts[i - 2]);
  }
  REQUIRE(dlb_message_decode(&reread, out, count + 2, 0, &error) == DLB_OK);
  for (size_t i = 0; i < count; i++) {
    DLManagedTensorVersioned *a, *b;
    REQUIRE(dlb_message_tensor_at(&a, again, i, NULL) == DLB_OK);
    REQUIRE(dlb_message_tensor_at(&b, reread, i, NULL) == DLB_OK);
    REQUIRE(a->dl_tensor.data == b->dl_tensor.data);
    for (int32_t d = 0; d < a->dl_tensor.ndim && a->dl_tensor.data != NULL; d++) {
      if (a->dl_tensor.shape[d] != 1) REQUIRE(a->dl_tensor.strides[d] == b->dl_tensor.strides[d]);
    }
    dlb_tensor_release(a);
    dlb_tensor_release(b);
  }
  dlb_message_free(reread);
  dlb_message_free(again);
  free(tensors);
  free(parts);
  free(sizes);
  free(out);
}

/* Checks that a message that is relayed with its own tensors has the same frames, and its payload at the same addresses. */
static void check_relay(const dlb_message *m) {
  size_t count = dlb_message_tensor_count(m), frames = dlb_message_frame_count(m);
  dlb_message_tensor *tensors = calloc(count + 1, sizeof *tensors);
  for (size_t i = 0; i < count; i++) {
    int32_t code = dlb_message_tensor_at(&tensors[i].tensor, m, i, NULL);
    REQUIRE(code == DLB_OK || code == DLB_ERROR_METADATA);
  }
  dlb_message_fields fields;
  memset(&fields, 0, sizeof fields);
  fields.relay = m;
  dlb_message *again;
  dlb_error error;
  if (dlb_message_encode(&again, &fields, tensors, count, &error) != DLB_OK) {
    fprintf(stderr, "%s: %s\n", name, error.message);
    exit(1);
  }
  REQUIRE(dlb_message_frame_count(again) == frames);
  for (size_t i = 0; i < frames; i++) {
    dlb_frame a, b;
    REQUIRE(dlb_message_frame(&a, m, i, NULL) == DLB_OK);
    REQUIRE(dlb_message_frame(&b, again, i, NULL) == DLB_OK);
    REQUIRE(a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0));
    REQUIRE(i < 2 || a.size == 0 || a.data == b.data);
    a.release(a.ctx);
    b.release(b.ctx);
  }
  for (size_t i = 0; i < count; i++) {
    DLManagedTensorVersioned *t;
    int32_t code = dlb_message_tensor_at(&t, again, i, NULL);
    REQUIRE(code == (tensors[i].tensor == NULL ? DLB_ERROR_METADATA : DLB_OK));
    dlb_tensor_release(t);
  }
  dlb_message_free(again);
  free(tensors);
}

/* Checks that a message has the frames that it was decoded from, and that its packed form decodes to the same. */
static void check_frames(const dlb_message *m, const dlb_frame *frames, size_t count, int packed) {
  dlb_frame whole;
  REQUIRE(dlb_message_encode_packed(&whole, m, NULL) == DLB_OK);
  dlb_message *again;
  REQUIRE(dlb_message_decode_packed(&again, &whole, DLB_DECODE_MESSAGE_ONLY, NULL) == DLB_OK);
  REQUIRE(dlb_message_frame_count(again) == dlb_message_frame_count(m));
  REQUIRE(packed || dlb_message_frame_count(m) == count);
  for (size_t i = 0; i < dlb_message_frame_count(m); i++) {
    dlb_frame a, b;
    REQUIRE(dlb_message_frame(&a, m, i, NULL) == DLB_OK);
    REQUIRE(dlb_message_frame(&b, again, i, NULL) == DLB_OK);
    REQUIRE(a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0));
    if (packed) REQUIRE(a.size == 0 || ((const char *)a.data > (const char *)frames->data &&
                                        (const char *)a.data < (const char *)frames->data + frames->size));
    else REQUIRE(a.size == frames[i].size && (a.size == 0 || a.data == frames[i].data));
    a.release(a.ctx);
    b.release(b.ctx);
  }
  dlb_message_free(again);
}

int main(void) {
  int messages = 0;
  while (scanf(" message %63s", name) == 1) {
    int packed = (int)number(), message_only = (int)number(), released[FRAMES_MAX] = {0};
    size_t count = (size_t)number();
    REQUIRE(count <= FRAMES_MAX);
    dlb_frame frames[FRAMES_MAX];
    memset(frames, 0, sizeof frames);
    for (size_t i = 0; i < count; i++) {
      read_file(&frames[i]);
      frames[i].release = count_release;
      frames[i].ctx = &released[i];
    }
    uint64_t options = message_only ? DLB_DECODE_MESSAGE_ONLY : 0;
    dlb_message *m = (void *)-1;
    dlb_error error;
    int32_t code = packed ? dlb_message_decode_packed(&m, frames, options, &error)
                          : dlb_message_decode(&m, frames, count, options, &error);
    char verdict[16];
    REQUIRE(scanf("%15s", verdict) == 1);
    if (strcmp(verdict, "refused") == 0) {
      REQUIRE(code == DLB_ERROR_FORMAT);
      REQUIRE(strstr(error.message, ": tens: ") != NULL);
      REQUIRE(m == NULL);
    } else {
      if (code != DLB_OK) fprintf(stderr, "%s: %s\n", name, error.message);
      REQUIRE(code == DLB_OK);
      check_frames(m, frames, count, packed);
      if (!message_only) check_relay(m);
      check_tensors(m);
      dlb_message_free(m);
    }
    for (size_t i = 0; i < count; i++) {
      REQUIRE(released[i] == (strcmp(verdict, "refused") != 0));
      free((void *)frames[i].data);
    }
    messages++;
  }
  check_nothing_is_left("vectors");
  printf("%d\n", messages);
  return 0;
}
