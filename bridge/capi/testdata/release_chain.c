/* Chains of owners: the memory of each tensor is lent by the tensor before it. Releasing the last one releases them all on
 * a small stack, however long the chain is.
 *
 * usage: program DEPTH STACK, the number of links and the bytes of a small stack */
#include "check.h"

#include <errno.h>
#include <pthread.h>

static int64_t depth, begun, ended;

static int64_t shape[] = {2, 3};

/* A link of a chain: the object that its release ends, and its position, counted from the first owner. */
typedef struct {
  DLManagedTensorVersioned *tensor;
  dlb_message *message;
  dlb_frame frame;
  int64_t number;
} owner;

/* Releases begin in the order from the last owner to the first. */
static void release_owner(void *ctx) {
  owner *o = ctx;
  CHECK_INT(depth - 1 - begun++, o->number);
  dlb_tensor_release(o->tensor);
  dlb_message_free(o->message);
  if (o->frame.release != NULL) o->frame.release(o->frame.ctx);
  free(o);
  ended++;
}

static owner *new_owner(int64_t number) {
  owner *o = calloc(1, sizeof *o);
  CHECK(o != NULL);
  o->number = number;
  return o;
}

static DLTensor view_of(float *data) {
  int none = 0;
  return made_by_producer(data, shape, &none).dl_tensor;
}

static DLManagedTensorVersioned *lend_for(owner *o) {
  static float data[6];
  DLManagedTensorVersioned *out;
  DLTensor view = view_of(o->tensor != NULL ? o->tensor->dl_tensor.data : data);
  CHECK_OK(dlb_tensor_lend(&out, &view, 0, release_owner, o, &error));
  return out;
}

/* ---- chains: each function returns the object to be ended ------------------------------------- */

static owner *tensors_on_tensors(void) {
  owner *o = new_owner(0);
  for (int64_t i = 1; i < depth; i++) {
    owner *next = new_owner(i);
    next->tensor = lend_for(o);
    o = next;
  }
  owner *last = new_owner(-1);
  last->tensor = lend_for(o);
  return last;
}

/* No function of this program is called between two links. */
static owner *forms_of_one_tensor(void) {
  owner *o = new_owner(0), *last = new_owner(-1);
  DLManagedTensorVersioned *tensor = lend_for(o);
  for (int64_t i = 1; i < depth; i++) {
    DLManagedTensor *legacy;
    CHECK_OK(dlb_tensor_to_legacy(&legacy, tensor, &error));
    CHECK_OK(dlb_tensor_from_legacy(&tensor, legacy, 0, &error));
  }
  last->tensor = tensor;
  begun = ended = depth - 1; /* the others have no release function of this program */
  return last;
}

static dlb_message *make_of(dlb_frame part) {
  static const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  dlb_message *m;
  CHECK_OK(dlb_message_encode_parts(&m, &header, (dlb_bytes){NULL, 0}, &part, 1, &error));
  return m;
}

static const char bytes[] = "bytes";

static owner *frames_of_messages(void) {
  owner *o = new_owner(0);
  for (int64_t i = 1; i <= depth; i++) {
    owner *next = new_owner(i < depth ? i : -1);
    dlb_message *m = make_of((dlb_frame){bytes, sizeof bytes, release_owner, o, 0});
    CHECK_OK(dlb_message_frame(&next->frame, m, 2, &error));
    dlb_message_free(m);
    o = next;
  }
  return o;
}

static owner *messages_in_messages(void) {
  owner *o = new_owner(0);
  for (int64_t i = 1; i <= depth; i++) {
    owner *next = new_owner(i < depth ? i : -1);
    next->message = make_of((dlb_frame){bytes, sizeof bytes, release_owner, o, 0});
    o = next;
  }
  return o;
}

/* Each link encodes the tensor of the one before it, decodes the frames, and takes the tensor of that message. */
static owner *decoded_of_encoded(void) {
  owner *o = new_owner(0), *last = new_owner(-1);
  DLManagedTensorVersioned *tensor = lend_for(o);
  for (int64_t i = 1; i < depth; i++) {
    dlb_message_tensor in = {tensor, {NULL, 0}};
    dlb_frame frames[3];
    dlb_message *m;
    CHECK_OK(dlb_message_encode(&m, NULL, &in, 1, &error));
    for (size_t k = 0; k < 3; k++) CHECK_OK(dlb_message_frame(&frames[k], m, k, &error));
    dlb_message_free(m);
    CHECK_OK(dlb_message_decode(&m, frames, 3, 0, &error));
    CHECK_OK(dlb_message_tensor_at(&tensor, m, 0, &error));
    dlb_message_free(m);
  }
  last->tensor = tensor;
  begun = ended = depth - 1; /* the others have no release function of this program */
  return last;
}

