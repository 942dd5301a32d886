// Package nervana implements the tensors of the Nervana Graph documentation. It is for programs that plan tensors
// before memory is allocated, such as compilers of computation graphs. It is also for programs that pad, join or
// traverse tensors in place.
//
//	shape, _ := layout.ParsePartialShape("[?,3]") // any number of rows
//	batch := &nervana.Description{DType: dlpack.Float32, Shape: shape, Role: nervana.Placeholder}
//	bound, err := batch.Bind(t) // a view of t, if t is float32 with 3 columns
//
// The types are:
//
//   - A [Description] holds the known properties of a tensor: data type, shape, layout, access and [Role]. The program
//     refines it step by step. Then [Description.Allocate] makes the tensor, or [Description.Bind] checks that an
//     existing tensor fits.
//   - A [Composite] is a view of several tensors, padded or concatenated. [Compose] writes it to a tensor.
//   - A [Walk] visits the elements of several tensors of the same shape together, in the order of their memory.
//
// Without cgo, the package has everything that needs no tensor: [Composite], [Walk], and [Description] without Allocate
// and Bind.
package nervana
