/* For leak checkers, which run when a program ends: "leaks nothing" releases everything, "leaks keep" still refers to its
 * objects, and "leaks lose WHAT" has lost the reference to an object. "leaks freed" reads memory that was freed. */
#include "check.h"

enum { TIMES = 50 };

typedef struct {
  DLManagedTensorVersioned *made, *read;
  DLManagedTensor *legacy;
  dlb_message *message;
  dlb_frame frame;
  dlb_elements *elements;
} things;

static things kept[TIMES];

static void free_text(void *text) { free(text); }

static dlb_frame lend(const void *bytes, size_t size) {
  char *text = malloc(size);
  CHECK(text != NULL);
  memcpy(text, bytes, size);
  return (dlb_frame){text, size, free_text, text, 0};
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

static void read_tensor(DLManagedTensorVersioned **out) {
  dlb_frame frame = lend("\x01\x02\x02\x03" "012345678901234567890123", 28);
  dlb_value v;
  CHECK_OK(dlb_decthings_decode(&v, &frame, DLB_DECTHINGS_DOC, &error));
  *out = v.tensor;
}

static void read_elements(dlb_elements **out) {
  dlb_frame frame = lend("\x08\x07\x12\x04\x12\x02\x08\x02\x42\x05hello\x42\x08, world!", 25);
  dlb_value v;
  CHECK_OK(dlb_tensorflow_decode(&v, &frame, 0, &error));
  *out = v.elements;
}

static void make_all(things *t) {
  make_tensor(&t->made);
  make_legacy(&t->legacy);
  make_message(&t->message);
  make_frame(&t->frame);
  read_tensor(&t->read);
  read_elements(&t->elements);
}

static void end_all(things *t) {
  char room[256];
  size_t size;
  dlb_value tensor = {t->read, NULL, 0, 0}, elements = {NULL, t->elements, 0, 0};
  CHECK_OK(dlb_tensorflow_encode(&size, room, sizeof room, &tensor, 0, &error));
  CHECK_OK(dlb_tensorflow_encode(&size, room, sizeof room, &elements, 0, &error));
  dlb_frame packed;
  dlb_message *again;
  DLManagedTensorVersioned *part;
  CHECK_OK(dlb_message_encode_packed(&packed, t->message, &error));
  CHECK_OK(dlb_message_decode_packed(&again, &packed, 0, &error));
  CHECK_OK(dlb_message_tensor_at(&part, again, 1, &error));
  dlb_message_free(again);
  dlb_tensor_release(part);
  dlb_tensor_release(t->made);
  dlb_tensor_release(t->read);
  t->legacy->deleter(t->legacy);
  dlb_message_free(t->message);
  t->frame.release(t->frame.ctx);
  dlb_elements_free(t->elements);
}

/* Objects that the program keeps do not hide a lost one. */
static void lose(const char *what) {
  things t;
  make_all(&kept[0]);
  for (int i = 0; i < TIMES; i++) {
    if (strcmp(what, "tensor") == 0) make_tensor(&t.made);
    else if (strcmp(what, "tensor that was read") == 0) read_tensor(&t.read);
    else if (strcmp(what, "legacy tensor") == 0) make_legacy(&t.legacy);
    else if (strcmp(what, "frame") == 0) make_frame(&t.frame);
    else CHECK(0);
  }
  make_all(&kept[1]);
}

/* Copies a tensor whose memory is not there any more. */
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
