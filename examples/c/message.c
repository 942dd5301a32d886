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

static void try(int32_t code) { check(code == DLB_OK, error.message); }

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

static void print(const char *name, const DLManagedTensorVersioned *tensor) {
  char text[1024];
  size_t size;
  try(dlb_tensor_format(&size, text, sizeof text, tensor, &error));
  printf("%s: %s\n", name, text);
}

int main(int argc, char **argv) {
  enum { MOST = 16 };
  check(argc >= 4 && argc <= 2 + MOST, "usage: message OUT PREFIX HEADER PART...");
  dlb_frame frames[MOST], packed;
  for (int i = 2; i < argc; i++) frames[i - 2] = read_frame(argv[i]);

  dlb_message *message;
  DLManagedTensorVersioned *tensor, *row, *doubles;
  try(dlb_message_decode(&message, frames, (size_t)argc - 2, 0, &error)); /* takes the frames over, and copies no payload */
  try(dlb_message_tensor_at(&tensor, message, 0, &error));
  dlb_message_free(message); /* the tensor has a share of its frame */
  print("tensor", tensor);

  const dlb_index last[] = {DLB_AT(-1)};
  const DLDataType float64 = {kDLFloat, 64, 1};
  try(dlb_tensor_slice(&row, tensor, 1, last, &error)); /* a view of the same memory */
  try(dlb_tensor_convert(&doubles, row, float64, &error));
  print("last row", doubles);
  dlb_tensor_release(row);
  dlb_tensor_release(tensor); /* this frees the frames */

  const dlb_message_tensor out = {.tensor = doubles};
  try(dlb_message_encode(&message, NULL, &out, 1, &error)); /* takes `doubles` over */
  try(dlb_message_encode_packed(&packed, message, &error));
  dlb_message_free(message);
  FILE *file = fopen(argv[1], "wb");
  check(file != NULL && fwrite(packed.data, 1, packed.size, file) == packed.size && fclose(file) == 0, argv[1]);
  dlb_frames_release(&packed, 1);

  dlb_counters left;
  dlb_counters_read(&left, sizeof left);
  check(left.exports + left.imports + left.messages == 0, "something was not released");
  return 0;
}
