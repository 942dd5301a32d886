/* late LIBRARY OTHER...: opens the other libraries until one of them cannot be opened, then LIBRARY, and reports whether
 * that succeeds. Compiled with ROOM, this file is one of the others. A program reserves static TLS for libraries that are
 * opened late: each of the others takes ROOM bytes of it, and the Go library needs some too. */
#ifdef ROOM
__thread char room[ROOM] __attribute__((tls_model("initial-exec")));
char *where(void) { return room; }
#else
#include "check.h"

#include <dlfcn.h>

int main(int argc, char **argv) {
  int others = 2;
  while (others < argc && dlopen(argv[others], RTLD_NOW) != NULL) others++;
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    printf("after %d: %s\n", others - 2, dlerror());
    return 0;
  }
  int32_t (*make)(dlb_message **, const dlb_header *, dlb_bytes, const dlb_frame *, size_t, dlb_error *) = NULL;
  *(void **)&make = dlsym(library, "dlb_message_encode_parts");
  const dlb_header header = {0, {'F', 'L', 'O', 'W'}, 0, 0, 0};
  dlb_message *m;
  CHECK_INT(DLB_OK, make(&m, &header, (dlb_bytes){"label", 5}, NULL, 0, NULL));
  printf("after %d: it works\n", others - 2);
  return 0;
}
#endif
