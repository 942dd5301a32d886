/* For leak checkers, which run when a program ends: "leaks nothing" releases everything, "leaks keep" still refers to
 * its objects, and "leaks lose WHAT" has lost the reference to an object. "leaks all" has lost each of many tensors.
 * "leaks after WHAT" has lost memory at the place of an object that it has released. "leaks freed" reads freed
 * memory. */
#include "formats.h"

enum { TIMES = 50 };

typedef struct {
  DLManagedTensorVersioned *made, *read[FORMAT_COUNT];
  DLManagedTensor *legacy;
  dlb_message *message;
  dlb_frame frame;
  dlb_elements *elements[FORMAT_COUNT];
} things;

static things kept[TIMES];

static void free_text(void *text) { free(text); }

static dlb_value read(const test_format *f, dlb_bytes bytes) {
  char *text = malloc(bytes.size);
  CHECK(text != NULL);
  memcpy(text, bytes.data, bytes.size);
  dlb_frame frame = {text, bytes.size, free_text, text, 0};
  dlb_value value;
  CHECK_OK(f->decode(&value, &frame, 0, &error));
  return value;
}

static void make_tensor(DLManagedTensorVersioned **out) {
  int64_t shape[] = {2, 3};
  CHECK_OK(dlb_tensor_alloc(out, FLOAT32, 2, shape, &error));
}

static void make_legacy(DLManagedTensor **out) {
  DLManagedTensorVersioned *t;
  make_tensor(&t);
  CHECK_OK(dlb_tensor_to_legacy(out, t, &error));
}

/* A message of two tensors, the second of which is compacted. */
static void make_message(dlb_message **out) {
  DLManagedTensorVersioned *t[2];
  for (int i = 0; i < 2; i++) make_tensor(&t[i]);
  t[1]->dl_tensor.strides[0] = 0;
  const dlb_message_tensor in[] = {{t[0], {"{\"a\":1}", 7}}, {t[1], {NULL, 0}}};
  CHECK_OK(dlb_message_encode(out, NULL, in, 2, &error));
  CHECK_INT(1, dlb_message_copied(*out, 1));
}

static void make_frame(dlb_frame *out) {
  dlb_message *m;
  make_message(&m);
  CHECK_OK(dlb_message_frame(out, m, 3, &error));
  dlb_message_free(m);
}

static void make_all(things *t) {
  make_tensor(&t->made);
  make_legacy(&t->legacy);
  make_message(&t->message);
  make_frame(&t->frame);
  for (int i = 0; i < FORMAT_COUNT; i++) {
    t->read[i] = read(&all_formats[i], all_formats[i].tensor).tensor;
    t->elements[i] = read(&all_formats[i], all_formats[i].strings).elements;
  }
}

static void end_all(things *t) {
  char room[256];
  size_t size;
  for (int i = 0; i < FORMAT_COUNT; i++) {
    dlb_value tensor = {t->read[i], NULL, 0, 0}, elements = {NULL, t->elements[i], 0, 0};
    CHECK_OK(all_formats[i].encode(&size, room, sizeof room, &tensor, 0, &error));
    CHECK_OK(all_formats[i].encode(&size, room, sizeof room, &elements, 0, &error));
    dlb_tensor_release(t->read[i]);
    dlb_elements_free(t->elements[i]);
  }
  dlb_frame packed;
  dlb_message *again;
  DLManagedTensorVersioned *part;
  CHECK_OK(dlb_message_encode_packed(&packed, t->message, &error));
  CHECK_OK(dlb_message_decode_packed(&again, &packed, 0, &error));
  CHECK_OK(dlb_message_tensor_at(&part, again, 1, &error));
  dlb_message_free(again);
  dlb_tensor_release(part);
  dlb_tensor_release(t->made);
  t->legacy->deleter(t->legacy);
  dlb_message_free(t->message);
  t->frame.release(t->frame.ctx);
}

