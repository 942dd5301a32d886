#ifdef __linux__
#define _GNU_SOURCE
#include "discard.h"

#include <dlfcn.h>
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

/* Old versions of glibc have them in a library of their own. Without it, nobody can unload this code. */
#pragma weak dladdr
#pragma weak dlopen

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
} here = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void *close_all(void *unused) {
  pthread_mutex_lock(&here.mutex);
  for (unwanted *u; (u = here.first) != NULL;) {
    here.first = u->next;
    pthread_mutex_unlock(&here.mutex);
    close(u->fd);
    free(u);
    pthread_mutex_lock(&here.mutex);
  }
  here.threads--;
  pthread_mutex_unlock(&here.mutex);
  return unused;
}

void dlbsegment_stay_loaded(void) {
  static int done;
  Dl_info info;
  if (__atomic_load_n(&done, __ATOMIC_RELAXED)) return;
  if (dladdr != NULL && dlopen != NULL && dladdr((void *)&here, &info) != 0) dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
  __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
}

/* Starts one more thread. If that is not possible, the descriptors wait until one more is discarded. The caller holds the mutex. */
static void start(void) {
  pthread_t thread;
  pthread_attr_t detached;
  sigset_t all, before;
  if (here.threads == THREADS || pthread_attr_init(&detached) != 0) return;
  pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
  sigfillset(&all); /* the signals of the process are for its own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, &detached, close_all, NULL) == 0) here.threads++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&detached);
}

static void close_later(int fd) {
  unwanted *u = malloc(sizeof *u);
  if (u == NULL) {
    close(fd);
    return;
  }
  dlbsegment_stay_loaded(); /* nobody waits for the threads */
  pthread_mutex_lock(&here.mutex);
  *u = (unwanted){fd, here.first};
  here.first = u;
  start();
  pthread_mutex_unlock(&here.mutex);
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
static void lock(void) { pthread_mutex_lock(&here.mutex); }
static void unlock(void) { pthread_mutex_unlock(&here.mutex); }
static void unlock_in_child(void) {
  here.threads = 0;
  unlock();
}
__attribute__((constructor(1000))) static void watch_fork(void) { pthread_atfork(lock, unlock, unlock_in_child); }
#endif
