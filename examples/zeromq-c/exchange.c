#include <dlbridge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { COPIED = 32768, FRAMES_MAX = 16 };

static void check(int32_t code, const dlb_error *error) {
  if (code == DLB_OK) return;
  fprintf(stderr, "%s\n", error->message);
  exit(1);
}

static void check_zmq(int failed) {
  if (!failed) return;
  fprintf(stderr, "%s\n", zmq_strerror(zmq_errno()));
  exit(1);
}

/* Called by libzmq on one of its threads, when it has sent the frame. */
static void release_frame(void *data, void *hint) {
  (void)data;
  dlb_frames_release(hint, 1);
  free(hint);
}

/* Sends the frames of a message. Those of at least COPIED bytes are sent from the memory of their tensor. */
static void send_message(void *socket, const dlb_message *message) {
  dlb_error error;
  size_t count = dlb_message_frame_count(message);
  for (size_t i = 0; i < count; i++) {
    dlb_frame frame;
    zmq_msg_t part;
    check(dlb_message_frame(&frame, message, i, &error), &error);
    if (frame.size < COPIED) {
      check_zmq(zmq_msg_init_size(&part, frame.size) != 0);
      memcpy(zmq_msg_data(&part), frame.data, frame.size);
      dlb_frames_release(&frame, 1);
    } else {
      dlb_frame *owner = malloc(sizeof *owner);
      if (owner == NULL) exit(1);
      *owner = frame;
      check_zmq(zmq_msg_init_data(&part, (void *)frame.data, frame.size, release_frame, owner) != 0);
    }
    check_zmq(zmq_msg_send(&part, socket, i + 1 < count ? ZMQ_SNDMORE : 0) < 0);
  }
}

/* Called when no tensor needs the frame any more. */
static void close_part(void *part) {
  zmq_msg_close(part);
  free(part);
}

/* Receives a message, whose tensors lie in libzmq's memory. */
static dlb_message *receive_message(void *socket) {
  dlb_error error;
  dlb_frame frames[FRAMES_MAX];
  size_t count = 0;
  int more = 1;
  memset(frames, 0, sizeof frames);
  while (more) {
    zmq_msg_t *part = malloc(sizeof *part);
    if (part == NULL || count == FRAMES_MAX) exit(1);
    zmq_msg_init(part);
    check_zmq(zmq_msg_recv(part, socket, 0) < 0);
    more = zmq_msg_more(part);
    frames[count++] = (dlb_frame){.data = zmq_msg_data(part), .size = zmq_msg_size(part), .release = close_part, .ctx = part};
  }
  dlb_message *message;
  int32_t code = dlb_message_decode(&message, frames, count, 0, &error);
  if (code != DLB_OK) dlb_frames_release(frames, count);
  check(code, &error);
  return message;
}

int main(void) {
  dlb_error error;
  void *context = zmq_ctx_new(), *push = zmq_socket(context, ZMQ_PUSH), *pull = zmq_socket(context, ZMQ_PULL);
  char endpoint[256];
  size_t size = sizeof endpoint;
  check_zmq(zmq_bind(pull, "tcp://127.0.0.1:*") != 0 || zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0);
  check_zmq(zmq_connect(push, endpoint) != 0);

  dlb_message_tensor sent = {0};
  const int64_t shape[] = {1000, 1000};
  check(dlb_tensor_alloc(&sent.tensor, (DLDataType){kDLFloat, 32, 1}, 2, shape, &error), &error);
  ((float *)sent.tensor->dl_tensor.data)[999999] = 42;
  dlb_message *message;
  check(dlb_message_encode(&message, NULL, &sent, 1, &error), &error); /* takes the tensor over */
  send_message(push, message);
  dlb_message_free(message); /* libzmq still has its frames */

  message = receive_message(pull);
  DLManagedTensorVersioned *x;
  check(dlb_message_tensor_at(&x, message, 0, &error), &error);
  dlb_message_free(message); /* the tensor still has its frame */
  float last;
  const char *data = (const char *)x->dl_tensor.data + x->dl_tensor.byte_offset;
  memcpy(&last, data + 4 * 999999, sizeof last); /* at any address: libzmq does not align */
  printf("%d x %d, last element %g\n", (int)x->dl_tensor.shape[0], (int)x->dl_tensor.shape[1], last);
  dlb_tensor_release(x);
  zmq_close(push);
  zmq_close(pull);
  zmq_ctx_term(context);
  return 0;
}
