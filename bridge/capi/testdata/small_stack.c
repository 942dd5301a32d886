/* Decoding and encoding on threads with a smaller stack than dlbridge.h requires. */
#include "formats.h"

#include <pthread.h>

enum { STACK = 56 << 10, SIDE = 64 };

static char memory[SIDE * SIDE * sizeof(float) + 256];
static float data[SIDE * SIDE];

static void *write_and_read(void *ctx) {
  int64_t shape[] = {SIDE, SIDE}, strides[] = {1, SIDE}; /* transposed, for which the copy kernels have buffers on the stack */
  DLManagedTensorVersioned made = made_by_producer(data, shape, ctx);
  made.dl_tensor.strides = strides;
  dlb_value value = {.tensor = &made}, again[4];
  dlb_message_tensor tensor = {.tensor = NULL};
  dlb_message *message;
  dlb_frame frame = {.data = memory}, frames[3];
  if (dlb_tensor_copy(&tensor.tensor, &made, NULL) != DLB_OK) return NULL;
  EACH_FORMAT(f) {
    if (f->encode(&frame.size, memory, sizeof memory, &value, 0, NULL) != DLB_OK) return NULL;
    if (f->decode_batch != NULL) {
      if (f->decode_batch(again, 4, &(size_t){0}, &frame, 0, 0, NULL) != DLB_OK) return NULL;
      dlb_tensor_release(again[0].tensor);
    }
    if (f->decode(again, &frame, 0, NULL) != DLB_OK) return NULL;
    dlb_tensor_release(tensor.tensor);
    if (dlb_tensor_copy(&tensor.tensor, again[0].tensor, NULL) != DLB_OK) return NULL;
    dlb_tensor_release(again[0].tensor);
  }
  dlb_message_fields fields = {.metadata = {NULL, 0}};
  if (dlb_message_encode(&message, &fields, &tensor, 1, NULL) != DLB_OK) return NULL;
  for (size_t i = 0; i < 3; i++) {
    if (dlb_message_frame(&frames[i], message, i, NULL) != DLB_OK) return NULL;
  }
  dlb_message_free(message);
  if (dlb_message_decode(&message, frames, 3, 0, NULL) != DLB_OK) return NULL;
  dlb_message_free(message);
  dlb_error error;
  EACH_FORMAT(f) {
    frame.size = 0;
    if (f->decode_batch != NULL && f->decode_batch(again, 4, &(size_t){0}, &frame, 1, 0, &error) != DLB_ERROR_ARGUMENT) return NULL;
    if (f->decode(again, &frame, 0, &error) != DLB_ERROR_FORMAT) return NULL;
    frame.size = 1;
    if (f->decode(again, &frame, 0, &error) != DLB_ERROR_FORMAT) return NULL;
  }
  return ctx;
}

int main(void) {
  pthread_attr_t attributes;
  CHECK_INT(0, pthread_attr_init(&attributes));
  CHECK_INT(0, pthread_attr_setstacksize(&attributes, STACK));
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    int deletes = 0;
    void *result = NULL;
    CHECK_INT(0, pthread_create(&thread, &attributes, write_and_read, &deletes));
    CHECK_INT(0, pthread_join(thread, &result));
    CHECK(result == &deletes);
    CHECK_INT(0, deletes);
  }
  check_nothing_is_left(__func__);
  return 0;
}
