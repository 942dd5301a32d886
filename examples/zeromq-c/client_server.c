#include <dlbridge.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

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

/* Sends a message with one tensor, which it takes over, in the packed form. `peer` is the routing id of a CLIENT, or 0 on a CLIENT. */
static void send_tensor(void *socket, DLManagedTensorVersioned *tensor, uint32_t peer) {
  dlb_error error;
  dlb_message_tensor content = {.tensor = tensor};
  dlb_message *message;
  dlb_frame *packed = malloc(sizeof *packed);
  zmq_msg_t frame;
  if (packed == NULL) exit(1);
  check(dlb_message_encode(&message, NULL, &content, 1, &error), &error);
  check(dlb_message_encode_packed(packed, message, &error), &error);
  dlb_message_free(message);
  check_zmq(zmq_msg_init_data(&frame, (void *)packed->data, packed->size, release_frame, packed) != 0);
  if (peer != 0) check_zmq(zmq_msg_set_routing_id(&frame, peer) != 0);
  check_zmq(zmq_msg_send(&frame, socket, 0) < 0);
}

/* Called when no tensor needs the frame any more. */
static void close_frame(void *frame) {
  zmq_msg_close(frame);
  free(frame);
}

/* Receives a message and returns its first tensor, which lies in libzmq's memory. *peer is the routing id of the CLIENT, on a SERVER. */
static DLManagedTensorVersioned *receive_tensor(void *socket, uint32_t *peer) {
  dlb_error error;
  dlb_message *message;
  DLManagedTensorVersioned *tensor;
  zmq_msg_t *frame = malloc(sizeof *frame);
  if (frame == NULL) exit(1);
  zmq_msg_init(frame);
  check_zmq(zmq_msg_recv(frame, socket, 0) < 0);
  *peer = zmq_msg_routing_id(frame);
  dlb_frame packed = {.data = zmq_msg_data(frame), .size = zmq_msg_size(frame), .release = close_frame, .ctx = frame};
  check(dlb_message_decode_packed(&message, &packed, 0, &error), &error);
  check(dlb_message_tensor_at(&tensor, message, 0, &error), &error);
  dlb_message_free(message);
  return tensor;
}

int main(void) {
  dlb_error error;
  void *context = zmq_ctx_new(), *server = zmq_socket(context, ZMQ_SERVER), *client = zmq_socket(context, ZMQ_CLIENT);
  char endpoint[256];
  size_t size = sizeof endpoint;
  check_zmq(zmq_bind(server, "tcp://127.0.0.1:*") != 0 || zmq_getsockopt(server, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0);
  check_zmq(zmq_connect(client, endpoint) != 0);

  const int64_t shape[] = {1000, 1000};
  DLManagedTensorVersioned *x;
  uint32_t peer, none;
  check(dlb_tensor_alloc(&x, (DLDataType){kDLFloat, 32, 1}, 2, shape, &error), &error);
  ((float *)x->dl_tensor.data)[999999] = 42;
  send_tensor(client, x, 0);
  x = receive_tensor(server, &peer);
  send_tensor(server, x, peer); /* back to the client that has sent it */
  x = receive_tensor(client, &none);
  float last;
  memcpy(&last, (const char *)x->dl_tensor.data + x->dl_tensor.byte_offset + 4 * 999999, sizeof last);
  printf("%d x %d, last element %g, back by %s\n", (int)x->dl_tensor.shape[0], (int)x->dl_tensor.shape[1], last,
         peer != 0 ? "a routing id" : "no routing id");
  dlb_tensor_release(x);
  zmq_close(client);
  zmq_close(server);
  zmq_ctx_term(context);
  return 0;
}
