// Lists the tensors of a file in GGUF, safetensors, npy or npz: name, type, shape, offset and bytes.
#include <dlbridge.h>
#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv) {
  dlb_file *file;
  dlb_file_entry e;
  dlb_error error;
  if (argc != 2) return fputs("usage: gguf FILE\n", stderr), 2;
  if (dlb_file_open(&file, argv[1], NULL, &error) != DLB_OK) return fprintf(stderr, "gguf: %s\n", error.message), 1;
  for (size_t i = 0; i < dlb_file_count(file); i++) {
    if (dlb_file_at(&e, file, i, &error) != DLB_OK) break;
    printf("%.*s %.*s [", (int)e.name.size, e.name.data, (int)e.type.size, e.type.data);
    for (int d = 0; d < e.ndim; d++) printf("%s%" PRId64, d > 0 ? " " : "", e.shape[d]);
    printf("] at %" PRIu64 ", %" PRIu64 " bytes\n", e.offset, e.size);
  }
  dlb_file_close(file);
  return 0;
}
