/* scale FACTOR OUT PREFIX HEADER PART...: multiplies the float32 tensors of a ZIO message in place, and writes a message
 * of the same tensors to the file OUT, in the single-part form. Each frame of the input is a file. */
#include <dlbridge.h>
#include <stdio.h>
#include <stdlib.h>

static dlb_error error;

static void check(int good, const char *what) {
  if (!good) {
    fprintf(stderr, "scale: %s\n", what);
    exit(1);
  }
}

static dlb_frame read_frame(const char *path) {
  FILE *file = fopen(path, "rb");
  check(file != NULL && fseek(file, 0, SEEK_END) == 0, path);
  size_t size = (size_t)ftell(file);
  rewind(file);
  void *data = malloc(size + 1);
  check(data != NULL && fread(data, 1, size, file) == size, path);
  fclose(file);
  return (dlb_frame){.data = data, .size = size, .release = free, .ctx = data, .flags = DLB_FRAME_WRITABLE};
}

/* Returns the first element in memory of a tensor of a message, and the number of its elements. Such a tensor has no gaps,
 * but dimensions may be reversed. */
static float *elements(const DLTensor *t, int64_t *count) {
  float *lowest = t->data;
  *count = 1;
  for (int32_t d = 0; d < t->ndim; d++) *count *= t->shape[d];
  for (int32_t d = 0; d < t->ndim && *count > 0; d++)
    if (t->strides[d] < 0) lowest += (t->shape[d] - 1) * t->strides[d];
  return lowest;
}

int main(int argc, char **argv) {
  enum { MOST = 16 };
  check(argc >= 5 && argc <= 3 + MOST, "usage: scale FACTOR OUT PREFIX HEADER PART...");
  float factor = strtof(argv[1], NULL);
  dlb_frame frames[MOST], frame;
  for (int i = 3; i < argc; i++) frames[i - 3] = read_frame(argv[i]);

  dlb_message *message, *scaled;
  check(dlb_message_decode(&message, frames, (size_t)argc - 3, 0, &error) == DLB_OK, error.message);
  size_t count = dlb_message_tensor_count(message);
  check(count <= MOST, "too many tensors");
  dlb_message_tensor tensors[MOST] = {{0}};
  const void *place[MOST] = {NULL};
  for (size_t i = 0; i < count; i++) {
    check(dlb_message_tensor_at(&tensors[i].tensor, message, i, &error) == DLB_OK, error.message);
    const DLTensor *t = &tensors[i].tensor->dl_tensor;
    int64_t size;
    if (t->dtype.code != kDLFloat || t->dtype.bits != 32 || t->dtype.lanes != 1) continue;
    float *x = elements(t, &size);
    for (int64_t k = 0; k < size; k++) x[k] *= factor;
    if (size > 0) printf("tensor %zu: the first of %lld elements is %g\n", i, (long long)size, *(float *)t->data);
    place[i] = x;
  }
  dlb_message_free(message); /* the frames stay valid, because the tensors have shares of them */

  check(dlb_message_encode(&scaled, NULL, tensors, count, &error) == DLB_OK, error.message); /* takes the tensors over */
  for (size_t i = 0; i < count; i++) {
    check(dlb_message_frame(&frame, scaled, 2 + i, &error) == DLB_OK, error.message);
    if (place[i] != NULL && frame.data == place[i]) printf("part %zu is the memory that was read\n", i);
    frame.release(frame.ctx);
  }
  check(dlb_message_encode_packed(&frame, scaled, &error) == DLB_OK, error.message);
  dlb_message_free(scaled); /* this ends the last share, and frees all frames */
  FILE *out = fopen(argv[2], "wb");
  check(out != NULL && fwrite(frame.data, 1, frame.size, out) == frame.size && fclose(out) == 0, argv[2]);
  printf("wrote %zu bytes, ", frame.size);
  frame.release(frame.ctx);
  dlb_counters left;
  dlb_counters_read(&left, sizeof left);
  check(left.exports + left.imports + left.messages == 0, "something was not given back");
  puts("and gave everything back");
}
