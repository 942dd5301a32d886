// Lists the tensors of a file in GGUF, safetensors, npy or npz: name, type, shape, offset and bytes, and the elements as text.
#include <dlbridge.h>
#include <inttypes.h>
#include <stdio.h>

static int32_t list(const dlb_file *file, size_t i, dlb_error *error) {
  dlb_file_entry e;
  DLB_TRY(dlb_file_at(&e, file, i, error));
  if (e.status != DLB_OK) { // such as a type that DLPack lacks; the other tensors can be used
    printf("%.*s: %.*s\n", (int)e.name.size, e.name.data, (int)e.problem.size, e.problem.data);
    return DLB_OK;
  }
  printf("%.*s %.*s [", (int)e.name.size, e.name.data, (int)e.type.size, e.type.data);
  for (int d = 0; d < e.ndim; d++) printf("%s%" PRId64, d > 0 ? " " : "", e.shape[d]);
  printf("] at %" PRIu64 ", %" PRIu64 " bytes\n", e.offset, e.size);

  // A tensor in the memory of the file, or a copy if its elements are not aligned there.
  DLManagedTensorVersioned *x;
  DLB_TRY((e.aligned ? dlb_file_tensor_at : dlb_file_copy)(&x, file, i, error));
  char text[256];
  size_t size;
  const int32_t code = dlb_tensor_format(&size, text, sizeof text, x, error);
  if (code == DLB_OK) printf("  %s\n", text);
  dlb_tensor_release(x);
  return code == DLB_ERROR_ROOM ? DLB_OK : code; // too long for the text
}

int main(int argc, char **argv) {
  dlb_file *file;
  dlb_error error;
  if (argc != 2) return fputs("usage: gguf FILE\n", stderr), 2;
  int32_t code = dlb_file_open(&file, argv[1], NULL, &error);
  if (code != DLB_OK) return fprintf(stderr, "gguf: %s\n", error.message), 1;
  for (size_t i = 0; i < dlb_file_count(file) && code == DLB_OK; i++) code = list(file, i, &error);
  if (code != DLB_OK) fprintf(stderr, "gguf: %s\n", error.message);
  dlb_file_close(file);
  return code != DLB_OK;
}
