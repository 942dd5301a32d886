/* other.c: a libtvm_ffi of version 0.2.0, with every function of abi.h. None but GetVersion may be called. Like the real library,
 * it takes the handler of SIGSEGV over when it is loaded. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../abi.h"

#define DEFINE(result, name, parameters)             \
  int TVMFFI##name(ffi_version *first) {             \
    if (strcmp(#name, "GetVersion") != 0) abort();   \
    *first = (ffi_version){0, 2, 0};                 \
    return 0;                                        \
  }
FFI_FUNCTIONS(DEFINE)

const char *other_raised = "";

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  static char text[1024];
  strncat(strncat(strncpy(text, kind, 100), ": ", 3), message, 900);
  other_raised = text;
}

static void handler(int number) {
  (void)number;
  abort();
}

__attribute__((constructor)) static void take_handler_over(void) { signal(SIGSEGV, handler); }
