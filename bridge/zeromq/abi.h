/* abi.h: the part of the C ABI of libzmq 4 that is used, which all its versions from 4.2 on have. libzmq is not needed to compile or to
 * link this: its functions are looked up when it is loaded. A test compares values, sizes and signatures with zmq.h. */
#ifndef DLBRIDGE_ZEROMQ_ABI_H
#define DLBRIDGE_ZEROMQ_ABI_H

#include <stddef.h>
#include <stdint.h>

/* The versions of libzmq that have this ABI: ZEROMQ_MAJOR.ZEROMQ_MINOR and later ones with the same major number. */
enum { ZEROMQ_MAJOR = 4, ZEROMQ_MINOR = 2 };

/* The error of a socket in the wrong state, which is none of the system. */
enum { EFSM = 156384763 };

/* Settings of contexts. */
enum { ZMQ_IO_THREADS = 1, ZMQ_MAX_SOCKETS = 2 };

/* Types of sockets. */
enum {
  ZMQ_PAIR = 0,
  ZMQ_PUB = 1,
  ZMQ_SUB = 2,
  ZMQ_REQ = 3,
  ZMQ_REP = 4,
  ZMQ_DEALER = 5,
  ZMQ_ROUTER = 6,
  ZMQ_PULL = 7,
  ZMQ_PUSH = 8,
  ZMQ_SERVER = 12, /* draft */
  ZMQ_CLIENT = 13  /* draft */
};

/* Settings of sockets. */
enum {
  ZMQ_ROUTING_ID = 5,
  ZMQ_SUBSCRIBE = 6,
  ZMQ_UNSUBSCRIBE = 7,
  ZMQ_FD = 14,
  ZMQ_EVENTS = 15,
  ZMQ_LINGER = 17,
  ZMQ_MAXMSGSIZE = 22,
  ZMQ_SNDHWM = 23,
  ZMQ_RCVHWM = 24,
  ZMQ_LAST_ENDPOINT = 32,
  ZMQ_ROUTER_MANDATORY = 33,
  ZMQ_REQ_RELAXED = 53
};

/* What a socket is ready for, flags of calls, and a property of messages. */
enum { ZMQ_POLLIN = 1, ZMQ_POLLOUT = 2, ZMQ_DONTWAIT = 1, ZMQ_SNDMORE = 2, ZMQ_SHARED = 3 };

typedef struct {
  unsigned char content[64] __attribute__((aligned(sizeof(void *))));
} zmq_msg_t;

typedef void zmq_free_fn(void *data, void *hint);

/* X(result, name, parameters, arguments) for each function. In libzmq their names begin with zmq_. */
#define ZMQ_FUNCTIONS(X)                                                                                                             \
  X(void, version, (int *major, int *minor, int *patch), (major, minor, patch))                                                      \
  X(const char *, strerror, (int error), (error))                                                                                    \
  X(void *, ctx_new, (void), ())                                                                                                     \
  X(int, ctx_set, (void *context, int option, int value), (context, option, value))                                                  \
  X(int, ctx_term, (void *context), (context))                                                                                       \
  X(void *, socket, (void *context, int type), (context, type))                                                                      \
  X(int, close, (void *socket), (socket))                                                                                            \
  X(int, setsockopt, (void *socket, int option, const void *value, size_t size), (socket, option, value, size))                      \
  X(int, getsockopt, (void *socket, int option, void *value, size_t *size), (socket, option, value, size))                           \
  X(int, bind, (void *socket, const char *endpoint), (socket, endpoint))                                                             \
  X(int, unbind, (void *socket, const char *endpoint), (socket, endpoint))                                                           \
  X(int, connect, (void *socket, const char *endpoint), (socket, endpoint))                                                          \
  X(int, disconnect, (void *socket, const char *endpoint), (socket, endpoint))                                                       \
  X(int, msg_init, (zmq_msg_t *message), (message))                                                                                  \
  X(int, msg_init_size, (zmq_msg_t *message, size_t size), (message, size))                                                          \
  X(int, msg_init_data, (zmq_msg_t *message, void *data, size_t size, zmq_free_fn *f, void *hint), (message, data, size, f, hint))   \
  X(int, msg_send, (zmq_msg_t *message, void *socket, int flags), (message, socket, flags))                                          \
  X(int, msg_recv, (zmq_msg_t *message, void *socket, int flags), (message, socket, flags))                                          \
  X(int, msg_close, (zmq_msg_t *message), (message))                                                                                 \
  X(int, msg_move, (zmq_msg_t *to, zmq_msg_t *from), (to, from))                                                                     \
  X(void *, msg_data, (zmq_msg_t *message), (message))                                                                               \
  X(size_t, msg_size, (const zmq_msg_t *message), (message))                                                                         \
  X(int, msg_more, (const zmq_msg_t *message), (message))                                                                            \
  X(int, msg_get, (const zmq_msg_t *message, int property), (message, property))

/* The functions of the draft API that are used, in the same form. libzmq has them from 4.3.2 on, if it is built with drafts. */
#define ZMQ_DRAFT_FUNCTIONS(X)                                                                                                       \
  X(int, msg_set_routing_id, (zmq_msg_t *message, uint32_t id), (message, id))                                                       \
  X(uint32_t, msg_routing_id, (zmq_msg_t *message), (message))                                                                       \
  X(void *, poller_new, (void), ())                                                                                                  \
  X(int, poller_destroy, (void **poller), (poller))                                                                                  \
  X(int, poller_add, (void *poller, void *socket, void *data, short events), (poller, socket, data, events))                         \
  X(int, poller_fd, (void *poller, int *fd), (poller, fd))

#endif
