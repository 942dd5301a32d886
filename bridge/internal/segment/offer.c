//go:build !dlbridge_shared

#ifdef __linux__
#include "discard.h"
#include "offer.h"
#include "rights.h"
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <search.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum {
  TOKEN = 16,      /* bytes */
  VISITORS = 64,   /* the most connections that wait for the rest of their token at once; a further one ends the oldest */
  RETRY_TIME = 10, /* milliseconds until the next connection is accepted, after one could not be */
  IDLE_TIME = 100  /* milliseconds after which the thread ends, if nothing is offered */
};
static const char prefix[] = "dlbridge-shm-";

/* A file that waits to be fetched, until `end` on the clock of dlbsegment_now. */
typedef struct offer {
  unsigned char token[TOKEN]; /* by which here.by_token is ordered */
  dlbsegment_file *file;
  int64_t end;
  size_t index;       /* in here.all */
  struct offer *next; /* in here.withdrawn */
  uint64_t number; /* how many offers were made before it */
} offer;

/* A process that has connected, and the part of its token that has come. */
typedef struct {
  unsigned char token[TOKEN];
  size_t done;
  int conn;
} visitor;

/* The offers of this process. The thread `serve` holds the mutex except while it waits or frees a segment, so that a forked child can
 * close what it has inherited, except a segment that is being freed at that moment. */
static struct {
  pthread_mutex_t mutex;
  offer **all;
  size_t count, room;
  uint64_t made; /* offers, also those that are over */
  void *by_token;    /* a tree of tsearch, of all offers */
  int64_t first_end; /* no offer ends before */
  offer *withdrawn;  /* offers that `unlock_offers` will free */
  visitor visitors[VISITORS]; /* in the order in which they came */
  size_t visitor_count;
  pthread_t thread;
  int running, ending; /* whether there is a thread that answers, and whether it shall end */
  int joinable;        /* whether `thread` has yet to be joined; who sets it to 0 joins */
  int listener, wake;  /* its socket, and an eventfd that wakes it */
  int64_t deaf_until;  /* no connection is accepted before, because the last one could not be */
  char socket[sizeof ((dlbsegment_handle *)0)->socket];
} here = {.mutex = PTHREAD_MUTEX_INITIALIZER, .first_end = INT64_MAX};

/* ---- names and tokens -------------------------------------------------------------------------- */

static int fill_random(unsigned char token[TOKEN]) {
  return syscall(SYS_getrandom, token, (size_t)TOKEN, 0) == TOKEN ? 0 : errno;
}

static void write_hex(char *out, const unsigned char token[TOKEN]) {
  for (size_t i = 0; i < TOKEN; i++) snprintf(out + 2 * i, 3, "%02x", token[i]);
}

static int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

/* Reads what write_hex has written, and nothing else. Reports whether it could. */
static int read_hex(unsigned char token[TOKEN], const char *text, size_t size) {
  if (size != 2 * TOKEN) return 0;
  for (size_t i = 0; i < TOKEN; i++) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return 0;
    token[i] = (unsigned char)(high * 16 + low);
  }
  return 1;
}

const char *dlbsegment_handle_set(dlbsegment_handle *out, const char *socket, size_t socket_size, const char *token, size_t token_size) {
  const size_t before = sizeof prefix - 1;
  unsigned char bytes[TOKEN];
  if (socket_size < before || memcmp(socket, prefix, before) != 0 || !read_hex(bytes, socket + before, socket_size - before))
    return "the socket must be \"dlbridge-shm-\" followed by 32 hexadecimal digits";
  if (!read_hex(bytes, token, token_size)) return "the token must be 32 hexadecimal digits";
  memcpy(out->socket, socket, socket_size);
  out->socket[socket_size] = 0;
  memcpy(out->token, token, token_size);
  out->token[token_size] = 0;
  return NULL;
}

