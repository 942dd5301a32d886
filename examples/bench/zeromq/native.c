#include "native.h"

#include <errno.h>
#include <zmq.h>

static void keep(void *data, void *hint) {
  (void)data;
  (void)hint;
}

int native_send(native_loop loop) {
  for (int round = 0; round < loop.rounds; round++) {
    for (int i = 0; i < loop.count; i++) {
      zmq_msg_t message;
      if (loop.sizes[i] < 65536) {
        zmq_msg_init_size(&message, loop.sizes[i]);
        __builtin_memcpy(zmq_msg_data(&message), loop.parts[i], loop.sizes[i]);
      } else {
        zmq_msg_init_data(&message, loop.parts[i], loop.sizes[i], keep, NULL);
      }
      while (zmq_msg_send(&message, loop.socket, i + 1 < loop.count ? ZMQ_SNDMORE : 0) < 0)
        if (errno != EINTR) return errno;
    }
  }
  return 0;
}

long native_receive(native_loop loop) {
  long sum = 0;
  for (int round = 0; round < loop.rounds; round++) {
    int more = 1;
    while (more) {
      zmq_msg_t message;
      zmq_msg_init(&message);
      while (zmq_msg_recv(&message, loop.socket, 0) < 0)
        if (errno != EINTR) return -1;
      more = zmq_msg_more(&message);
      const unsigned char *data = zmq_msg_data(&message);
      size_t size = zmq_msg_size(&message);
      for (size_t at = 0; at < size; at += 4096) sum += data[at];
      zmq_msg_close(&message);
    }
  }
  return sum;
}
