//go:build !dlbridge_shared

#ifdef __linux__
#include "discard.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef F_GET_SEALS
#define F_GET_SEALS (1024 + 10) /* Linux 3.17 */
#endif

enum { THREADS = 16 }; /* the most that wait at once */

/* A descriptor that waits for a thread. */
typedef struct unwanted {
  int fd;
  struct unwanted *next;
} unwanted;

static struct {
  pthread_mutex_t mutex;
  unwanted *first;
  int threads;
} waiting = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void *close_waiting(void *unused) {
  pthread_mutex_lock(&waiting.mutex);
  for (unwanted *u; (u = waiting.first) != NULL;) {
    waiting.first = u->next;
    pthread_mutex_unlock(&waiting.mutex);
    close(u->fd);
    free(u);
    pthread_mutex_lock(&waiting.mutex);
  }
  waiting.threads--;
  pthread_mutex_unlock(&waiting.mutex);
  return unused;
}

/* Starts one more thread. If that is not possible, the descriptors wait until one more is discarded. The caller holds the mutex. */
static void start_closing(void) {
  pthread_t thread;
  pthread_attr_t detached;
  sigset_t all, before;
  if (waiting.threads == THREADS || pthread_attr_init(&detached) != 0) return;
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  sigfillset(&all); /* the signals of the process are for its own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, &detached, close_waiting, NULL) == 0) waiting.threads++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&detached);
}

static void close_later(int fd) {
  unwanted *u = malloc(sizeof *u);
  if (u == NULL) {
    close(fd);
    return;
  }
  pthread_mutex_lock(&waiting.mutex);
  *u = (unwanted){fd, waiting.first};
  waiting.first = u;
  start_closing();
  pthread_mutex_unlock(&waiting.mutex);
}

void dlbsegment_discard(int fd) {
  if (fcntl(fd, F_GET_SEALS) >= 0) close(fd);
  else close_later(fd);
}

int dlbsegment_hang_up(int socket) {
  int unread = 0;
  shutdown(socket, SHUT_RDWR); /* nothing more comes */
  return ioctl(socket, FIONREAD, &unread) != 0 || unread > 0;
}

void dlbsegment_discard_socket(int socket) {
  if (dlbsegment_hang_up(socket)) close_later(socket);
  else close(socket);
}

/* A forked child has no such threads, and closes what waits when it discards a descriptor itself. offer.c discards descriptors while it
 * holds its own mutex, so this constructor runs before the one of offer.c (see segment.c). */
static void lock_waiting(void) { pthread_mutex_lock(&waiting.mutex); }
static void unlock_waiting(void) { pthread_mutex_unlock(&waiting.mutex); }
static void unlock_waiting_in_child(void) {
  waiting.threads = 0;
  unlock_waiting();
}
__attribute__((constructor(1000))) static void watch_fork_of_waiting(void) {
  pthread_atfork(lock_waiting, unlock_waiting, unlock_waiting_in_child);
}
#endif
