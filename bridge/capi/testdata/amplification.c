/* Measures how much memory decoders take in C and in Go. The standard input has commands: an operation, its options, the
 * size of a frame, and the frame. The program answers each with a line: the number of bytes, and the status.
 *
 *   NAME, NAME_batch    the options of dlb_NAME_decode
 *   message, unpack     the options of dlb_message_decode; the frame is in packed form
 *   file, metadata      opening a file that has the contents of the frame, and dlb_file_metadata of it
 *
 * The library is built with the tag dlbridge_fault, and this program is linked with count_memory.c. */
#include "formats.h"

uint64_t capiAllocated(void);
void count_begin(void);
int64_t count_most(void);
int64_t count_used(void);

enum { VALUES = 128 };

static dlb_value values[VALUES];
static dlb_message *message;
static dlb_frame *frames;
static char path[32];
static dlb_file *file;

/* Returns the complete frames of a message in packed form. */
static size_t split(unsigned char *data, size_t size, dlb_frame *out) {
  size_t count = 0;
  for (size_t at = 0; at < size; count++) {
    size_t n = data[at++];
    if (n == 255) {
      if (size - at < 4) break;
      n = (size_t)data[at] << 24 | (size_t)data[at + 1] << 16 | (size_t)data[at + 2] << 8 | data[at + 3];
      at += 4;
    }
    if (n > size - at) break;
    if (out != NULL) out[count] = (dlb_frame){data + at, n, NULL, NULL, 0};
    at += n;
  }
  return count;
}

static int32_t run(const char *op, uint64_t options, const dlb_frame *frame, size_t count) {
  dlb_error error;
  EACH_FORMAT(f) {
    size_t length = strlen(f->name);
    if (strncmp(op, f->name, length) != 0) continue;
    if (op[length] == 0) return f->decode(values, frame, options, &error);
    if (strcmp(op + length, "_batch") == 0) return f->decode_batch(values, VALUES, &(size_t){0}, frame, 0, options, &error);
  }
  if (strcmp(op, "file") == 0) return dlb_file_open(&file, path, NULL, &error);
  if (strcmp(op, "metadata") == 0) return dlb_file_metadata(&(dlb_bytes){NULL, 0}, file, &error);
  if (strcmp(op, "unpack") == 0) return dlb_message_decode_packed(&message, frame, options, &error);
  CHECK(strcmp(op, "message") == 0);
  return dlb_message_decode(&message, frames, count, options, &error);
}

int main(void) {
  char op[32];
  unsigned long long options;
  size_t size;
  while (scanf("%31s %llu %zu", op, &options, &size) == 3) {
    CHECK(getchar() == '\n');
    unsigned char *data = malloc(size + 1);
    CHECK(fread(data, 1, size, stdin) == size);
    dlb_frame frame = {data, size, NULL, NULL, 0};
    size_t count = split(data, size, NULL);
    frames = calloc(count + 1, sizeof *frames);
    split(data, size, frames);
    memset(values, 0, sizeof values);
    message = NULL;
    file = NULL;
    FILE *contents = tmpfile();
    CHECK(contents != NULL && fwrite(data, 1, size, contents) == size && fflush(contents) == 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(contents));
    if (strcmp(op, "metadata") == 0) CHECK_OK(dlb_file_open(&file, path, NULL, &error));
    uint64_t go = capiAllocated();
    int64_t before = count_used();
    count_begin();
    int32_t status = run(op, options, &frame, count);
    int64_t most = count_most() - before;
    go = capiAllocated() - go;
    printf("%lld %lld %s\n", (long long)most, (long long)go, dlb_error_name(status));
    fflush(stdout);
    for (size_t i = 0; i < VALUES; i++) {
      dlb_tensor_release(values[i].tensor);
      dlb_elements_free(values[i].elements);
    }
    dlb_message_free(message);
    dlb_file_close(file);
    fclose(contents);
    free(frames);
    free(data);
  }
  return 0;
}