/* Sets the address of an abstract socket: its name follows a NUL. Returns the size of the address. */
static socklen_t set_address(struct sockaddr_un *address, const char *name) {
  const size_t size = strlen(name);
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(address->sun_path + 1, name, size);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
}

/* Reports whether the process at the other end has the user id of this one: the names of abstract sockets have no owners. */
static int of_this_user(int conn) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  return getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* ---- the thread that answers ------------------------------------------------------------------- */

static int compare_tokens(const void *left, const void *right) { return memcmp(left, right, TOKEN); }

/* Unlocks the mutex, and frees what was withdrawn. It does so while the mutex is unlocked, because to free a segment may take long, and
 * one after the other, so that a child that is forked meanwhile can free the rest. */
static void unlock_offers(void) {
  for (offer *o; (o = here.withdrawn) != NULL; pthread_mutex_lock(&here.mutex)) {
    here.withdrawn = o->next;
    pthread_mutex_unlock(&here.mutex);
    dlbsegment_file_end(o->file);
    free(o);
  }
  pthread_mutex_unlock(&here.mutex);
}

static void withdraw(offer *o) {
  tdelete(o, &here.by_token, compare_tokens);
  here.all[o->index] = here.all[--here.count];
  here.all[o->index]->index = o->index;
  o->next = here.withdrawn;
  here.withdrawn = o;
}

static void dismiss(size_t i) {
  dlbsegment_discard_socket(here.visitors[i].conn);
  here.visitor_count--;
  memmove(here.visitors + i, here.visitors + i + 1, (here.visitor_count - i) * sizeof *here.visitors);
}