/* ---- dropping them ---------------------------------------------------------------------------- */

static void *end(void *ctx) {
  owner *last = ctx;
  errno = 77;
  dlb_tensor_release(last->tensor);
  dlb_message_free(last->message);
  if (last->frame.release != NULL) last->frame.release(last->frame.ctx);
  CHECK_INT(77, errno);
  CHECK_INT(depth, begun);
  CHECK_INT(depth, ended); /* the whole chain has ended before the call returns */
  free(last);
  return NULL;
}

static void end_on_thread(owner *last, size_t stack) {
  pthread_attr_t attributes;
  pthread_t thread;
  CHECK_INT(0, pthread_attr_init(&attributes));
  CHECK_INT(0, pthread_attr_setstacksize(&attributes, stack));
  CHECK_INT(0, pthread_create(&thread, &attributes, end, last));
  CHECK_INT(0, pthread_join(thread, NULL));
  pthread_attr_destroy(&attributes);
}

static const struct {
  const char *name;
  owner *(*make)(void);
  int64_t share; /* divides the number of links, because such a link takes longer to make */
} chains[] = {
    {"tensors on tensors", tensors_on_tensors, 1},
    {"forms of one tensor", forms_of_one_tensor, 1},
    {"frames of messages", frames_of_messages, 10},
    {"messages in messages", messages_in_messages, 10},
    {"decoded of encoded", decoded_of_encoded, 20},
};

/* ---- releases that end other objects ----------------------------------------------------------- */

enum { NESTED = 8, WIDE = 3 };

/* Up to eight releases run inside each other. There a tensor's memory has been released when the call that ends it
 * returns. */
static void release_nested(void *ctx) {
  owner *o = ctx;
  begun++;
  dlb_tensor_release(o->tensor);
  CHECK_INT(o->number, ended++);
  free(o);
}

static void nested_releases_end_at_once(void) {
  DLManagedTensorVersioned *tensor = NULL;
  static float data[6];
  begun = ended = 0;
  for (int64_t i = 0; i < NESTED; i++) {
    owner *o = new_owner(i);
    o->tensor = tensor;
    DLTensor view = view_of(data);
    CHECK_OK(dlb_tensor_lend(&tensor, &view, 0, release_nested, o, &error));
  }
  dlb_tensor_release(tensor);
  CHECK_INT(NESTED, begun);
  CHECK_INT(NESTED, ended);
  check_nothing_is_left("nested releases");
}

/* An object that is ended deeper than that is released after the current release, in the same order. */
static DLManagedTensorVersioned *leaves[WIDE];
static int64_t leaves_ended;

static void release_leaf(void *ctx) { CHECK_INT((intptr_t)ctx, leaves_ended++); }

static void release_many(void *ctx) {
  (void)ctx;
  for (int i = 0; i < WIDE; i++) dlb_tensor_release(leaves[i]);
}

static void deep_releases_keep_their_order(void) {
  static float data[6];
  DLTensor view = view_of(data);
  DLManagedTensorVersioned *tensor;
  depth = 2 * NESTED;
  begun = ended = 0;
  for (intptr_t i = 0; i < WIDE; i++)
    CHECK_OK(dlb_tensor_lend(&leaves[i], &view, 0, release_leaf, (void *)i, &error));
  CHECK_OK(dlb_tensor_lend(&tensor, &view, 0, release_many, NULL, &error));
  for (int64_t i = 0; i < depth; i++) {
    owner *o = new_owner(i);
    o->tensor = tensor;
    tensor = lend_for(o);
  }
  dlb_tensor_release(tensor);
  CHECK_INT(depth, ended);
  CHECK_INT(WIDE, leaves_ended);
  check_nothing_is_left("deep releases");
}

int main(int argc, char **argv) {
  CHECK_INT(3, argc);
  int64_t links = atoll(argv[1]);
  size_t stack = (size_t)atoll(argv[2]);
  nested_releases_end_at_once();
  for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
    for (int small = 0; small < 2; small++) {
      depth = links / chains[i].share;
      begun = ended = 0;
      owner *last = chains[i].make();
      if (small) end_on_thread(last, stack);
      else end(last);
      check_nothing_is_left(chains[i].name);
    }
  }
  deep_releases_keep_their_order();
  return 0;
}
