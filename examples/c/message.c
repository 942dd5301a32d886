/* message OUT PREFIX HEADER PART...: decodes a ZIO message, whose frames are files, prints its first tensor, and writes a
 * message of the last row of it, as float64, to the file OUT in the packed form. */
#include <dlbridge.h>
#include <stdio.h>
#include <stdlib.h>

static dlb_error error;

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "message: %s\n", what);
  exit(1);
}

static dlb_frame read_frame(const char *path) {
  FILE *file = fopen(path, "rb");
  check(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
  size_t size = (size_t)ftell(file);
  rewind(file);
  void *data = malloc(size + 1);
  check(data != NULL && fread(data, 1, size, file) == size, path);
  fclose(file);
  return (dlb_frame){.data = data, .size = size, .release = free, .ctx = data};
}

static int32_t print(const char *name, const DLManagedTensorVersioned *tensor) {
  char text[1024];
  size_t size;
  DLB_TRY(dlb_tensor_format(&size, text, sizeof text, tensor, &error));
  printf("%s: %s\n", name, text);
  return DLB_OK;
}

/* Ends at the first call that fails. Then main prints its error and ends the program, which gives all memory back. */
static int32_t answer(const char *path, const dlb_frame *frames, size_t count) {
  dlb_frame packed;
  dlb_message *message;
  DLManagedTensorVersioned *tensor, *row, *doubles;
  DLB_TRY(dlb_message_decode(&message, frames, count, 0, &error)); /* takes the frames over, and copies no payload */
  DLB_TRY(dlb_message_tensor_at(&tensor, message, 0, &error));
  dlb_message_free(message); /* the tensor has a share of its frame */
  DLB_TRY(print("tensor", tensor));

  const dlb_index last[] = {DLB_AT(-1)};
  const DLDataType float64 = {kDLFloat, 64, 1};
  DLB_TRY(dlb_tensor_slice(&row, tensor, 1, last, &error)); /* a view of the same memory */
  DLB_TRY(dlb_tensor_convert(&doubles, row, float64, &error));
  DLB_TRY(print("last row", doubles));
  dlb_tensor_release(row);
  dlb_tensor_release(tensor); /* this frees the frames */

  const dlb_message_tensor out = {.tensor = doubles};
  DLB_TRY(dlb_message_encode(&message, NULL, &out, 1, &error)); /* takes `doubles` over */
  DLB_TRY(dlb_message_encode_packed(&packed, message, &error));
  dlb_message_free(message);
  FILE *file = fopen(path, "wb");
  check(file != NULL && fwrite(packed.data, 1, packed.size, file) == packed.size && fclose(file) == 0, path);
  dlb_frames_release(&packed, 1);
  return DLB_OK;
}

int main(int argc, char **argv) {
  enum { MOST = 16 };
  check(argc >= 4 && argc <= 2 + MOST, "usage: message OUT PREFIX HEADER PART...");
  dlb_frame frames[MOST];
  for (int i = 2; i < argc; i++) frames[i - 2] = read_frame(argv[i]);
  check(answer(argv[1], frames, (size_t)argc - 2) == DLB_OK, error.message);
  dlb_counters left;
  dlb_counters_read(&left, sizeof left);
  check(left.exports + left.imports + left.messages == 0, "something was not released");
  return 0;
}
