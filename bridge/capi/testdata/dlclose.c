/* Opens the library that the argument names, closes it, and continues to use it. */
#include "check.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
  CHECK_INT(2, argc);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL);
  int32_t (*make)(dlb_message **, const dlb_header *, dlb_bytes, const dlb_frame *, size_t, dlb_error *) = NULL;
  void (*release)(dlb_message *) = NULL;
  *(void **)&make = dlsym(library, "dlb_message_encode_parts");
  *(void **)&release = dlsym(library, "dlb_message_free");
  CHECK(make != NULL && release != NULL);
  for (int i = 0; i < 2; i++) {
    const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
    dlb_message *m;
    CHECK_INT(DLB_OK, make(&m, &header, (dlb_bytes){"label", 5}, NULL, 0, NULL));
    release(m);
    if (i == 0) CHECK_INT(0, dlclose(library));
  }
  void *again = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(again == library);
  CHECK(dlsym(again, "dlb_message_free") == *(void **)&release);
  return 0;
}
