#!/bin/sh
# suppressions.sh: prints dlbridge.supp, the suppressions for valgrind's memcheck.
set -eu
cat << 'END_OF_HEAD'
# Suppressions for valgrind's memcheck, for programs that use libdlbridge.so:
#
#   valgrind --leak-check=full --suppressions=PREFIX/share/dlbridge/dlbridge.supp ./program
#
# Valgrind does not recognise the stacks of goroutines as stacks, and takes their memory for invalid or uninitialised, and all
# values that come from there. Therefore errors in Go functions are not reported. Errors in the C functions of the program and
# of the library are, and all leaks. libdlbridge_tensor.so has no Go, and needs no suppressions.
END_OF_HEAD
entry() { printf '{\n   dlbridge: %s\n   Memcheck:%s\n   %s\n   ...\n}\n' "$1" "$2" "$3"; }
kinds='Cond Value1 Value2 Value4 Value8 Value16 Value32 Addr1 Addr2 Addr4 Addr8 Addr16 Addr32'
# The name of a Go function begins with the path of its package. The patterns are for all paths with a slash, and for packages of
# the standard library without one. Names that begin with _cgoexp_ are the entries of exported functions. Functions whose names
# begin with _cgo_ write the result of a C function to the stack of the goroutine that has called it. gcWriteBarrier is a function
# of the runtime in assembler.
for package in '*/*' '_cgoexp_*' '_cgo_*_Cfunc_*' 'gcWriteBarrier*' 'runtime.*' 'sync.*' 'bytes.*' 'errors.*' 'fmt.*' 'iter.*' 'maps.*' \
  'math.*' 'reflect.*' 'slices.*' 'sort.*' 'strconv.*' 'strings.*' 'syscall.*' 'time.*' 'type:*'; do
  for kind in $kinds; do entry 'in a Go function' "$kind" "fun:$package"; done
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