/* Objects that the program keeps do not hide a lost one. */
static void lose(const char *what) {
  things t;
  make_all(&kept[0]);
  for (int i = 0; i < TIMES; i++) {
    if (strcmp(what, "tensor") == 0) make_tensor(&t.made);
    else if (strcmp(what, "tensor that was read") == 0) t.read[0] = read(all_formats, all_formats->tensor).tensor;
    else if (strcmp(what, "legacy tensor") == 0) make_legacy(&t.legacy);
    else if (strcmp(what, "frame") == 0) make_frame(&t.frame);
    else CHECK(0);
  }
  make_all(&kept[1]);
}

/* Copies a tensor whose memory is gone. */
static void copy_freed(void) {
  int64_t shape[] = {8};
  float *memory = malloc(sizeof(float) * 8);
  DLTensor view = {memory, {kDLCPU, 0}, 1, FLOAT32, shape, NULL, 0};
  DLManagedTensorVersioned *lent, *copy;
  CHECK_OK(dlb_tensor_lend(&lent, &view, 0, NULL, NULL, &error));
  free(memory);
  CHECK_OK(dlb_tensor_copy(&copy, lent, &error));
  dlb_tensor_release(copy);
  dlb_tensor_release(lent);
}

/* Each lost tensor is reported, even if its control block was the last free one. */
static void lose_all(void) {
  enum { MANY = 300 }; /* the test expects so many control blocks, and as much memory */
  DLManagedTensorVersioned *t;
  make_tensor(&t);
  dlb_tensor_release(t);
  for (int i = 0; i < MANY; i++) make_tensor(&t);
}

/* Places of released objects do not hide later memory of the program there. */
static void lose_after(const char *what) {
  enum { STEP = 16, LARGEST = 512, EACH = 16 }; /* the test expects 512 */
  things t;
  make_all(&kept[0]); /* the library allocates some memory once, at its first call */
  if (strcmp(what, "tensor") == 0) {
    make_tensor(&t.made);
    dlb_tensor_release(t.made);
  } else if (strcmp(what, "legacy tensor") == 0) {
    make_legacy(&t.legacy);
    t.legacy->deleter(t.legacy);
  } else if (strcmp(what, "tensor that was read") == 0) {
    dlb_tensor_release(read(all_formats, all_formats->tensor).tensor);
  } else if (strcmp(what, "elements") == 0) {
    dlb_elements_free(read(all_formats, all_formats->strings).elements);
  } else if (strcmp(what, "message") == 0) {
    make_message(&t.message);
    dlb_message_free(t.message);
  } else {
    CHECK(strcmp(what, "frame") == 0);
    make_frame(&t.frame);
    t.frame.release(t.frame.ctx);
  }
  for (size_t size = STEP; size <= LARGEST; size += STEP) {
    for (int i = 0; i < EACH; i++) {
      volatile char *lost = malloc(size);
      CHECK(lost != NULL);
      for (size_t at = 0; at < size; at++) lost[at] = 0;
    }
  }
}

/* Overwrites the references that lose has left on the stack. */
static void forget(void) {
  volatile char room[1 << 14];
  for (size_t i = 0; i < sizeof room; i++) room[i] = 0;
}

int main(int argc, char **argv) {
  CHECK(argc > 1);
  if (strcmp(argv[1], "lose") == 0) {
    lose(argv[2]);
    forget();
    return 0;
  }
  if (strcmp(argv[1], "all") == 0) {
    lose_all();
    forget();
    return 0;
  }
  if (strcmp(argv[1], "after") == 0) {
    lose_after(argv[2]);
    forget();
    return 0;
  }
  if (strcmp(argv[1], "freed") == 0) {
    copy_freed();
    return 0;
  }
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < TIMES; i++) make_all(&kept[i]);
    if (strcmp(argv[1], "keep") == 0) return 0;
    for (int i = 0; i < TIMES; i++) end_all(&kept[i]);
  }
  memset(kept, 0, sizeof kept);
  check_nothing_is_left(argv[1]);
  return 0;
}
