/* Bytes with descriptors on Unix sockets (unix(7), SCM_RIGHTS). Neither function waits: with nothing to do, errno is EAGAIN. */
#ifndef DLBRIDGE_SEGMENT_RIGHTS_H
#define DLBRIDGE_SEGMENT_RIGHTS_H

#include "core.h"

#include <stddef.h>
#include <sys/types.h>

enum { SEGMENT_FILES = 253 }; /* the most descriptors that one message of a Unix socket can carry */

/* Sends bytes, and some descriptors with the first of them. Returns the result of sendmsg. */
CORE_API ssize_t dlbsegment_rights_send(int socket, const void *data, size_t size, const int *files, size_t count);

/* Receives bytes, and adds the descriptors that come with them to the *count that are in `files`, which has room for SEGMENT_FILES.
 * Returns the result of recvmsg. *failed is 0, or says why descriptors are missing, which are closed: EMFILE, this process can have
 * no further one; EPROTO, `files` has no room for them. Other control data, which options of the socket such as SO_PASSCRED and
 * SO_PASSPIDFD ask for, are ignored. */
CORE_API ssize_t dlbsegment_rights_receive(int socket, void *data, size_t size, int files[SEGMENT_FILES], size_t *count, int *failed);

#endif
