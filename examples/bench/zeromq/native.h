#ifndef NATIVE_H
#define NATIVE_H

#include <stddef.h>

typedef struct {
  void *socket;
  void **parts;        /* of each message */
  const size_t *sizes;
  int count, rounds;
} native_loop;

/* Sends the same message again and again without copying its parts, as a program in C does. Returns 0 or an errno. */
int native_send(native_loop loop);

/* Receives messages, and reads one byte of each page. Returns the sum of the bytes, or -1. */
long native_receive(native_loop loop);

#endif
