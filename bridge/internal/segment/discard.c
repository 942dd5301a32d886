//go:build !dlbridge_shared

#ifdef __linux__
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

/* Old versions of glibc have them in a library of their own, and programs without a loader have none. Then nobody can unload this code. */
#pragma weak dlopen
#ifdef __GLIBC__
#include <link.h>
#pragma weak dladdr1
#else
#pragma weak dladdr
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

/* Returns the name by which the loader knows what contains this code, which need not be a path that still leads there. It is empty for
 * the program itself, and NULL without a loader. */
static const char *own_name(void) {
  Dl_info info;
#ifdef __GLIBC__
  struct link_map *map = NULL;
  return dladdr1 != NULL && dladdr1(&waiting, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 && map != NULL ? map->l_name : NULL;
#else
  return dladdr != NULL && dladdr(&waiting, &info) != 0 ? info.dli_fname : NULL;
#endif
}

void dlbsegment_stay_loaded(void) {
  static int done;
  if (__atomic_load_n(&done, __ATOMIC_RELAXED)) return;
  const char *name = own_name();
  if (dlopen != NULL && name != NULL && *name != '\0') dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  __atomic_store_n(&done, 1, __ATOMIC_RELAXED);
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
  dlbsegment_stay_loaded(); /* nobody waits for the threads */
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
__attribute__((constructor(1000))) static void watch_fork_of_waiting(void) { pthread_atfork(lock_waiting, unlock_waiting, unlock_waiting_in_child); }
#endif