/* Ends all connections, and closes the socket. */
static void hang_up(void) {
  int conn;
  while (here.visitor_count > 0) dismiss(here.visitor_count - 1);
  shutdown(here.listener, SHUT_RDWR); /* nobody connects any more */
  while ((conn = accept4(here.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) dlbsegment_discard_socket(conn);
  if (errno == EINVAL || errno == EAGAIN) close(here.listener);
  else dlbsegment_discard(here.listener); /* for lack of descriptors, some that have connected are left */
  close(here.wake);
}

/* Ends all offers. */
static void withdraw_all(void) {
  while (here.count > 0) withdraw(here.all[0]);
  here.running = here.ending = 0;
}

/* Reads more of the token of a visitor, and gives it the descriptor, or the errno of why it cannot. Reports whether it has to wait for
 * the rest. */
static int answer(visitor *v) {
  int files[SEGMENT_FILES], failed;
  size_t count = 0;
  const ssize_t n = dlbsegment_rights_receive(v->conn, v->token + v->done, TOKEN - v->done, files, &count, &failed);
  while (count > 0) dlbsegment_discard(files[--count]); /* nobody has asked for them */
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  v->done += (size_t)n;
  if (n == 0 || v->done < TOKEN) return n > 0;
  offer **found = tfind(v->token, &here.by_token, compare_tokens);
  if (found == NULL) return 0;
  /* If the other process has left, another one can still fetch the descriptor. */
  const int fd = dlbsegment_file_descriptor((*found)->file);
  if (dlbsegment_rights_send(v->conn, "\1", 1, &fd, 1) == 1) {
    withdraw(*found);
  } else {
    const char why = (char)errno;
    dlbsegment_rights_send(v->conn, &why, 1, NULL, 0);
  }
  return 0;
}

static void welcome(int64_t now) {
  const int conn = dlbsegment_above_standard(accept4(here.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (conn < 0) {
    /* The process may have no descriptor left, and the connection then keeps the socket readable. */
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) here.deaf_until = now + RETRY_TIME;
    return;
  }
  visitor v = {.conn = conn};
  if (!of_this_user(conn) || !answer(&v)) {
    dlbsegment_discard_socket(conn);
    return;
  }
  if (here.visitor_count == VISITORS) dismiss(0);
  here.visitors[here.visitor_count++] = v;
}

/* Drops the offers whose time is over, and the visitors if nothing is offered any more. Returns when to look again. */
static int64_t expire(int64_t now) {
  if (here.first_end <= now) {
    here.first_end = INT64_MAX;
    for (size_t i = here.count; i-- > 0;) {
      if (here.all[i]->end <= now) withdraw(here.all[i]);
      else if (here.all[i]->end < here.first_end) here.first_end = here.all[i]->end;
    }
  }
  while (here.count == 0 && here.visitor_count > 0) dismiss(here.visitor_count - 1);
  const int64_t next = here.count == 0 ? now + IDLE_TIME : here.first_end;
  return here.deaf_until > now && here.deaf_until < next ? here.deaf_until : next;
}

/* Does what poll does. poll refuses more descriptors than RLIMIT_NOFILE, which may have become lower after they were opened: then each
 * is looked at alone, every RETRY_TIME. */
static int poll_all(struct pollfd *polled, size_t count, int wait) {
  int ready = poll(polled, count, wait);
  if (ready >= 0 || errno == EINTR) return ready;
  poll(NULL, 0, wait < 0 || wait > RETRY_TIME ? RETRY_TIME : wait);
  ready = 0;
  for (size_t i = 0; i < count; i++) {
    if (poll(&polled[i], 1, 0) > 0) ready++;
    else polled[i].revents = 0;
  }
  return ready;
}

/* Waits for the next event and handles all that have come. The caller holds the mutex. Reports whether something has come. */
static int serve_once(void) {
  struct pollfd polled[2 + VISITORS] = {{.fd = here.wake, .events = POLLIN}, {.fd = here.listener, .events = POLLIN}};
  const int64_t now = dlbsegment_now(), next = expire(now);
  const size_t visitors = here.visitor_count;
  if (here.deaf_until > now) polled[1].fd = -1;
  for (size_t i = 0; i < visitors; i++) polled[2 + i] = (struct pollfd){.fd = here.visitors[i].conn, .events = POLLIN};
  const int wait = next == INT64_MAX ? -1 : next - now > INT32_MAX ? INT32_MAX : (int)(next - now);
  unlock_offers();
  const int ready = poll_all(polled, 2 + visitors, wait);
  pthread_mutex_lock(&here.mutex);
  if (ready <= 0) return ready < 0;
  if ((polled[0].revents | polled[1].revents) & POLLNVAL) {
    /* The program has closed all its descriptors, and their numbers may have others by now. */
    tdestroy(here.by_token, free);
    here.by_token = NULL;
    here.count = here.visitor_count = 0;
    here.running = 0;
    here.ending = 1;
    return 0;
  }
  uint64_t ignored;
  if (polled[0].revents && read(here.wake, &ignored, sizeof ignored) < 0) {} /* another wake-up follows */
  for (size_t i = visitors; i-- > 0;) {
    if (polled[2 + i].revents && !answer(&here.visitors[i])) dismiss(i);
  }
  if (polled[1].revents) welcome(dlbsegment_now());
  return 1;
}

static void *serve(void *unused) {
  pthread_mutex_lock(&here.mutex);
  while (!here.ending && (serve_once() || here.count > 0)) continue;
  if (here.running) hang_up();
  withdraw_all();
  unlock_offers();
  return unused;
}

/* ---- offering ---------------------------------------------------------------------------------- */

static int listen_on_new_name(void) {
  unsigned char name[TOKEN];
  struct sockaddr_un address;
  int failed = fill_random(name);
  if (failed) return failed;
  memcpy(here.socket, prefix, sizeof prefix);
  write_hex(here.socket + sizeof prefix - 1, name);
  here.listener = dlbsegment_above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (here.listener < 0) return errno;
  const socklen_t size = set_address(&address, here.socket);
  if (bind(here.listener, (struct sockaddr *)&address, size) != 0 || listen(here.listener, SOMAXCONN) != 0) {
    failed = errno;
    close(here.listener);
  }
  return failed;
}

/* Starts the thread, unless it is running. The caller holds the mutex. */
static int start_answering(void) {
  sigset_t all, before;
  while (here.joinable && !here.running) { /* it needs the mutex for the last offers that were withdrawn */
    const pthread_t thread = here.thread;
    here.joinable = 0;
    pthread_mutex_unlock(&here.mutex);
    pthread_join(thread, NULL);
    pthread_mutex_lock(&here.mutex);
  }
  /* Those who fetch see the user who has called listen last. */
  if (here.running) return listen(here.listener, SOMAXCONN) == 0 ? 0 : errno;
  here.wake = dlbsegment_above_standard(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (here.wake < 0) return errno;
  int failed = listen_on_new_name();
  if (failed) {
    close(here.wake);
    return failed;
  }
  sigfillset(&all); /* the signals of the process are for its own threads */
  pthread_sigmask(SIG_SETMASK, &all, &before);
  failed = pthread_create(&here.thread, NULL, serve, NULL);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    close(here.listener);
    close(here.wake);
    return failed;
  }
  here.running = here.joinable = 1;
  return 0;
}

/* Makes a new offer, which takes over the caller's hold on the file, but not after an error. The caller holds the mutex. */
static int add_offer(offer **out, dlbsegment_file *file, int64_t milliseconds) {
  if (here.count == here.room) {
    const size_t room = here.room == 0 ? 16 : 2 * here.room;
    offer **all = realloc(here.all, room * sizeof *all);
    if (all == NULL) return ENOMEM;
    here.all = all;
    here.room = room;
  }
  offer *o = malloc(sizeof *o);
  if (o == NULL) return ENOMEM;
  *o = (offer){.file = file, .end = dlbsegment_after(milliseconds), .index = here.count};
  const int failed = fill_random(o->token);
  if (failed || tsearch(o, &here.by_token, compare_tokens) == NULL) {
    free(o);
    return failed ? failed : ENOMEM;
  }
  here.all[here.count++] = o;
  if (o->end < here.first_end) here.first_end = o->end;
  *out = o;
  return 0;
}

static void wake_thread(void) {
  const uint64_t one = 1;
  if (write(here.wake, &one, sizeof one) < 0) {} /* it is being woken already */
}

dlbcore_status dlbsegment_offer_file(dlbsegment_handle *out, int fd, int writable, int64_t milliseconds, char *text, size_t text_size) {
  dlbsegment_file *file = NULL;
  offer *made = NULL;
  pthread_mutex_lock(&here.mutex);
  int failed = start_answering();
  if (!failed) failed = dlbsegment_file_take(&file, fd);
  if (!failed) failed = add_offer(&made, file, milliseconds);
  dlbcore_status status = failed ? dlbsegment_fail(failed, "the segment cannot be offered", text, text_size)
                              : dlbsegment_decide(dlbsegment_file_descriptor(file), writable, text, text_size); /* for ever, so it is the last step */
  const int before = errno; /* of dlbsegment_fail */
  if (status == CORE_OK) {
    made->number = here.made++;
    write_hex(out->token, made->token);
    memcpy(out->socket, here.socket, sizeof out->socket);
    wake_thread(); /* its wait may be too long for the new offer */
  } else if (made != NULL) {
    withdraw(made);
  }
  unlock_offers();
  if (file == NULL) close(fd);
  else if (made == NULL) dlbsegment_file_end(file);
  errno = before;
  return status;
}

dlbcore_status dlbsegment_offer(dlbsegment_handle *out, const dlbsegment_place *place, int writable, int64_t milliseconds, char *text, size_t text_size) {
  const dlbcore_status status = dlbsegment_offer_file(out, place->file, writable, milliseconds, text, text_size);
  if (status != CORE_OK) return status;
  out->offset = place->offset;
  out->size = place->size;
  out->read_only = !writable;
  return CORE_OK;
}

uint64_t dlbsegment_offers_made(void) {
  pthread_mutex_lock(&here.mutex);
  const uint64_t made = here.made;
  pthread_mutex_unlock(&here.mutex);
  return made;
}

size_t dlbsegment_offer_count(uint64_t made) {
  size_t count = 0;
  pthread_mutex_lock(&here.mutex);
  for (size_t i = 0; i < here.count; i++) count += here.all[i]->number < made;
  pthread_mutex_unlock(&here.mutex);
  return count;
}

void dlbsegment_offers_end(void) {
  pthread_mutex_lock(&here.mutex);
  const int join = here.joinable;
  const pthread_t thread = here.thread;
  here.joinable = 0;
  if (here.running) {
    here.ending = 1;
    wake_thread();
  }
  pthread_mutex_unlock(&here.mutex);
  if (join) pthread_join(thread, NULL);
}

/* At the end of the process: no library or plugin with this code is unloaded before. */
__attribute__((destructor)) static void end_thread(void) { dlbsegment_offers_end(); }

/* ---- forks --------------------------------------------------------------------------------------
 *
 * Fork copies only the thread that calls it, so nothing answers in the child. The child closes its copies of the descriptors. The
 * parent goes on answering: its offers do not end. */

static void lock_offers(void) { pthread_mutex_lock(&here.mutex); }
static void close_in_child(void) {
  while (here.visitor_count > 0) close(here.visitors[--here.visitor_count].conn);
  if (here.running) {
    close(here.listener);
    close(here.wake);
  }
  withdraw_all();
  here.joinable = 0;
  unlock_offers();
}
__attribute__((constructor)) static void watch_fork_of_offers(void) {
  pthread_atfork(lock_offers, unlock_offers, close_in_child);
}

/* ---- fetching ---------------------------------------------------------------------------------- */

int dlbsegment_fetch_begin(int *out, const dlbsegment_handle *handle) {
  unsigned char token[TOKEN];
  struct sockaddr_un address;
  if (!read_hex(token, handle->token, strlen(handle->token))) return EINVAL;
  const int conn = dlbsegment_above_standard(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (conn < 0) return errno;
  const socklen_t size = set_address(&address, handle->socket);
  int failed = connect(conn, (struct sockaddr *)&address, size) != 0 ? errno : 0;
  if (failed == ECONNREFUSED) failed = ENOENT; /* nobody listens: the last offer is over, or the process */
  if (!failed && !of_this_user(conn)) failed = EACCES;
  /* The process may have ended in between: dlbsegment_fetch_step sees that. */
  if (!failed && send(conn, token, TOKEN, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET) failed = errno;
  if (failed) dlbsegment_discard_socket(conn);
  else *out = conn;
  return failed;
}

int dlbsegment_fetch_step(int conn, int *fd) {
  int files[SEGMENT_FILES], failed;
  size_t count = 0;
  char one;
  const ssize_t n = dlbsegment_rights_receive(conn, &one, 1, files, &count, &failed);
  if (n < 0) return errno == ECONNRESET ? ENOENT : errno == EINTR ? EAGAIN : errno;
  if (n == 1 && count == 1 && !failed) {
    *fd = files[0];
    return 0;
  }
  while (count > 0) dlbsegment_discard(files[--count]);
  if (n == 1 && failed == EMFILE) return EMFILE;
  return n == 1 && (one == ETOOMANYREFS || one == ENOMEM || one == ENOBUFS) ? one : ENOENT;
}

const char *dlbsegment_fetch_text(int code) {
  switch (code) {
  case ENOENT: return "it was used before, its time is over, or its process has ended or is in another network namespace";
  case EACCES: return "its socket belongs to another user, or its process has changed its user since it made the socket";
  case ETOOMANYREFS:
    return "its process cannot send a descriptor now, because too many of its user's descriptors are in transit (RLIMIT_NOFILE); fetch it again "
           "later";
  default: return NULL;
  }
}
#endif
