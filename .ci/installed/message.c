/* A program that uses an installed library. "message NAME" decodes the frames NAME.prefix.bin, NAME.header.bin and
 * NAME.part*.bin, writes to the first tensor, and encodes this tensor as a message. The tensor must not be copied, and
 * the program must release everything. */
#include <dlbridge.h>
#include <stdio.h>
#include <stdlib.h>

#define FRAMES 5

static dlb_frame frames[FRAMES];
static const void *memory; /* of the first part */
static int given_back, sent;

static void give_back(void *data) {
  free(data);
  given_back++;
}

static int read_frame(dlb_frame *frame, const char *message, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s.%s.bin", message, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    return 0;
  }
  char *data = malloc(4096);
  size_t size = data == NULL ? 0 : fread(data, 1, 4096, file);
  fclose(file);
  frame->data = frame->ctx = data;
  frame->size = size;
  frame->release = give_back;
  frame->flags = DLB_FRAME_WRITABLE;
  return 1;
}

/* The payload comes last: the memory of the first part, with 42 in it. */
static void send_frame(const void *data, size_t size) {
  if (++sent == 3 && (data != memory || size < sizeof(float) || *(const float *)data != 42)) {
    sent = -1;
  }
}

/* Decodes the frames, writes 42 to the first tensor, and sends a message of this tensor. */
static int write_and_send(size_t count) {
  dlb_error error;
  dlb_message *message;
  DLManagedTensorVersioned *tensor;
  if (dlb_message_decode(&message, frames, count, 0, &error) != DLB_OK ||
      dlb_message_tensor_at(&tensor, message, 0, &error) != DLB_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  ((float *)tensor->dl_tensor.data)[0] = 42; /* in the memory of the frame */
  dlb_message_free(message);                 /* the tensor keeps the frame */
  dlb_message_tensor out = {.tensor = tensor};
  if (dlb_message_encode(&message, NULL, &out, 1, &error) != DLB_OK) {
    fprintf(stderr, "%s\n", error.message);
    dlb_tensor_release(tensor); /* on error the caller still owns it */
    return 1;
  }
  dlb_frame frame;
  for (size_t i = 0; dlb_message_frame(&frame, message, i, &error) == DLB_OK; i++) {
    send_frame(frame.data, frame.size);
    frame.release(frame.ctx);
  }
  dlb_message_free(message);
  return 0;
}

int main(int argc, char **argv) {
  static const char *const names[FRAMES] = {"prefix", "header", "part0", "part1", "part2"};
  size_t count = 0;
  while (argc == 2 && count < FRAMES && read_frame(&frames[count], argv[1], names[count])) {
    count++;
  }
  memory = frames[2].data;
  if (count < 3 || write_and_send(count) != 0) {
    return 1;
  }
  dlb_counters left;
  dlb_counters_read(&left, sizeof left);
  if (sent != 3 || given_back != (int)count || left.exports != 0 || left.imports != 0 || left.messages != 0 ||
      left.double_deletes != 0) {
    fprintf(stderr, "%d sent, %d of %d frames given back, %lld exports, %lld imports, %lld messages left\n", sent,
            given_back, (int)count, (long long)left.exports, (long long)left.imports, (long long)left.messages);
    return 1;
  }
  return 0;
}
