// Package dlpacktest helps to test code that exchanges tensors through DLPack. It is for the tests of programs that use
// package dlpack, and for the tests of package dlpack itself.
//
// This test imports a tensor from C and checks that its deleter runs once:
//
//	func TestImport(t *testing.T) {
//		dlpacktest.CheckLeaks(t)
//		p := dlpacktest.Produce(t, dlpacktest.Config{Shape: []int64{2, 3}})
//		x, err := dlpack.Import(p.Managed())
//		require.NoError(t, err)
//		x.Close()
//		require.Equal(t, 1, p.Deletes())
//	}
//
// The functions by purpose:
//
//   - [CheckLeaks] fails a test that leaves tensors behind. [Main] checks all tests of a package.
//   - [Produce] makes a managed tensor in C, valid or hostile, and counts the calls of its deleter. [Lend] makes C memory for
//     [dlpack.Lend].
//   - [Read], [Sum], [Fill] and [Scribble] use a managed tensor as a consumer in C does. [DeleteOnThreads] calls deleters on
//     threads that Go has not created.
//   - [CheckPlacements] runs an operation on tensors in all kinds of memory.
package dlpacktest
