#!/bin/sh
# suppressions.sh: prints dlbridge.supp, the suppressions for valgrind's memcheck.
set -eu
cat << 'END_OF_HEAD'
# Suppressions for valgrind's memcheck, for programs that use libdlbridge.so:
#
#   valgrind --leak-check=full --suppressions=PREFIX/share/dlbridge/dlbridge.supp ./program
#
# Valgrind does not recognise the stacks of goroutines. It takes their memory, and all values from there, for invalid or
# uninitialised. These suppressions therefore hide errors in Go functions, and in the C functions that they call. Valgrind still
# reports all other errors in the C functions of the program and of the library, and all leaks. libdlbridge_tensor.so contains no
# Go and needs no suppressions.
END_OF_HEAD
entry() { printf '{\n   dlbridge: %s\n   Memcheck:%s\n   %s\n   ...\n}\n' "$1" "$2" "$3"; }
kinds='Cond Value1 Value2 Value4 Value8 Value16 Value32 Addr1 Addr2 Addr4 Addr8 Addr16 Addr32'
# The name of a Go function begins with the path of its package. The patterns match all paths with a slash, and the packages of
# the standard library whose paths have none. Names that begin with _cgoexp_ are the entries of exported functions. gcWriteBarrier
# is an assembler function of the runtime.
for package in '*/*' '_cgoexp_*' 'gcWriteBarrier*' 'runtime.*' 'sync.*' 'bytes.*' 'errors.*' 'fmt.*' 'io.*' 'iter.*' 'maps.*' \
  'math.*' 'os.*' 'reflect.*' 'slices.*' 'sort.*' 'strconv.*' 'strings.*' 'syscall.*' 'time.*' 'type:*'; do
  for kind in $kinds; do entry 'in a Go function' "$kind" "fun:$package"; done
done
# Go calls C functions through functions whose names begin with _cgo_. They read their arguments from the stack of a goroutine, and
# write the result to it.
for kind in $kinds; do
  entry 'in a C function that Go has called' "$kind" '...
   fun:_cgo_*_Cfunc_*'
done
# The arguments of the runtime's system calls come from the same memory. Valgrind has no patterns for their names, so each is listed.
for argument in 'futex(futex)' 'futex(op)' 'futex(val)' 'futex(utime)' 'futex(timeout)' 'tgkill(tgid)' 'tgkill(tid)' 'tgkill(sig)' \
  'nanosleep(req)' 'nanosleep(rem)' 'rt_sigprocmask(how)' 'rt_sigprocmask(set)' 'rt_sigprocmask(oldset)' 'sigaltstack(ss)' \
  'sigaltstack(oss)' 'madvise(start)' 'madvise(length)' 'madvise(advice)' 'munmap(start)' 'munmap(length)' 'mincore(start)' \
  'mincore(length)' 'mincore(vec)' 'read(fd)' 'read(buf)' 'read(count)' 'write(fd)' 'write(buf)' 'write(count)'; do
  entry 'in a Go function' "Param
   $argument" 'fun:runtime.*'
done
# The arguments of system calls of package os lie on stacks of goroutines, too.
for argument in 'fstat(buf)' 'fstatat(buf)'; do
  entry 'in a Go function' "Param
   $argument" 'fun:internal/runtime/syscall/*'
done
cat << 'END_OF_LEAKS'
{
   dlbridge: thread-local memory of threads, of which those of Go end with the process
   Memcheck:Leak
   match-leak-kinds: possible
   ...
   fun:_dl_allocate_tls
   ...
   fun:pthread_create*
   ...
}
END_OF_LEAKS
