/* Functions for the C files that open a library at run time. The caller frees the texts of errors. */
#ifndef DLBRIDGE_LIBRARY_H
#define DLBRIDGE_LIBRARY_H

#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns a text in new memory. Without memory, the process ends, as Go's does. */
__attribute__((format(printf, 1, 2))) static inline char *library_text(const char *format, ...) {
  char *text;
  va_list values;
  va_start(values, format);
  if (vasprintf(&text, format, values) < 0) abort();
  va_end(values);
  return text;
}

/* Returns the text of the loader's last failure in this thread. */
static inline char *library_error(void) {
  const char *why = dlerror();
  return library_text("%s", why ? why : "the loader gives no reason");
}

/* Looks up functions by name. Returns NULL, or the text of an error, which names the function that is missing. */
static inline char *library_functions(void *library, const char *const *names, size_t count, void **functions) {
  for (size_t i = 0; i < count; i++) {
    if ((functions[i] = dlsym(library, names[i])) == NULL) return library_error();
  }
  return NULL;
}

#endif
